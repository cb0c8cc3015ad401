package simulate

import (
	"fmt"

	"github.com/a-seed-a7aed72f/holdfast/community"
	"github.com/a-seed-a7aed72f/holdfast/paidaction"
)

// moneyKinds are about money alone.
var moneyKinds = []*kind{
	{name: community.KindDonate, weight: 3, anonymous: true, methods: heldFirst,
		args:  func(_ *world, r *request) any { return community.DonateArgs{Sats: r.sats(10)} },
		price: exactly("sats", 1000), shares: nobodys},
	{name: community.KindBuyCredits, weight: 3,
		methods: []paidaction.Method{paidaction.RewardSats, paidaction.Pessimistic},
		args:    func(_ *world, r *request) any { return community.BuyCreditsArgs{Credits: r.sats(10)} },
		price:   exactly("credits", 1000),
		shares:  func(_ *model, a *attempt) []share { return []share{{*a.payer, credits, a.cost}} }},
	{name: community.KindReceive, weight: 4, anonymous: true,
		methods: []paidaction.Method{paidaction.P2P, paidaction.Pessimistic},
		args: func(w *world, r *request) any {
			return community.ReceiveArgs{User: w.people[1+r.draw%uint64(len(w.people)-1)], Msat: r.sats(20) * 1000}
		},
		price: exactly("msat", 1),
		shares: func(_ *model, a *attempt) []share {
			return []share{{number(a.args["user"]), sats, a.cost / 10 * 9}}
		}},
	{name: community.KindWithdraw, weight: 5, methods: []paidaction.Method{paidaction.Outgoing}, args: withdrawArgs,
		price: func(m *model, a *attempt) (int64, int64) {
			price := a.leaving.amount + number(a.args["maxFeeSats"])*1000
			if a.leaving.inside != nil {
				price = a.leaving.amount
			}
			return price, price
		},
		shares: nobodys},
	{name: community.KindInviteGift, weight: 2, first: true, methods: []paidaction.Method{paidaction.FeeCredit},
		args: func(w *world, r *request) any {
			return community.InviteGiftArgs{Code: w.model.invite.Code, User: w.model.newcomers[r.draw%uint64(len(w.model.newcomers))]}
		},
		price:  func(m *model, _ *attempt) (int64, int64) { return giftSats * 1000, giftSats * 1000 },
		shares: func(_ *model, a *attempt) []share { return []share{{number(a.args["user"]), credits, a.cost}} },
		leaves: func(m *model, a *attempt) { m.gifts = append(m.gifts, a) }},
}

// The only invite: from the first person, for fewer users than may want it.
const (
	giftSats  = 7
	giftLimit = 1
)

// withdrawArgs names an invoice of somebody outside, an address, or the invoice of another act here.
func withdrawArgs(w *world, r *request) any {
	args := community.WithdrawArgs{MaxFeeSats: int64(r.draw % 40)}
	outside := w.outside[r.draw%uint64(len(w.outside))]
	if r.again {
		from := w.outside[0]
		if r.draw>>24%8 == 0 { // one that may be wrapped, or was
			from = w.wallets.all[r.draw>>32%uint64(len(w.wallets.all))]
		}
		args.To = w.wallets.offerAgain(from, paidaction.Msat(r.sats(20)*1000), r.label).Bolt11
		return args
	}
	switch r.draw >> 16 % 4 {
	case 0:
		args.To, args.Sats, args.Comment = fmt.Sprintf("%d@outside", outside.id), new(r.sats(20)), fmt.Sprintf("act %d", r.id) // an invoice takes none
	case 1:
		if invoices := w.model.openInvoices(); len(invoices) > 0 {
			args.To = invoices[r.draw>>20%uint64(len(invoices))]
			break
		}
		fallthrough
	default:
		args.To = w.wallets.issue(outside, paidaction.Msat(r.sats(20)*1000), fmt.Sprintf("act %d", r.id)).Bolt11
	}
	return args
}

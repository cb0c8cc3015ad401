package simulate

import (
	"fmt"

	"github.com/a-seed-a7aed72f/holdfast/community"
	"github.com/a-seed-a7aed72f/holdfast/paidaction"
)

// kind is what the simulation has to know of one kind of action: how people ask for it, and, written down a second time and without a
// look at the code under test, what it costs and whose the money is. Its amounts tell the acts of a plan apart.
type kind struct {
	name      string
	weight    int // how often it is drawn
	anonymous bool
	methods   []paidaction.Method // that may be forced
	args      func(w *world, a *act) any
	// price says between what bounds the price must lie, in msat.
	price func(m *model, a *attempt) (least, most int64)
	// shares are the parts of the price that are somebody's; the rest is the rewards'.
	shares func(m *model, a *attempt) []share
	peers  bool // its shares can be paid directly
}

// share is what somebody gets of a price.
type share struct {
	user  int64
	asset asset
	msat  int64
}

type asset int

const (
	credits asset = iota
	sats
	same // as it was paid in
)

// kinds are all of them: one entry each.
var kinds = []*kind{
	{name: community.KindZap, weight: 8, anonymous: true, peers: true,
		methods: []paidaction.Method{paidaction.P2P, paidaction.P2P, paidaction.FeeCredit, paidaction.RewardSats, paidaction.Optimistic, paidaction.Pessimistic},
		args: func(w *world, a *act) any {
			return community.ZapArgs{Item: w.model.items[a.draw%uint64(len(w.model.items))].id, Sats: a.sats(20)}
		},
		price: exactly("sats", 1000), shares: zapShares},
	{name: community.KindItemCreate, weight: 4, anonymous: true,
		methods: []paidaction.Method{paidaction.FeeCredit, paidaction.RewardSats, paidaction.Optimistic, paidaction.Pessimistic},
		args: func(w *world, a *act) any {
			if a.draw%3 == 0 {
				return community.ItemCreateArgs{Title: fmt.Sprintf("post %d", a.id), Body: "@u1"}
			}
			return community.ItemCreateArgs{Body: fmt.Sprintf("comment %d", a.id), Parent: w.model.items[a.draw%uint64(len(w.model.items))].id}
		},
		price: itemPrice, shares: itemShares},
	{name: community.KindDonate, weight: 3, anonymous: true,
		methods: []paidaction.Method{paidaction.FeeCredit, paidaction.RewardSats, paidaction.Pessimistic},
		args:    func(_ *world, a *act) any { return community.DonateArgs{Sats: a.sats(10)} },
		price:   exactly("sats", 1000), shares: nobodys},
	{name: community.KindBuyCredits, weight: 3,
		methods: []paidaction.Method{paidaction.RewardSats, paidaction.Pessimistic},
		args:    func(_ *world, a *act) any { return community.BuyCreditsArgs{Credits: a.sats(10)} },
		price:   exactly("credits", 1000),
		shares:  func(_ *model, a *attempt) []share { return []share{{*a.payer, credits, a.cost}} }},
	{name: community.KindReceive, weight: 4, anonymous: true, peers: true,
		methods: []paidaction.Method{paidaction.P2P, paidaction.Pessimistic},
		args: func(w *world, a *act) any {
			return community.ReceiveArgs{User: w.people[1+a.draw%uint64(len(w.people)-1)], Msat: a.sats(20) * 1000}
		},
		price: exactly("msat", 1),
		shares: func(_ *model, a *attempt) []share {
			return []share{{number(a.args["user"]), sats, a.cost / 10 * 9}}
		}},
	{name: community.KindWithdraw, weight: 5, methods: []paidaction.Method{paidaction.Outgoing}, args: withdrawArgs,
		price: func(m *model, a *attempt) (int64, int64) {
			price := a.leaves.amount + number(a.args["maxFeeSats"])*1000
			if a.leaves.inside != nil {
				price = a.leaves.amount
			}
			return price, price
		},
		shares: nobodys},
}

// sats is an amount that no other act of the plan names.
func (a *act) sats(most uint64) int64 { return int64(a.id) + 100*int64(a.draw>>8%most) }

func number(v any) int64 {
	n, _ := v.(float64)
	return int64(n)
}

func exactly(arg string, factor int64) func(*model, *attempt) (int64, int64) {
	return func(_ *model, a *attempt) (int64, int64) {
		price := number(a.args[arg]) * factor
		return price, price
	}
}

func nobodys(*model, *attempt) []share { return nil }

// zapShares: 30 % are the fee of the territory or the rewards; of the rest each forwardee has a percentage, and the author what is left.
func zapShares(m *model, a *attempt) []share {
	it := m.item(number(a.args["item"]))
	fee := a.cost * 30 / 100
	rest := a.cost - fee
	left := rest
	var all []share
	for _, f := range it.forwards {
		part := rest * int64(f.pct) / 100
		all = append(all, share{f.user, credits, part})
		left -= part
	}
	if it.author != 0 {
		all = append(all, share{it.author, credits, left})
	}
	if it.founder == 0 {
		return all
	}
	if a.direct != nil {
		// What was paid directly may be less than the share by what the receiver's wallet has cut off; the routing budget comes out of
		// the fee.
		fee = a.cost - a.direct.amount - a.direct.budget
		for _, s := range all {
			if s.user != a.direct.receiver {
				fee -= s.msat
			}
		}
		if it.author == 0 {
			fee = min(a.cost*30/100, fee)
		}
	}
	return append(all, share{it.founder, same, fee * 70 / 100})
}

// itemPrice: one sat, ten times as much for the anonymous, and at most ten times as much for each other item of the author's. That it is
// not too little is checked over all items of an author (see spam).
func itemPrice(m *model, a *attempt) (least, most int64) {
	base := int64(1000)
	if parent := number(a.args["parent"]); parent != 0 && m.item(parent).founder != 0 {
		base = m.replyCost
	}
	if a.payer == nil {
		return base * 10, base * 10
	}
	most = base
	for _, it := range m.items {
		if it.author == *a.payer {
			most *= 10
		}
	}
	for _, other := range m.attempts {
		if other.kind == a.kind && other.payer != nil && *other.payer == *a.payer && other.genesis != a.genesis && most < 1e15 {
			most *= 10
		}
	}
	return base, most
}

// itemShares: seven tenths of the fee are the founder's, where there is one.
func itemShares(m *model, a *attempt) []share {
	parent := number(a.args["parent"])
	if parent == 0 || m.item(parent).founder == 0 {
		return nil
	}
	return []share{{m.item(parent).founder, same, a.cost * 70 / 100}}
}

// withdrawArgs names an invoice of somebody outside, an address, or an invoice of another act here.
func withdrawArgs(w *world, a *act) any {
	args := community.WithdrawArgs{MaxFeeSats: int64(a.draw % 40), Comment: fmt.Sprintf("act %d", a.id)}
	outside := w.outside[a.draw%uint64(len(w.outside))]
	switch a.draw >> 16 % 4 {
	case 0:
		args.To, args.Sats = fmt.Sprintf("%d@outside", outside.id), a.sats(20)
	case 1:
		if invoices := w.model.openInvoices(); len(invoices) > 0 {
			args.To = invoices[a.draw>>20%uint64(len(invoices))]
			break
		}
		fallthrough
	default:
		args.To = w.wallets.issue(outside, paidaction.Msat(a.sats(20)*1000), fmt.Sprintf("act %d", a.id)).Bolt11
	}
	return args
}

package wallet

import (
	"context"
	"errors"
	"strings"
	"unicode/utf8"

	"github.com/a-seed-a7aed72f/holdfast/internal/outside"
	"github.com/a-seed-a7aed72f/holdfast/paidaction"
	"github.com/a-seed-a7aed72f/holdfast/wallet/internal/lnurl"
)

// LightningAddress is a lightning address (user@domain) or an LNURL, in any of its forms, that takes payments.
type LightningAddress struct {
	Address Secret `json:"address"` // an LNURL may hold a token
}

// Kind is LIGHTNING_ADDRESS.
func (LightningAddress) Kind() Kind { return KindLightningAddress }

func (s LightningAddress) tidied(w *Wallets) (Settings, error) {
	s.Address = Secret(strings.TrimSpace(string(s.Address)))
	target, err := lnurl.Parse(string(s.Address))
	if err == nil {
		_, err = w.Outside.Parse(target)
	}
	if errors.Is(err, outside.ErrOwn) {
		return nil, errOwn
	}
	if err != nil {
		return nil, paidaction.Errorf(paidaction.CodeInvalidInput, "This is not a lightning address: give name@domain, an LNURL (lnurl1…) or an https:// address.")
	}
	return s, nil
}

func (s LightningAddress) issue(ctx context.Context, w *Wallets, r Request) (invoice, error) {
	target, err := lnurl.Parse(string(s.Address))
	if err != nil {
		return invoice{}, err
	}
	body, err := w.get(ctx, target)
	if err != nil {
		return invoice{}, err
	}
	pay, err := lnurl.ReadPay(body)
	if err != nil {
		return invoice{}, err
	}
	least, most := paidaction.Msat(pay.Min), paidaction.Msat(pay.Max)
	if r.least {
		r.Amount = max(r.Amount, least)
	}
	if r.Amount < least || r.Amount > most {
		return invoice{}, paidaction.Errorf(CodeAmount, "The wallet takes %s to %s msat at a time, and was asked for %s.", least, most, r.Amount)
	}
	if r.leaves && utf8.RuneCountInString(r.Memo) > pay.Comment {
		return invoice{}, paidaction.Errorf(paidaction.CodeInvalidInput, "The address takes a comment of %d characters at most. Shorten it, or leave it out.", pay.Comment)
	}
	got, err := w.callback(ctx, pay, r.Amount, r.Memo)
	// Some take only whole sats; an invoice that is short by less than a sat will do.
	if whole := r.Amount - r.Amount%1000; err != nil && whole < r.Amount && whole >= max(least, 1) && ctx.Err() == nil {
		got, err = w.callback(ctx, pay, whole, r.Memo)
	}
	if err == nil && r.leaves && got.Action != "" && got.Action != lnurl.ActionMessage {
		return invoice{}, errAction
	}
	return invoice{got.Bolt11, r.Amount}, err
}

// errAction: LUD-09 forbids to pay where what the payer gets for it cannot be given to them. Of LUD-10 even the key is
// the payment's preimage, but what it opens is in this answer alone.
var errAction = paidaction.Errorf(paidaction.CodeInvalidInput, "With this payment the address gives you something that cannot be shown here. Withdraw to a wallet of yours, and pay from there.")

func (w *Wallets) callback(ctx context.Context, pay *lnurl.Pay, amount paidaction.Msat, comment string) (lnurl.Invoice, error) {
	body, err := w.get(ctx, pay.Callback(int64(amount), comment))
	if err != nil {
		return lnurl.Invoice{}, err
	}
	return lnurl.ReadInvoice(body)
}

// get reads JSON, whatever the status: LUD-06 reports errors in the body, and servers disagree about the status with
// it.
func (w *Wallets) get(ctx context.Context, target string) ([]byte, error) {
	answer, err := w.Outside.Do(ctx, outside.Request{URL: target})
	if err != nil {
		return nil, err
	}
	if len(answer.Body) == 0 || answer.Body[0] != '{' {
		if err := ofStatus(answer.Status); err != nil {
			return nil, err
		}
	}
	return answer.Body, nil
}

// Address gets an invoice from anybody's lightning address or LNURL, for a payment that leaves. The error is a refusal,
// or the end of ctx: also if the comment would have to be cut, or if the payer would get something with the payment that
// is not given to them here (LUD-09; a message is passed by). The node has yet to read the invoice, so its amount is not
// checked yet.
func (w *Wallets) Address(ctx context.Context, address string, amount paidaction.Msat, comment string) (bolt11 string, err error) {
	s, err := LightningAddress{Secret(address)}.tidied(w)
	if err != nil {
		return "", err
	}
	got, err := w.ask(ctx, s, Request{Amount: amount, Memo: comment, leaves: true})
	return got.bolt11, err
}

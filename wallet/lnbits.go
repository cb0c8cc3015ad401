package wallet

import (
	"cmp"
	"context"
	"regexp"
	"strings"

	"github.com/a-seed-a7aed72f/holdfast/paidaction"
)

// LNbits is a wallet on an LNbits server.
type LNbits struct {
	URL string `json:"url"`
	Key Secret `json:"key"` // the invoice/read key suffices
}

// Kind is LNBITS.
func (LNbits) Kind() Kind { return KindLNbits }

var lnbitsKey = regexp.MustCompile(`^[0-9A-Za-z_-]{8,128}$`)

func (s LNbits) tidied(w *Wallets) (Settings, error) {
	var err error
	if s.URL, err = w.base(s.URL); err != nil {
		return nil, err
	}
	if s.Key = Secret(strings.TrimSpace(string(s.Key))); !lnbitsKey.MatchString(string(s.Key)) {
		return nil, paidaction.Errorf(paidaction.CodeInvalidInput, "The key must be the wallet's invoice/read key, as LNbits shows it.")
	}
	return s, nil
}

// issue asks for whole sats, since LNbits knows no fractions. The invoice can be short by less than a sat.
func (s LNbits) issue(ctx context.Context, w *Wallets, r Request) (invoice, error) {
	sats := r.Amount.Sats()
	if sats == 0 {
		return invoice{}, paidaction.Errorf(CodeAmount, "The wallet takes whole sats only, and was asked for %s msat.", r.Amount)
	}
	var made struct {
		Bolt11         string `json:"bolt11"`          // since 1.0
		PaymentRequest string `json:"payment_request"` // before
	}
	err := w.post(ctx, s.URL+"/api/v1/payments", "X-Api-Key", s.Key, nil, map[string]any{
		"out": false, "amount": sats, "unit": "sat", "memo": r.Memo, "expiry": int64(r.Expiry.Seconds()),
	}, &made)
	return invoice{cmp.Or(made.Bolt11, made.PaymentRequest), r.Amount}, err
}

package paidaction_test

import (
	"testing"

	"github.com/a-seed-a7aed72f/holdfast/community"
	"github.com/a-seed-a7aed72f/holdfast/internal/enginetest"
	"github.com/a-seed-a7aed72f/holdfast/ledger"
	"github.com/a-seed-a7aed72f/holdfast/paidaction"
)

// What costs more than its payer agreed to is refused, by whatever method and in company too; at that price it is done.
func TestNobodyPaysMoreThanTheyAgreedTo(t *testing.T) {
	t.Parallel()
	w := enginetest.New(t, paidaction.Settings{})
	author, payer := w.User("author", 100*sat, 0), w.User("payer", 100*sat, 100*sat)
	item := w.Post(author, "a post")
	for name, r := range map[string]paidaction.Request{
		"a zap, which is paid in company": {Kind: community.KindZap, Args: community.ZapArgs{Item: item, Sats: 10}},
		"a donation from credits":         {Kind: community.KindDonate, Args: community.DonateArgs{Sats: 10}, Terms: paidaction.Terms{Method: paidaction.FeeCredit}},
		"a donation from sats":            {Kind: community.KindDonate, Args: community.DonateArgs{Sats: 10}, Terms: paidaction.Terms{Method: paidaction.RewardSats}},
		"a donation by invoice":           {Kind: community.KindDonate, Args: community.DonateArgs{Sats: 10}, Terms: paidaction.Terms{Method: paidaction.Pessimistic}},
	} {
		before := w.Count(`SELECT count(*) FROM paid_action`)
		r.Caller = enginetest.Caller(payer)
		for _, most := range []paidaction.Msat{0, 10*sat - 1} {
			r.MaxCost = &most
			_, err := w.Engine.Pay(w.Ctx, r)
			w.WantRefusal(err, paidaction.CodePriceChanged)
			if refusal, _ := paidaction.AsRefusal(err); refusal.Cost != 10*sat {
				t.Errorf("%s: it is said to cost %d", name, refusal.Cost)
			}
		}
		if n := w.Count(`SELECT count(*) FROM paid_action`); n != before {
			t.Errorf("%s: %d actions were begun", name, n-before)
		}
		r.MaxCost = new(10 * paidaction.Msat(sat))
		if pa, err := w.Engine.Pay(w.Ctx, r); err != nil || pa.Cost != 10*sat {
			t.Errorf("%s, at the price that was agreed to: %+v, error %v", name, pa, err)
		}
	}
	w.WantBalance(ledger.UserCredits(payer), 80*sat)
	w.WantBalance(ledger.UserSats(payer), 90*sat)
}

// A new attempt has the price of its moment, and its payer agrees to it, or not, and to how it is paid.
func TestAnAttemptIsTriedAgainOnTermsOfItsOwn(t *testing.T) {
	t.Parallel()
	w := enginetest.New(t, paidaction.Settings{})
	payer := w.User("payer", 100*sat, 0)
	pa := w.Pay(payer, community.KindDonate, community.DonateArgs{Sats: 10}, paidaction.Pessimistic)
	if _, err := w.Engine.Cancel(w.Ctx, enginetest.Caller(payer), pa.ID); err != nil {
		t.Fatal(err)
	}
	w.Drain()
	w.WantState(pa.ID, paidaction.Failed)
	_, err := w.Engine.Retry(w.Ctx, enginetest.Caller(payer), pa.ID, "", paidaction.Terms{MaxCost: new(paidaction.Msat(9 * sat))}, nil)
	w.WantRefusal(err, paidaction.CodePriceChanged)
	again, err := w.Engine.Retry(w.Ctx, enginetest.Caller(payer), pa.ID, "", paidaction.Terms{Method: paidaction.Pessimistic, MaxCost: new(paidaction.Msat(10 * sat))}, nil)
	if err != nil || again.State != paidaction.PendingHeld {
		t.Errorf("by invoice, though the balance suffices: %+v, error %v", again, err)
	}
	w.WantBalance(ledger.UserCredits(payer), 100*sat)
}

// free is broken, and can cost nothing.
type free struct{ broken }

func (f free) Spec() paidaction.Spec {
	s := f.broken.Spec()
	s.Free = true
	return s
}

// What costs nothing is done at once, whatever its payer would have paid with: an invoice over nothing could be paid with any amount.
func TestWhatCostsNothingNeedsNoMethod(t *testing.T) {
	t.Parallel()
	w := enginetest.New(t, paidaction.Settings{}, paidaction.Define(free{broken{price: new(paidaction.Msat(0)), perform: func(*paidaction.Tx) error { return nil }}}))
	user := w.User("payer", 0, 0)
	for _, method := range []paidaction.Method{"", paidaction.FeeCredit, paidaction.Pessimistic} {
		pa, err := w.Try(user, "BROKEN", struct{}{}, method, "")
		if err != nil || pa.State != paidaction.Paid || pa.Method != paidaction.ZeroCost || pa.Invoice != nil {
			t.Errorf("by %q: %+v, error %v", method, pa, err)
		}
	}
}

package relay_test

import (
	"testing"
	"time"

	"github.com/a-seed-a7aed72f/holdfast/lightning/simnode"
	"github.com/a-seed-a7aed72f/holdfast/paidaction"
)

// Spec 03 §3.2: a receiver who lets payments hang holds a bounded number of them, and a bounded sum; what is above goes back at once.
func TestAReceiverWhoLetsPaymentsHangIsBounded(t *testing.T) {
	b := setup(t)
	b.Run(b.Relay)
	last := b.zap()
	for i := range 10 {
		b.wallet.Ask.Act = simnode.Holds
		stage := "in_work"
		if i == 0 { // one part was taken, and the rest hangs as well
			b.wallet.Ask.Act, stage = simnode.Splits, "pending_confirmation"
		}
		pa := b.zap()
		b.pay(pa)
		b.AwaitStage(pa.ID, stage)
	}
	if err := b.Node.PayHash(last.Invoice.Hash, simnode.Payment{}); err != nil {
		t.Fatal(err)
	}
	for b.Advance(last.ID) == paidaction.Moved {
	}
	if failed := b.WantState(last.ID, paidaction.Failed); failed.Failure.Code != paidaction.CodeReceiverBusy {
		t.Errorf("%v", failed.Failure)
	}
	b.wantOuter(last, paidaction.InvoiceCanceled)
	if n := b.Count(`SELECT count(*) FROM relay_payment WHERE action_id = $1`, last.ID); n != 0 {
		t.Error("it entered the pipeline")
	}
	// Another receiver is not held up.
	other := b.User("other", 100_000, 0)
	b.item, b.wallet = b.Post(other, "another post"), b.Wallets.Add(other)
	pa := b.zap()
	b.pay(pa)
	b.Await(pa.ID, paidaction.Paid)
	b.wantReceived(pa, 70_000)
}

// What would only go back to its payer is not wrapped: it is paid in another way. It counts with its budget, as what
// hangs does.
func TestNothingIsWrappedThatWouldGoBack(t *testing.T) {
	t.Parallel()
	payments := func(n int, ago time.Duration) func(*bundle) {
		return func(b *bundle) {
			b.wallet.Ask.Act = simnode.Holds
			for range n {
				pa := b.zap()
				b.pay(pa)
				b.AwaitStage(pa.ID, "in_work")
			}
			b.Clock.Advance(ago)
		}
	}
	probes := func(b *bundle) {
		b.wallet.Ask.Act = simnode.HangsProbes
		b.asks()
		b.Clock.Advance(5 * time.Second)
	}
	for name, c := range map[string]struct {
		settings paidaction.Settings
		hang     func(*bundle)
		wrapped  bool
	}{
		"one payment of two":          {paidaction.Settings{MaxForwards: 2}, payments(1, 5*time.Second), true},
		"two payments of two":         {paidaction.Settings{MaxForwards: 2}, payments(2, 5*time.Second), false},
		"two that have just begun":    {paidaction.Settings{MaxForwards: 2}, payments(2, 4*time.Second), true},
		"a probe of one":              {paidaction.Settings{MaxForwards: 1}, probes, false},
		"a probe of the whole sum":    {paidaction.Settings{MaxForwarded: 73_000}, probes, false},
		"the sum of two payments":     {paidaction.Settings{MaxForwarded: 2 * 73_000}, payments(1, 5*time.Second), true},
		"less":                        {paidaction.Settings{MaxForwarded: 2*73_000 - 1}, payments(1, 5*time.Second), false},
		"the sum of one payment":      {paidaction.Settings{MaxForwarded: 73_000}, payments(0, 5*time.Second), true},
		"a sum that nothing is below": {paidaction.Settings{MaxForwarded: 72_999}, payments(0, 5*time.Second), false},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			b := newBundle(t, c.settings, "one")
			b.Run(b.Relay)
			c.hang(b)
			b.wallet.Ask.Act = simnode.Pays
			if m := b.asks(); (m == paidaction.P2P) != c.wrapped {
				t.Errorf("it is paid by %s", m)
			}
			if !c.wrapped {
				b.full()
			}
		})
	}
}

package relay_test

import (
	"testing"
	"time"

	"github.com/a-seed-a7aed72f/holdfast/lightning/simnode"
	"github.com/a-seed-a7aed72f/holdfast/paidaction"
)

// What a receiver lets hang is past its deadline for hours. The sweep of what is overdue, which each process makes every
// second, does not ask its node again and again; the audit, the action's own job and the full sweep find its end.
func TestTheOverdueSweepAsksNoNodeAboutWhatHangs(t *testing.T) {
	b := setup(t)
	b.wallet.Ask.Act = simnode.Holds
	stop := b.Run(b.Relay)
	var hanging []*paidaction.PaidAction
	for range 3 {
		pa := b.zap()
		b.pay(pa)
		b.AwaitShown(pa.ID)
		hanging = append(hanging, pa)
	}
	stop() // else the process that sent them hears of their ends
	b.Clock.Advance(b.Engine.Settings.InvoiceExpiry + time.Minute)
	b.Node.ForgetCalls()
	for range 10 {
		if _, err := b.Engine.SweepOverdue(b.Ctx); err != nil {
			t.Fatal(err)
		}
	}
	for _, pa := range hanging {
		b.WantState(pa.ID, paidaction.Forwarding)
		if n := b.Node.Count(simnode.MethodTrack, pa.Invoice.Hash); n != 0 {
			t.Errorf("the node was asked %d times", n)
		}
	}
	for i, by := range []struct {
		name string
		find func() error
	}{
		{"its own job", func() error { b.Drain(); return nil }},
		{"the audit", func() error { return b.Relay.Audit(b.Ctx, "one", b.Engine.Advance) }},
		{"the full sweep", func() error { _, err := b.Engine.Sweep(b.Ctx); return err }},
	} {
		pa := hanging[i]
		b.WantState(pa.ID, paidaction.Forwarding) // also those before it have not ended it
		if err := b.wallet.Receiver.Settle(pa.Invoice.Hash); err != nil {
			t.Fatal(err)
		}
		if err := by.find(); err != nil {
			t.Fatal(err)
		}
		if got := b.Look(pa.ID); got.State != paidaction.Paid {
			t.Errorf("by %s it is %s", by.name, got.State)
		}
	}
	b.wantSound()
}

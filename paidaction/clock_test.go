package paidaction_test

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/a-seed-a7aed72f/holdfast/community"
	"github.com/a-seed-a7aed72f/holdfast/internal/enginetest"
	"github.com/a-seed-a7aed72f/holdfast/lightning/simnode"
	"github.com/a-seed-a7aed72f/holdfast/paidaction"
)

// A process whose clock is ahead of the others' cancels no invoice, whoever brings the action on. What the node says by its own clock counts.
func TestAClockThatIsNotConfirmedCancelsNothing(t *testing.T) {
	for name, method := range map[string]paidaction.Method{"optimistic": paidaction.Optimistic, "pessimistic": paidaction.Pessimistic} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := enginetest.New(t, paidaction.Settings{})
			pa := zap(w, w.User("payer", 0, 0), method)
			w.Clock.Advance(11 * time.Minute)
			ahead := errors.New("the clock is ahead")
			engine := *w.Engine
			engine.ConfirmClock = func(context.Context) error { return ahead }
			if _, err := engine.Drive(w.Ctx, pa.ID); !errors.Is(err, ahead) {
				t.Errorf("driven: %v", err)
			}
			if moved, err := engine.Sweep(w.Ctx); moved != 0 || err != nil {
				t.Errorf("a sweep took %d steps, %v", moved, err)
			}
			if moved, err := engine.SweepOverdue(w.Ctx); moved != 0 || !errors.Is(err, ahead) {
				t.Errorf("a sweep of what is overdue took %d steps, %v", moved, err)
			}
			if got := w.WantState(pa.ID, pa.State); got.Failure != nil {
				t.Errorf("%v", got.Failure)
			}
			if inv, _ := w.Node.Inspect(pa.Invoice.Hash); inv.State != paidaction.InvoiceOpen {
				t.Errorf("the invoice is %s", inv.State)
			}
			w.Node.Tick()
			if _, err := engine.Sweep(w.Ctx); err != nil {
				t.Error(err)
			}
			w.WantState(pa.ID, paidaction.Failed)
		})
	}
}

// Nor does it give up an invoice that a node may still be at work on, for another process.
func TestAClockThatIsNotConfirmedGivesNoInvoiceUp(t *testing.T) {
	t.Parallel()
	w := enginetest.New(t, paidaction.Settings{})
	w.Node.Before(simnode.MethodOpen, func(paidaction.Hash) {
		w.Clock.Advance(time.Hour)
		ahead := errors.New("the clock is ahead")
		engine := *w.Engine
		engine.ConfirmClock = func(context.Context) error { return ahead }
		id := w.Count(`SELECT max(id) FROM paid_action`)
		if _, err := engine.Drive(w.Ctx, id); !errors.Is(err, ahead) {
			t.Errorf("driven: %v", err)
		}
		w.WantState(id, paidaction.PendingHeld)
		w.Clock.Advance(-time.Hour)
	})
	pa := donate(w, 0, "")
	pay(w, pa, simnode.Payment{})
	if _, err := w.Engine.Drive(w.Ctx, pa.ID); err != nil {
		t.Fatal(err)
	}
	w.WantState(pa.ID, paidaction.Paid)
}

// The shortest time that an invoice may be given is enough for one: its node counts whole seconds, and is asked a moment
// after the first has begun. An engine that would give less is not made.
func TestTheShortestInvoiceCanBeMade(t *testing.T) {
	t.Parallel()
	w := enginetest.New(t, paidaction.Settings{InvoiceExpiry: paidaction.MinInvoiceExpiry})
	w.Engine.Now = func() time.Time { w.Clock.Advance(time.Millisecond); return w.Clock.Now() }
	if pa := w.Pay(w.User("payer", 0, 0), community.KindDonate, community.DonateArgs{Sats: 10}, ""); pa.Invoice.Bolt11 == "" {
		t.Error("there is no invoice")
	}
	config := w.Engine.Config
	config.Settings = paidaction.Settings{InvoiceExpiry: paidaction.MinInvoiceExpiry - time.Millisecond}
	if _, err := paidaction.New(config); err == nil {
		t.Error("an engine with less is made")
	}
}

// A held payment has at least 24 blocks above its safety height (spec 01 §1.5): an engine whose invoices would leave
// fewer is not made.
func TestAnInvoiceLeavesBlocksToSettle(t *testing.T) {
	t.Parallel()
	config := enginetest.New(t, paidaction.Settings{}).Engine.Config
	for delta, ok := range map[uint32]bool{17 + 11 + 24: true, 17 + 11 + 23: false} {
		config.Settings = paidaction.Settings{HoldExpiryDelta: 17, SafetyBlocks: 11, CLTVDelta: delta}
		if _, err := paidaction.New(config); (err == nil) != ok {
			t.Errorf("a final CLTV of %d blocks: %v", delta, err)
		}
	}
}

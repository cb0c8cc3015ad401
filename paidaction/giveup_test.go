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

const theDiskIsGone = "Our node has lost its data. If you had paid, write to us."

// wantNotGivenUp fails the test unless an action cannot be given up, and nothing changes.
func wantNotGivenUp(w *enginetest.World, id int64, why string) {
	w.Helper()
	before := w.Look(id).State
	if err := w.Engine.GiveUp(w.Ctx, id, theDiskIsGone); !errors.Is(err, paidaction.ErrNotGivenUp) {
		w.Errorf("%s: got %v", why, err)
	}
	w.WantState(id, before)
}

// Spec 05.16e: what waits at a node that has lost its data for good waits for ever, and counts among its payer's open
// invoices. An operator ends that.
func TestWhatWaitsAtAWipedNodeIsGivenUp(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		method paidaction.Method
		comes  func(w *enginetest.World, pa *paidaction.PaidAction)
		state  paidaction.State
	}{
		"an open plain invoice": {paidaction.Optimistic, nil, paidaction.Pending},
		"an open hold invoice":  {paidaction.Pessimistic, nil, paidaction.PendingHeld},
		"a held payment": {paidaction.Pessimistic, func(w *enginetest.World, pa *paidaction.PaidAction) {
			pay(w, pa, simnode.Payment{})
		}, paidaction.PendingHeld},
		"a held payment that was to go back": {paidaction.Pessimistic, func(w *enginetest.World, pa *paidaction.PaidAction) {
			pay(w, pa, simnode.Payment{})
			cancelUnheard(w, pa)
		}, paidaction.Canceling},
		"a plain invoice that was to be closed": {paidaction.Optimistic, cancelUnheard, paidaction.Canceling},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := enginetest.New(t, paidaction.Settings{MaxPending: 1})
			user := w.User("payer", 0, 0)
			pa := w.Pay(user, community.KindItemCreate, community.ItemCreateArgs{Title: "a post"}, c.method)
			if c.comes != nil {
				c.comes(w, pa)
			}
			w.WantState(pa.ID, c.state)
			w.Clock.Advance(time.Hour)
			wantNotGivenUp(w, pa.ID, "its node knows it")
			w.Node.SetAway(true)
			wantNotGivenUp(w, pa.ID, "its node is away")
			w.Node.SetAway(false)
			w.Node.Wipe()
			if p, err := w.Engine.Advance(w.Ctx, pa.ID); p != paidaction.Owing || err == nil {
				t.Errorf("of itself something follows from that: progress %d, error %v", p, err)
			}
			if err := w.Engine.GiveUp(w.Ctx, pa.ID, " "); !errors.Is(err, paidaction.ErrNotGivenUp) {
				t.Errorf("without a reason: %v", err)
			}
			w.WantState(pa.ID, c.state)
			if err := w.Engine.GiveUp(w.Ctx, pa.ID, theDiskIsGone); err != nil {
				t.Fatal(err)
			}
			w.Drain()
			if got := w.WantState(pa.ID, paidaction.Failed); got.Failure == nil || got.Failure.Code != paidaction.CodeInternal || got.Failure.Message != theDiskIsGone {
				t.Errorf("its payer is told %+v", got.Failure)
			}
			if n := w.Count(`SELECT count(*) FROM item WHERE state = 'PAID'`); n != 0 {
				t.Error("the post is there")
			}
			w.WantSound()
			wantNotGivenUp(w, pa.ID, "it has failed")
			donate(w, user, "") // it no longer counts as open
		})
	}
}

func cancelUnheard(w *enginetest.World, pa *paidaction.PaidAction) {
	w.Helper()
	w.Node.FailBefore(simnode.MethodCancel, 1)
	if _, err := w.Engine.Cancel(w.Ctx, enginetest.Caller(*pa.Payer), pa.ID); err != nil {
		w.Fatal(err)
	}
}

// Should the data come back, an invoice that has not expired could still be paid; by a clock that is ahead it has.
func TestAnInvoiceThatCanBePaidIsNotGivenUp(t *testing.T) {
	t.Parallel()
	w := enginetest.New(t, paidaction.Settings{})
	pa := w.Pay(w.User("payer", 0, 0), community.KindItemCreate, community.ItemCreateArgs{Title: "a post"}, paidaction.Optimistic)
	w.Node.Wipe()
	w.Clock.Advance(pa.Invoice.ExpiresAt.Sub(w.Clock.Now()) - time.Second)
	wantNotGivenUp(w, pa.ID, "it has a second left")
	w.Clock.Advance(time.Second)
	wrong := errors.New("the clock is ahead")
	w.Engine.ConfirmClock = func(ctx context.Context) error { return wrong }
	wantNotGivenUp(w, pa.ID, "the clock may be wrong")
}

// In a database that may be older than what was done, a payment may have been taken already.
func TestNothingIsGivenUpWhileTheDatabaseIsInDoubt(t *testing.T) {
	t.Parallel()
	w := enginetest.New(t, paidaction.Settings{})
	pa := donate(w, w.User("payer", 0, 0), paidaction.Pessimistic)
	w.Node.Wipe()
	w.Clock.Advance(time.Hour)
	w.Engine.MayBegin = func() error { return paidaction.Errorf(paidaction.CodeTryAgain, "Not now.") }
	w.WantRefusal(w.Engine.GiveUp(w.Ctx, pa.ID, theDiskIsGone), paidaction.CodeTryAgain)
	w.WantState(pa.ID, paidaction.PendingHeld)
}

// What was held and performed has probably been taken: that its node does not know it ends nothing.
func TestWhatMayHaveBeenTakenIsNotGivenUp(t *testing.T) {
	t.Parallel()
	w := enginetest.New(t, paidaction.Settings{})
	user := w.User("payer", 100*sat, 0)
	pa, paid := donate(w, user, paidaction.Pessimistic), donate(w, user, "")
	pay(w, pa, simnode.Payment{})
	w.Advance(pa.ID)
	w.WantState(pa.ID, paidaction.Held)
	w.Node.Wipe()
	w.Clock.Advance(time.Hour)
	wantNotGivenUp(w, pa.ID, "it was held")
	wantNotGivenUp(w, paid.ID, "it has no invoice")
	if err := w.Engine.GiveUp(w.Ctx, paid.ID+1000, theDiskIsGone); !errors.Is(err, paidaction.ErrNoAction) {
		t.Errorf("got %v", err)
	}
}

package paidaction_test

import (
	"errors"
	"testing"
	"time"

	"github.com/a-seed-a7aed72f/holdfast/community"
	"github.com/a-seed-a7aed72f/holdfast/internal/enginetest"
	"github.com/a-seed-a7aed72f/holdfast/ledger"
	"github.com/a-seed-a7aed72f/holdfast/lightning/simnode"
	"github.com/a-seed-a7aed72f/holdfast/paidaction"
	"github.com/a-seed-a7aed72f/holdfast/reconcile"
)

// wantNotWrittenOff fails the test unless an action cannot be written off, and nothing changes.
func wantNotWrittenOff(w *enginetest.World, id int64, reason, why string) {
	w.Helper()
	before, lost := w.Look(id).State, w.Balance(ledger.LossSats)
	if err := w.Engine.WriteOff(w.Ctx, id, reason); !errors.Is(err, paidaction.ErrNotLost) {
		w.Errorf("%s: got %v", why, err)
	}
	w.WantState(id, before)
	w.WantBalance(ledger.LossSats, lost)
}

// Spec 01 §1.8, 3: what was done for a payment that was held counts if the payment was taken, or the loss is booked. A
// node that has lost its data does not say which, and without an operator the action would be HELD for ever.
func TestWhatIsHeldAtAWipedNodeIsWrittenOff(t *testing.T) {
	t.Parallel()
	for name, held := range map[string]func(w *enginetest.World, id int64){
		"settle permitted": func(w *enginetest.World, id int64) {
			w.Node.FailBefore(simnode.MethodSettle, 1_000_000)
			if _, err := w.Engine.Drive(w.Ctx, id); err != nil {
				w.Fatal(err)
			}
		},
		"settle not permitted yet": func(w *enginetest.World, id int64) { w.Advance(id) },
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := enginetest.New(t, paidaction.Settings{})
			user := w.User("payer", 0, 0)
			pa := w.Pay(user, community.KindItemCreate, community.ItemCreateArgs{Title: "a post"}, paidaction.Pessimistic)
			pay(w, pa, simnode.Payment{})
			w.Node.SetAway(true)
			wantNotWrittenOff(w, pa.ID, theDiskIsGone, "nothing was done for it yet")
			w.Node.SetAway(false)
			held(w, pa.ID)
			w.WantState(pa.ID, paidaction.Held)
			wantNotWrittenOff(w, pa.ID, theDiskIsGone, "its node knows it")
			w.Node.SetAway(true)
			wantNotWrittenOff(w, pa.ID, theDiskIsGone, "its node is away")
			w.Node.SetAway(false)
			w.Node.Wipe()
			w.Clock.Advance(time.Hour)
			if p, err := w.Engine.Advance(w.Ctx, pa.ID); p != paidaction.Owing || err == nil {
				t.Errorf("of itself something follows from that: progress %d, error %v", p, err)
			}
			wantNotWrittenOff(w, pa.ID, "", "without a reason")
			wantNotWrittenOff(w, pa.ID, " \n", "with a blank reason")
			if err := w.Engine.WriteOff(w.Ctx, pa.ID, theDiskIsGone); err != nil {
				t.Fatal(err)
			}
			w.Drain()
			if got := w.WantState(pa.ID, paidaction.Paid); got.Failure != nil {
				t.Errorf("its payer is told %+v", got.Failure)
			}
			if n := w.Count(`SELECT count(*) FROM item WHERE state = 'PAID'`); n != 1 {
				t.Error("the post is not there")
			}
			w.WantBalance(ledger.LossSats, -int64(pa.Cost))
			w.WantBalance(ledger.Lightning, 0)
			w.WantSound()
			report, err := reconcile.Run(w.Ctx, reconcile.Config{Pool: w.Pool, Nodes: w.Nodes, Now: w.Clock.Now})
			if err != nil {
				t.Fatal(err)
			}
			if l := report.Losses; len(l) != 1 || *l[0].Action != pa.ID || l[0].Msat != int64(pa.Cost) || l[0].Reason != theDiskIsGone {
				t.Errorf("%d msat are lost, %+v", report.LostMsat, l)
			}
			wantNotWrittenOff(w, pa.ID, theDiskIsGone, "it is over")
		})
	}
}

// Whoever writes it off and whoever settles it after all take one of the two steps.
func TestWhatIsSettledMeanwhileIsNotWrittenOff(t *testing.T) {
	t.Parallel()
	w := enginetest.New(t, paidaction.Settings{})
	pa := donate(w, w.User("payer", 0, 0), paidaction.Pessimistic)
	pay(w, pa, simnode.Payment{})
	w.Node.FailBefore(simnode.MethodSettle, 1)
	_, _ = w.Engine.Drive(w.Ctx, pa.ID) // as far as the settle, which fails once
	w.WantState(pa.ID, paidaction.Held)
	gate, err := w.Pool.Begin(w.Ctx)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := gate.Exec(w.Ctx, `SELECT FROM paid_action WHERE id = $1 FOR UPDATE`, pa.ID); err != nil {
		t.Fatal(err)
	}
	settled := make(chan error, 1)
	go func() {
		_, err := w.Engine.Drive(w.Ctx, pa.ID)
		settled <- err
	}()
	w.AwaitBlocked(1) // its node has said SETTLED
	w.Node.Wipe()
	late := make(chan error, 1)
	go func() { late <- w.Engine.WriteOff(w.Ctx, pa.ID, theDiskIsGone) }()
	w.AwaitBlocked(2)
	if err := gate.Rollback(w.Ctx); err != nil {
		t.Fatal(err)
	}
	if err := <-settled; err != nil {
		t.Error(err)
	}
	if err := <-late; !errors.Is(err, paidaction.ErrNotLost) {
		t.Errorf("got %v", err)
	}
	w.WantState(pa.ID, paidaction.Paid)
	w.WantBalance(ledger.LossSats, 0)
}

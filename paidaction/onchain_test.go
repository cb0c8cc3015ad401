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
)

const tookItBack = "Your payment has not arrived. Pay again."

// postUnpaid is a post whose plain invoice waits for its payer.
func postUnpaid(w *enginetest.World, payer int64) *paidaction.PaidAction {
	w.Helper()
	return w.Pay(payer, community.KindItemCreate, community.ItemCreateArgs{Title: "a post"}, paidaction.Optimistic)
}

// wantOnlyThePrice fails the test unless a paid action counts no more than its price as received.
func wantOnlyThePrice(w *enginetest.World, payer int64, pa *paidaction.PaidAction) {
	w.Helper()
	if paid := w.WantState(pa.ID, paidaction.Paid); paid.Invoice.Received != pa.Cost {
		w.Errorf("%d msat count as received", paid.Invoice.Received)
	}
	w.WantBalance(ledger.UserCredits(payer), 0)
	w.WantSound()
}

// paidByForce is a post whose plain invoice was paid from a channel that its payer closes by force, without a block left.
func paidByForce(t *testing.T, comes func(*enginetest.World, *paidaction.PaidAction) paidaction.Msat) (*enginetest.World, *paidaction.PaidAction) {
	t.Helper()
	w := enginetest.New(t, paidaction.Settings{})
	pa := postUnpaid(w, w.User("payer", 0, 0))
	before := paidaction.Msat(0) // what came from an open channel
	if comes != nil {
		before = comes(w, pa)
	}
	if _, err := w.Node.AddPartByForce(pa.Invoice.Hash, pa.Cost-before, 0); err != nil {
		t.Fatal(err)
	}
	w.Clock.Advance(time.Hour)
	if p, err := w.Engine.Advance(w.Ctx, pa.ID); p != paidaction.Waiting || err != nil {
		t.Fatalf("progress %d, error %v", p, err)
	}
	if n := w.Count(`SELECT count(*) FROM posting WHERE action_id = $1`, pa.ID); n != 0 {
		t.Fatalf("%d postings of what may never arrive", n)
	}
	return w, pa
}

// Spec 05.16f: LND calls a plain invoice settled by what may never arrive. Nothing counts, and nothing is undone, before
// an operator has looked at the chain.
func TestWhatOnlyTheChainShowsIsNotPaid(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		comes func(*enginetest.World, *paidaction.PaidAction) paidaction.Msat
		state paidaction.State
	}{
		"while it waits": {nil, paidaction.Pending},
		"once it was cancelled": {func(w *enginetest.World, pa *paidaction.PaidAction) paidaction.Msat {
			cancelUnheard(w, pa)
			return 0
		}, paidaction.Canceling},
		"the last of its parts": {func(w *enginetest.World, pa *paidaction.PaidAction) paidaction.Msat {
			if _, err := w.Node.AddPart(pa.Invoice.Hash, pa.Cost/2, 0, 0); err != nil {
				w.Fatal(err)
			}
			return pa.Cost / 2
		}, paidaction.Pending},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			t.Run("it arrived", func(t *testing.T) {
				t.Parallel()
				w, pa := paidByForce(t, c.comes)
				w.WantState(pa.ID, c.state)
				if err := w.Engine.GiveUp(w.Ctx, pa.ID, tookItBack); !errors.Is(err, paidaction.ErrNotGivenUp) {
					t.Errorf("it is given up with what its node has forgotten: %v", err)
				}
				if err := w.Engine.Arrived(w.Ctx, pa.ID); err != nil {
					t.Fatal(err)
				}
				w.Drain()
				if got := w.WantState(pa.ID, paidaction.Paid); got.Invoice.Received != pa.Cost {
					t.Errorf("%d msat count as received", got.Invoice.Received)
				}
				w.WantSound()
				if err := w.Engine.Arrived(w.Ctx, pa.ID); !errors.Is(err, paidaction.ErrNotOnChain) {
					t.Errorf("once more: %v", err)
				}
			})
			t.Run("it never arrived", func(t *testing.T) {
				t.Parallel()
				w, pa := paidByForce(t, c.comes)
				if err := w.Engine.NeverArrived(w.Ctx, pa.ID, " "); !errors.Is(err, paidaction.ErrNotOnChain) {
					t.Errorf("without a reason: %v", err)
				}
				w.WantState(pa.ID, c.state)
				if err := w.Engine.NeverArrived(w.Ctx, pa.ID, tookItBack); err != nil {
					t.Fatal(err)
				}
				w.Drain()
				if got := w.WantState(pa.ID, paidaction.Failed); got.Failure == nil || got.Failure.Message != tookItBack {
					t.Errorf("its payer is told %+v", got.Failure)
				}
				if n := w.Count(`SELECT count(*) FROM item WHERE state = 'PAID'`); n != 0 {
					t.Error("the post is there")
				}
				w.WantConserved()
				if inv, err := w.Node.LookupInvoice(w.Ctx, pa.Invoice.Hash); err != nil || inv.Received > inv.OnChain {
					return // what came from an open channel is told until its payer has it back (reconcile)
				}
				w.WantSound()
			})
		})
	}
}

// Its deadline is put off, by an hour each time, with one job: the sweep that runs each second does not ask
// its node, and it is not stuck.
func TestWhatWaitsForTheChainIsLookedAtOnceAnHour(t *testing.T) {
	t.Parallel()
	w, pa := paidByForce(t, nil)
	asked := 0
	w.Node.After(simnode.MethodLookup, func(paidaction.Hash) { asked++ })
	want := func(looks int, wait time.Duration) {
		t.Helper()
		if moved, err := w.Engine.SweepOverdue(w.Ctx); moved != 0 || err != nil || asked != looks {
			t.Errorf("%d moved, %v; the node was asked %d times, want %d", moved, err, asked, looks)
		}
		now := w.WantState(pa.ID, paidaction.Pending)
		if left := now.Deadline.Sub(w.Clock.Now()); left != wait {
			t.Errorf("its deadline is in %s, want %s", left, wait)
		}
		if n := w.Count(`SELECT count(*) FROM test_job WHERE kind = 'advance' AND action = $1 AND at = $2`, pa.ID, now.Deadline); n != 1 {
			t.Errorf("%d jobs at its deadline", n)
		}
	}
	want(0, time.Hour)
	w.Clock.Advance(time.Hour - time.Second)
	want(0, time.Second)
	w.Clock.Advance(time.Second)
	want(1, time.Hour)
	want(1, time.Hour)
}

// One that is cancelled in that moment keeps a job, too: the one that cancels ends.
func TestWhatIsCancelledWhileItWaitsForTheChainKeepsAJob(t *testing.T) {
	t.Parallel()
	w := enginetest.New(t, paidaction.Settings{})
	pa := postUnpaid(w, w.User("payer", 0, 0))
	cancelUnheard(w, pa)
	if _, err := w.Node.AddPartByForce(pa.Invoice.Hash, pa.Cost, 0); err != nil {
		t.Fatal(err)
	}
	w.Drain()
	now := w.WantState(pa.ID, paidaction.Canceling)
	if left := now.Deadline.Sub(w.Clock.Now()); left != time.Hour {
		t.Errorf("its deadline is in %s", left)
	}
	if n := w.Count(`SELECT count(*) FROM test_job WHERE kind = 'advance' AND action = $1 AND at = $2`, pa.ID, now.Deadline); n != 1 {
		t.Errorf("%d jobs at its deadline", n)
	}
}

// What is paid above the price is the payer's only once it has arrived, too.
func TestWhatOnlyTheChainShowsIsNoExcess(t *testing.T) {
	t.Parallel()
	w := enginetest.New(t, paidaction.Settings{})
	payer := w.User("payer", 0, 0)
	pa := postUnpaid(w, payer)
	total := pa.Cost + 1_000_000
	if _, err := w.Node.AddPart(pa.Invoice.Hash, pa.Cost, total, 0); err != nil {
		t.Fatal(err)
	}
	if _, err := w.Node.AddPartByForce(pa.Invoice.Hash, 1_000_000, total); err != nil {
		t.Fatal(err)
	}
	w.Advance(pa.ID)
	wantOnlyThePrice(w, payer, pa)
}

// What came besides, unasked or from the chain, is nobody's, and makes nothing less of what its payer has paid. As nodes
// count it, each part is in one of the two sums at most.
func TestWhatCountsAsPaid(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct{ received, keysend, onChain, paid paidaction.Msat }{
		"the price":                             {1_000, 0, 0, 1_000},
		"more than that":                        {1_500, 0, 0, 1_500},
		"by keysend besides":                    {3_500, 2_000, 0, 1_500},
		"from the chain besides":                {3_500, 0, 2_000, 1_500},
		"by keysend, from the chain, or both":   {8_500, 2_000, 5_000, 1_500},
		"only by keysend":                       {3_000, 3_000, 0, 1_000},
		"only from the chain, as somebody says": {3_000, 0, 3_000, 1_000},
		"less, of what was held and given back": {400, 0, 0, 400},
	} {
		if paid := (paidaction.NodeInvoice{Received: c.received, Keysend: c.keysend, OnChain: c.onChain}).Paid(1_000); paid != c.paid {
			t.Errorf("%s: %d msat count as paid, want %d", name, paid, c.paid)
		}
	}
}

// Of several parts only those may have arrived that make up the price: that is what the operator has seen.
func TestWhatArrivedFromTheChainIsThePriceAtMost(t *testing.T) {
	t.Parallel()
	w := enginetest.New(t, paidaction.Settings{})
	payer := w.User("payer", 0, 0)
	pa := postUnpaid(w, payer)
	total := pa.Cost + 1_000_000
	for _, msat := range []paidaction.Msat{pa.Cost, 1_000_000} {
		if _, err := w.Node.AddPartByForce(pa.Invoice.Hash, msat, total); err != nil {
			t.Fatal(err)
		}
	}
	if err := w.Engine.Arrived(w.Ctx, pa.ID); err != nil {
		t.Fatal(err)
	}
	w.Drain()
	wantOnlyThePrice(w, payer, pa)
}

// An operator decides only what waits for the chain.
func TestOnlyWhatWaitsForTheChainIsDecidedByIt(t *testing.T) {
	t.Parallel()
	w := enginetest.New(t, paidaction.Settings{})
	user := w.User("payer", 0, 0)
	for method, pa := range map[paidaction.Method]*paidaction.PaidAction{
		paidaction.Optimistic: zap(w, user, paidaction.Optimistic), paidaction.Pessimistic: donate(w, user, paidaction.Pessimistic),
	} {
		before := w.Look(pa.ID).State
		wantRefused := func(why string) {
			t.Helper()
			for _, err := range []error{w.Engine.Arrived(w.Ctx, pa.ID), w.Engine.NeverArrived(w.Ctx, pa.ID, tookItBack)} {
				if !errors.Is(err, paidaction.ErrNotOnChain) {
					t.Errorf("%s, %s: %v", method, why, err)
				}
			}
			w.WantState(pa.ID, before)
		}
		wantRefused("it is open")
		w.Node.SetAway(true)
		wantRefused("its node is away")
		w.Node.SetAway(false)
		if _, err := w.Node.AddPart(pa.Invoice.Hash, pa.Cost, 0, 0); err != nil {
			t.Fatal(err)
		}
		wantRefused("it was paid as any")
	}
	if err := w.Engine.Arrived(w.Ctx, 999_999); !errors.Is(err, paidaction.ErrNoAction) {
		t.Errorf("of none: %v", err)
	}
}

package paidaction_test

import (
	"slices"
	"testing"

	"github.com/a-seed-a7aed72f/holdfast/community"
	"github.com/a-seed-a7aed72f/holdfast/internal/enginetest"
	"github.com/a-seed-a7aed72f/holdfast/lightning/simnode"
	"github.com/a-seed-a7aed72f/holdfast/paidaction"
)

// without is another process on the world's database, whose program does not have this kind of action yet.
func without(w *enginetest.World, kind string) *paidaction.Engine {
	w.Helper()
	config := w.Engine.Config
	config.Actions = slices.DeleteFunc(slices.Clone(config.Actions), func(d paidaction.Definition) bool { return d.Spec().Kind == kind })
	engine, err := paidaction.New(config)
	if err != nil {
		w.Fatal(err)
	}
	return engine
}

// While processes are replaced one by one, an old one hears of payments for what only the new ones can do. It leaves
// them, and what follows them, to those.
func TestAnOldProcessLeavesANewKindToTheNewOnes(t *testing.T) {
	t.Parallel()
	w := enginetest.New(t, paidaction.Settings{})
	pa := zap(w, w.User("reader", 0, 0), paidaction.Pessimistic)
	w.Drain()
	old := without(w, community.KindZap)
	if err := old.AfterPaid(w.Ctx, pa.ID); err != nil {
		t.Errorf("nothing follows what is not paid, of whatever kind: %v", err)
	}
	pay(w, pa, simnode.Payment{})
	if progress, err := old.Drive(w.Ctx, pa.ID); progress != paidaction.Owing || !paidaction.IsPassing(err) {
		t.Errorf("progress %d, error %v", progress, err)
	}
	w.WantState(pa.ID, paidaction.PendingHeld)
	if len(w.Faults.Errors) > 0 {
		t.Errorf("a fault of the action: %v", w.Faults.Errors)
	}
	if _, err := w.Engine.Drive(w.Ctx, pa.ID); err != nil {
		t.Fatal(err)
	}
	w.WantState(pa.ID, paidaction.Paid)
	if err := old.AfterPaid(w.Ctx, pa.ID); err == nil {
		t.Error("the old process takes it that nothing follows")
	}
	w.Drain()
	if n := w.Count(`SELECT count(*) FROM notification WHERE kind = 'ZAP'`); n != 1 {
		t.Errorf("the author was told of %d zaps, want 1", n)
	}
}

// A newer program may have taken an argument that this one has never heard of, or written more into a result. To leave it
// out would be to do something else than what is paid for: it waits for the new processes too.
func TestAnOldProcessLeavesANewArgumentToTheNewOnes(t *testing.T) {
	t.Parallel()
	waiting := map[paidaction.Method]paidaction.State{paidaction.Pessimistic: paidaction.PendingHeld, paidaction.Optimistic: paidaction.Pending}
	for _, method := range []paidaction.Method{paidaction.Pessimistic, paidaction.Optimistic} {
		for _, column := range []string{"args", "result"} {
			if column == "result" && method == paidaction.Pessimistic {
				continue // it is performed and paid at once: there is no result before
			}
			t.Run(string(method)+" "+column, func(t *testing.T) {
				t.Parallel()
				w := enginetest.New(t, paidaction.Settings{})
				pa := zap(w, w.User("reader", 0, 0), method)
				w.Drain()
				change := func(how string) {
					if _, err := w.Pool.Exec(w.Ctx, `UPDATE paid_action SET `+column+` = `+column+how+` WHERE id = $1`, pa.ID); err != nil {
						t.Fatal(err)
					}
				}
				change(` || '{"later": 1}'`)
				pay(w, pa, simnode.Payment{})
				if progress, err := w.Engine.Drive(w.Ctx, pa.ID); progress != paidaction.Owing || !paidaction.IsPassing(err) {
					t.Errorf("progress %d, error %v", progress, err)
				}
				w.WantState(pa.ID, waiting[method])
				if len(w.Faults.Errors) > 0 {
					t.Errorf("a fault of the action: %v", w.Faults.Errors)
				}
				change(` - 'later'`)
				if _, err := w.Engine.Drive(w.Ctx, pa.ID); err != nil {
					t.Fatal(err)
				}
				w.WantState(pa.ID, paidaction.Paid)
			})
		}
	}
}

// Nor does it deny that an action was tried again: the next attempt may be paid.
func TestAnOldProcessKnowsWhatWasTriedAgain(t *testing.T) {
	t.Parallel()
	w := enginetest.New(t, paidaction.Settings{})
	reader := w.User("reader", 0, 0)
	pa := zap(w, reader, paidaction.Pessimistic)
	if _, err := w.Engine.Cancel(w.Ctx, enginetest.Caller(reader), pa.ID); err != nil {
		t.Fatal(err)
	}
	w.Drain()
	w.Fund(reader, 100*sat, 0)
	next, err := w.Engine.Retry(w.Ctx, enginetest.Caller(reader), pa.ID, "a key", paidaction.Terms{Method: paidaction.FeeCredit}, nil)
	if err != nil {
		t.Fatal(err)
	}
	_, err = without(w, community.KindZap).Retry(w.Ctx, enginetest.Caller(reader), pa.ID, "a key", paidaction.Terms{Method: paidaction.FeeCredit}, nil)
	w.WantRefusal(err, paidaction.CodeAlreadyRetried)
	if said, _ := paidaction.AsRefusal(err); said.Successor == nil || *said.Successor != next.ID {
		t.Errorf("it names %v, not %d", said.Successor, next.ID)
	}
}

// A payment for what no process can do any more goes back while there are blocks enough for that.
func TestAPaymentForAKindThatIsGoneGoesBackInTheEnd(t *testing.T) {
	t.Parallel()
	w := enginetest.New(t, paidaction.Settings{})
	pa := donate(w, 0, "")
	pay(w, pa, simnode.Payment{})
	old := without(w, community.KindDonate)
	w.Node.Mine(83 - 31)
	if _, err := old.Drive(w.Ctx, pa.ID); !paidaction.IsPassing(err) {
		t.Errorf("error %v", err)
	}
	w.Node.Mine(1)
	_, _ = old.Drive(w.Ctx, pa.ID) // what it did, if it was done, only a process that knows its kind can undo
	w.WantState(pa.ID, paidaction.Canceling)
	if inv, _ := w.Node.Inspect(pa.Invoice.Hash); inv.State != paidaction.InvoiceCanceled {
		t.Errorf("its invoice is %s", inv.State)
	}
}

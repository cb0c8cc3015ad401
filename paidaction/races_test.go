package paidaction_test

import (
	"bytes"
	"context"
	"log/slog"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/a-seed-a7aed72f/holdfast/community"
	"github.com/a-seed-a7aed72f/holdfast/internal/enginetest"
	"github.com/a-seed-a7aed72f/holdfast/lightning/simnode"
	"github.com/a-seed-a7aed72f/holdfast/paidaction"
)

// Two requests with one key open the same invoice. The slower one must not cancel what the payer has paid meanwhile.
func TestSlowRequestDoesNotCancelWhatWasPaidMeanwhile(t *testing.T) {
	t.Parallel()
	w := enginetest.New(t, paidaction.Settings{})
	key := strings.Repeat("k", 22)
	var fast *paidaction.PaidAction
	w.Node.After(simnode.MethodOpen, func(paidaction.Hash) {
		// The first request's process hangs here; the client asks again with the same key, pays, and a worker performs.
		var err error
		if fast, err = w.Try(0, community.KindDonate, community.DonateArgs{Sats: 10}, "", key); err != nil {
			t.Error(err)
		}
		pay(w, fast, simnode.Payment{})
		w.Advance(fast.ID)
		w.WantState(fast.ID, paidaction.Held)
	})
	slow, err := w.Try(0, community.KindDonate, community.DonateArgs{Sats: 10}, "", key)
	if err != nil || slow.ID != fast.ID {
		t.Errorf("%+v, %v", slow, err)
	}
	if n := w.Node.Count(simnode.MethodCancel, fast.Invoice.Hash); n != 0 {
		t.Errorf("%d cancels of a held, performed payment", n)
	}
	w.Drain()
	w.WantState(fast.ID, paidaction.Paid)
}

// The same with a plain invoice: it is paid, and the slower request is told that nothing was done.
func TestSlowRequestIsAnsweredWithWhatIsPaid(t *testing.T) {
	t.Parallel()
	w := enginetest.New(t, paidaction.Settings{})
	user := w.User("payer", 0, 0)
	item := w.Post(w.User("author", 100*sat, 0), "x")
	w.Node.After(simnode.MethodOpen, func(h paidaction.Hash) {
		w.Clock.Advance(31 * time.Second)
		w.Drain() // the watchdog finds the invoice and stores its bolt11; the payer's list of actions shows it
		list, err := w.Engine.List(w.Ctx, enginetest.Caller(user), 1<<60, 1)
		if err != nil || list[0].Invoice.Bolt11 == "" {
			t.Fatal(list, err)
		}
		pay(w, list[0], simnode.Payment{})
		w.Advance(list[0].ID)
		w.WantState(list[0].ID, paidaction.Paid)
	})
	pa, err := w.Try(user, community.KindZap, community.ZapArgs{Item: item, Sats: 10}, "", "")
	if err != nil {
		t.Errorf("the action is PAID, the caller is told: %v", err)
	} else if pa.State != paidaction.Paid {
		t.Error(pa.State)
	}
}

// The watchdog has looked, and found no invoice; before it gives the action up its payer asks again, and is given one. It can be paid, so it counts.
func TestAnInvoiceThatIsIssuedAfterTheWatchdogLookedIsNotGivenUp(t *testing.T) {
	t.Parallel()
	w := enginetest.New(t, paidaction.Settings{})
	user := w.User("payer", 0, 0)
	args := community.ZapArgs{Item: w.Post(w.User("author", 100*sat, 0), "x"), Sats: 10}
	w.Node.FailBefore(simnode.MethodOpen, 2)
	w.Node.FailBefore(simnode.MethodLookup, 2) // with a key it is tried once more at once
	_, err := w.Try(user, community.KindZap, args, "", "again")
	w.WantRefusal(err, paidaction.CodeLightningUnavailable)
	w.Clock.Advance(31 * time.Second)
	var again *paidaction.PaidAction
	w.Node.After(simnode.MethodLookup, func(paidaction.Hash) {
		if again, err = w.Try(user, community.KindZap, args, "", "again"); err != nil {
			t.Error(err)
		}
	})
	id := w.Count(`SELECT max(id) FROM paid_action`)
	if progress, err := w.Engine.Advance(w.Ctx, id); err != nil || progress == paidaction.Moved {
		t.Errorf("progress %d, error %v", progress, err)
	}
	if again == nil || again.ID != id || again.Invoice.Bolt11 == "" {
		t.Fatalf("%+v", again)
	}
	pay(w, again, simnode.Payment{})
	w.Advance(id)
	w.WantState(id, paidaction.Paid)
	w.WantConserved()
}

// spec 01 §1.6: a node behind the chain is given nothing new. Its height is an old one, and so is what looks safe by it.
func TestNothingIsSettledAtANodeBehindTheChain(t *testing.T) {
	t.Parallel()
	w := enginetest.New(t, paidaction.Settings{})
	pa := donate(w, 0, "")
	pay(w, pa, simnode.Payment{})
	w.Advance(pa.ID)
	w.WantState(pa.ID, paidaction.Held)
	// Everything is down for a day; the node comes back and has not caught up with the chain: its height is a day old.
	w.Node.SetSynced(false)
	if _, err := w.Engine.Advance(w.Ctx, pa.ID); err == nil {
		t.Error("advanced on the word of a node that is behind")
	}
	if n := w.Node.Count(simnode.MethodSettle, pa.Invoice.Hash); n != 0 {
		t.Errorf("settled at a node that is behind the chain; the action is %s", w.Look(pa.ID).State)
	}
}

// The same after the permission: the call that did not arrive is repeated at a node that is behind.
func TestPermittedSettleIsNotRepeatedAtANodeBehindTheChain(t *testing.T) {
	t.Parallel()
	w := enginetest.New(t, paidaction.Settings{})
	pa := donate(w, 0, "")
	pay(w, pa, simnode.Payment{})
	w.Advance(pa.ID)
	w.Node.FailBefore(simnode.MethodSettle, 1)
	_, _ = w.Engine.Advance(w.Ctx, pa.ID)
	w.WantState(pa.ID, paidaction.Held)
	w.Node.SetSynced(false)
	_, _ = w.Engine.Advance(w.Ctx, pa.ID)
	if n := w.Node.Count(simnode.MethodSettle, pa.Invoice.Hash); n != 0 {
		t.Errorf("settled at a node that is behind the chain; the action is %s", w.Look(pa.ID).State)
	}
}

// A state that owes a call must be left to somebody who tries again soon.
func TestOwedSettleIsNotForgottenAtTheSafetyHeight(t *testing.T) {
	t.Parallel()
	w := enginetest.New(t, paidaction.Settings{})
	pa := donate(w, 0, "")
	pay(w, pa, simnode.Payment{})
	w.Advance(pa.ID)
	w.Node.FailBefore(simnode.MethodSettle, 1)
	w.Advance(pa.ID)
	deadline := w.Count(`SELECT deadline_height FROM paid_action WHERE id = $1`, pa.ID)
	w.Node.Mine(uint32(deadline) - w.Node.Height())
	w.Node.FailBefore(simnode.MethodSettle, 1)
	if p := w.Advance(pa.ID); p != paidaction.Owing {
		t.Errorf("a settle is owed twelve blocks before the payment is lost; progress %d, want Owing", p)
	}
}

// openAtGone opens many actions with invoices of a node that is not there, each before what is opened later.
func openAtGone(w *enginetest.World, payer int64, many int) {
	w.Helper()
	if _, err := w.Pool.Exec(w.Ctx, `
		WITH a AS (INSERT INTO paid_action (kind, flow, method, state, payer_id, cost_msat, created_at, changed_at, deadline, args)
			SELECT 'DONATE', 'PESSIMISTIC', 'PESSIMISTIC', 'PENDING_HELD', $1, 1000, $2, $2, $2, '{"sats":1}' FROM generate_series(1, $3) RETURNING id)
		INSERT INTO invoice (action_id, node, payment_hash, preimage, hold, amount_msat, memo, cltv_delta, expires_at, bolt11)
			SELECT id, 'gone', sha256(id::text::bytea), sha256(id::text::bytea), true, 1000, '', 80, $2, 'ln' FROM a`,
		payer, w.Clock.Now(), many); err != nil {
		w.Fatal(err)
	}
}

// 500 actions of a node that is gone do not keep a sweep from every other one, nor fill the log.
func TestStuckActionsDoNotStarveTheSweepOfOthers(t *testing.T) {
	t.Parallel()
	for name, sweep := range map[string]func(*paidaction.Engine, context.Context) (int, error){
		"of what is overdue": (*paidaction.Engine).SweepOverdue,
		"of what is open":    (*paidaction.Engine).Sweep,
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := enginetest.New(t, paidaction.Settings{})
			user := w.User("payer", 0, 0)
			openAtGone(w, user, 500)
			pa := donate(w, 0, "")
			w.Clock.Advance(time.Hour)
			var said bytes.Buffer
			w.Engine.Log = slog.New(slog.NewTextHandler(&said, nil))
			if _, err := sweep(w.Engine, w.Ctx); err != nil {
				t.Fatal(err)
			}
			w.WantState(pa.ID, paidaction.Failed)
			if lines := strings.Count(said.String(), "\n"); lines == 0 || lines > 2 {
				t.Errorf("the log has %d lines about it", lines)
			}
		})
	}
}

// hanging are nodes one of which does not answer. One caller waits for it, and the others are refused meanwhile
// (lightning/silence.go).
type hanging struct {
	paidaction.Nodes
	asked   atomic.Bool
	answers chan struct{}
}

func (h *hanging) Node(name string) (paidaction.Node, error) {
	if name == "gone" && h.asked.CompareAndSwap(false, true) {
		<-h.answers
	}
	return h.Nodes.Node(name)
}

// What is open at other nodes does not wait for one that does not answer, however much is open there.
func TestANodeThatDoesNotAnswerHoldsUpNoSweepOfOthers(t *testing.T) {
	t.Parallel()
	w := enginetest.New(t, paidaction.Settings{})
	openAtGone(w, w.User("payer", 0, 0), 500)
	pa := donate(w, 0, "")
	w.Clock.Advance(time.Hour)
	h := &hanging{Nodes: w.Engine.Nodes, answers: make(chan struct{})}
	w.Engine.Nodes = h
	swept := make(chan error, 1)
	go func() {
		_, err := w.Engine.SweepOverdue(w.Ctx)
		swept <- err
	}()
	w.Await(pa.ID, paidaction.Failed)
	if len(swept) > 0 || !h.asked.Load() {
		t.Error("nobody waits for the node")
	}
	close(h.answers)
	if err := <-swept; err != nil {
		t.Error(err)
	}
}

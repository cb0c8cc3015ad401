package paidaction_test

import (
	"fmt"
	"testing"
	"time"

	"github.com/a-seed-a7aed72f/holdfast/community"
	"github.com/a-seed-a7aed72f/holdfast/internal/enginetest"
	"github.com/a-seed-a7aed72f/holdfast/internal/pgtest"
	"github.com/a-seed-a7aed72f/holdfast/lightning/simnode"
	"github.com/a-seed-a7aed72f/holdfast/paidaction"
)

// overdue is a zap whose invoice its node has not issued in time; again asks for the same with the same key.
func overdue(w *enginetest.World, method paidaction.Method) (id int64, again paidaction.Request) {
	w.Helper()
	author := w.User("author", 100*sat, 0)
	w.Wallets.Add(author)
	again = paidaction.Request{Kind: community.KindZap, Args: community.ZapArgs{Item: w.Post(author, "x"), Sats: 100},
		Terms: paidaction.Terms{Method: method}, Key: "again", Caller: enginetest.Caller(w.User("payer", 0, 0))}
	w.Node.FailBefore(simnode.MethodOpen, 2) // with a key it is tried once more at once
	w.Node.Before(simnode.MethodOpen, func(paidaction.Hash) { w.Node.FailBefore(simnode.MethodLookup, 2) })
	_, err := w.Engine.Pay(w.Ctx, again)
	w.WantRefusal(err, paidaction.CodeLightningUnavailable)
	w.Clock.Advance(31 * time.Second)
	return w.Count(`SELECT max(id) FROM paid_action`), again
}

// The watchdog has looked, and found no invoice. Before it gives the action up its payer asks again, is given one and
// pays it, and a copy of the database takes over that knows nothing of that: what was found before is no word of it.
func TestAnInvoiceThatTheDatabaseHasForgottenIsNotGivenUp(t *testing.T) {
	t.Parallel()
	for _, method := range []paidaction.Method{paidaction.Optimistic, paidaction.Pessimistic, paidaction.P2P} {
		for _, accepted := range []bool{false, true} {
			t.Run(fmt.Sprintf("%s, accepted %t", method, accepted), func(t *testing.T) {
				t.Parallel()
				w := enginetest.New(t, paidaction.Settings{})
				id, again := overdue(w, method)
				begun := w.Look(id).State
				restore := pgtest.Backup(t, w.Pool)
				meanwhile := func(paidaction.Hash) {
					pa, err := w.Engine.Pay(w.Ctx, again)
					if err != nil || pa.ID != id {
						t.Fatal(pa, err)
					}
					pay(w, pa, simnode.Payment{})
					stop := w.Run(w.Relay)
					if _, err := w.Engine.Drive(w.Ctx, id); err != nil {
						t.Fatal(err)
					}
					w.Await(id, paidaction.Paid)
					stop()
					restore()
					if accepted {
						accept(w)
					} else {
						w.Engine.MayBegin = notNow
					}
				}
				lookups := 2 // the node is asked once more before what it says counts
				if method == paidaction.P2P {
					lookups = 4 // whose invoice the node has is asked first
				}
				for range lookups {
					then := meanwhile
					meanwhile = func(paidaction.Hash) { w.Node.After(simnode.MethodLookup, then) }
				}
				meanwhile(paidaction.Hash{})
				progress, err := w.Engine.Advance(w.Ctx, id)
				if progress != paidaction.Owing {
					t.Errorf("progress %d", progress)
				}
				w.WantRefusal(err, paidaction.CodeTryAgain)
				w.WantState(id, begun)
				w.Run(w.NewRelay())
				if _, err := w.Engine.Sweep(w.Ctx); err != nil {
					t.Fatal(err)
				}
				w.Await(id, paidaction.Paid)
				w.WantConserved()
			})
		}
	}
}

// The watchdog gives the action up while the payer asks again, and is about to be given the invoice that was issued too
// late: who comes second waits, and nobody gets it.
func TestAnInvoiceIsNotHandedOutWhileTheWatchdogGivesItUp(t *testing.T) {
	t.Parallel()
	w := enginetest.New(t, paidaction.Settings{})
	id, again := overdue(w, paidaction.Optimistic)
	gate, err := w.Pool.Begin(w.Ctx)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = gate.Rollback(w.Ctx) }()
	if _, err := gate.Exec(w.Ctx, `SELECT FROM zap WHERE action_id = $1 FOR UPDATE`, id); err != nil {
		t.Fatal(err)
	}
	givenUp := make(chan error, 1)
	go func() { _, err := w.Engine.Advance(w.Ctx, id); givenUp <- err }()
	w.AwaitBlocked(1) // once it has seen that no invoice was handed out
	answered := start(w, w.Engine, again)
	tick := time.NewTicker(5 * time.Millisecond)
	defer tick.Stop()
	for w.Count(`SELECT count(*) FROM pg_stat_activity WHERE datname = current_database() AND wait_event_type = 'Lock'`) < 2 {
		select {
		case a := <-answered:
			t.Fatalf("who asked again waited for nobody: %v", a.err)
		case <-tick.C:
		}
	}
	if err := gate.Rollback(w.Ctx); err != nil {
		t.Fatal(err)
	}
	if err := <-givenUp; err != nil {
		t.Error(err)
	}
	a := <-answered
	w.WantRefusal(a.err, paidaction.CodeLightningUnavailable)
	if pa := w.WantState(id, paidaction.Failed); pa.Invoice.Bolt11 != "" {
		t.Error("its bolt11 was stored")
	}
	if inv := w.Node.Invoices()[0]; inv.State != paidaction.InvoiceCanceled {
		t.Errorf("the invoice is %s", inv.State)
	}
	w.WantConserved()
}

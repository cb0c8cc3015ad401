package relay_test

import (
	"context"
	"testing"

	"github.com/jackc/pgx/v5"

	"github.com/a-seed-a7aed72f/holdfast/internal/pgtest"
	"github.com/a-seed-a7aed72f/holdfast/ledger"
	"github.com/a-seed-a7aed72f/holdfast/lightning/simnode"
	"github.com/a-seed-a7aed72f/holdfast/paidaction"
	"github.com/a-seed-a7aed72f/holdfast/relay"
)

// A moment at which a process can die: a call of its to a node, on the way there or on the way back.
type moment struct {
	method simnode.Method
	after  bool
	act    simnode.Act // of the receiver
	end    paidaction.State
}

// The moments of spec 05.26 and 05.36, for a forward.
var moments = map[string]moment{
	"between the claim and the send":            {simnode.MethodDecode, false, simnode.Pays, paidaction.Paid},
	"right before the send":                     {simnode.MethodPay, false, simnode.Pays, paidaction.Paid},
	"between the send and its result":           {simnode.MethodPay, true, simnode.Holds, paidaction.Paid},
	"between the preimage and its storing":      {simnode.MethodPay, true, simnode.Pays, paidaction.Paid},
	"between FORWARDED and the settling":        {simnode.MethodSettle, false, simnode.Pays, paidaction.Paid},
	"between the settling and PAID":             {simnode.MethodSettle, true, simnode.Pays, paidaction.Paid},
	"between the node's FAILED and its storing": {simnode.MethodPay, true, simnode.Refuses, paidaction.Failed},
	"between FAILED_FORWARD and the cancel":     {simnode.MethodCancel, false, simnode.Refuses, paidaction.Failed},
	"between the cancel and FAILED":             {simnode.MethodCancel, true, simnode.Refuses, paidaction.Failed},
}

// on sets what happens at a moment.
func (m moment) on(n *simnode.Node, what func()) {
	set := n.Before
	if m.after {
		set = n.After
	}
	set(m.method, func(paidaction.Hash) { what() })
}

// wantEnd lets the receiver take what they hold, and has everything come to its end.
func (b *bundle) wantEnd(pa *paidaction.PaidAction, m moment) {
	b.Helper()
	b.Clock.Advance(over)
	if m.act == simnode.Holds {
		b.awaitHeld(pa)
		if err := b.wallet.Receiver.Settle(pa.Invoice.Hash); err != nil {
			b.Fatal(err)
		}
	}
	if m.method == simnode.MethodCancel { // the relay has nothing to do with it any more
		if _, err := b.Engine.Sweep(b.Ctx); err != nil {
			b.Fatal(err)
		}
	}
	b.awaitPastPauses(pa, m.end)
	paid, outer, stage := paidaction.Msat(0), paidaction.InvoiceCanceled, "failed"
	if m.end == paidaction.Paid {
		paid, outer, stage = 70_000, paidaction.InvoiceSettled, "completed"
	}
	b.AwaitStage(pa.ID, stage)
	b.wantReceived(pa, paid)
	b.wantOuter(pa, outer)
	if n := len(b.Node.Payments()); n != 1 {
		b.Errorf("%d payments", n)
	}
	b.WantBalance(ledger.RoutingSats, 0)
	b.wantSound()
}

// awaitPastPauses waits until an action has come to a state. A claim that was given back only after the clock was put forward pauses, for the longer the more
// there were, and this clock goes on for nobody.
func (b *bundle) awaitPastPauses(pa *paidaction.PaidAction, end paidaction.State) {
	b.Helper()
	b.await("the action is "+string(end), func() bool {
		if b.Count(`SELECT count(*) FROM relay_payment WHERE action_id = $1 AND not_before > $2`, pa.ID, b.Clock.Now()) > 0 {
			b.Clock.Advance(relay.DefaultSettings().Pause)
		}
		return b.Look(pa.ID).State == end
	})
}

// The process dies, and another one brings everything to its right end: one payment, and the books as the nodes.
func TestAProcessDies(t *testing.T) {
	for name, m := range moments {
		t.Run(name, func(t *testing.T) {
			b := setup(t)
			b.wallet.Ask.Act = m.act
			pa := b.zap()
			b.pay(pa)
			ctx, die := context.WithCancel(b.Ctx)
			m.on(b.Node, die)
			if err := b.Relay.Run(ctx, b.Engine.Advance); err != nil {
				t.Fatal(err)
			}
			if ctx.Err() == nil || b.Look(pa.ID).State.Terminal() {
				t.Fatal("the process lived on")
			}
			b.Run(b.NewRelay())
			b.wantEnd(pa, m)
		})
	}
}

// All connections to the database are cut at that moment, and the process lives on.
func TestTheDatabaseIsLost(t *testing.T) {
	for name, m := range moments {
		t.Run(name, func(t *testing.T) {
			b := setup(t)
			b.wallet.Ask.Act = m.act
			pa := b.zap()
			b.pay(pa)
			done := make(chan struct{})
			m.on(b.Node, func() { pgtest.Cut(b, b.Pool); close(done) })
			b.Run(b.Relay)
			<-done
			b.rest()
			b.wantEnd(pa, m)
		})
	}
}

// rest makes sure that the pool has connections that work, also in place of those that are in use: PostgreSQL may still be about to end one, and who
// has one may give it back unused.
func (b *bundle) rest() {
	b.Helper()
	b.Pool.Reset()
	b.await("the database is back", func() bool { return b.Pool.Ping(b.Ctx) == nil })
}

// The connection is cut inside the very transaction that stores the preimage: all of it or nothing is there.
func TestATransactionIsCut(t *testing.T) {
	for name, lock := range map[string]string{
		"before it has read the action":     `SELECT FROM paid_action WHERE id = $1 FOR UPDATE`,
		"after it has moved the action":     `SELECT FROM relay_payment WHERE action_id = $1 FOR UPDATE`,
		"between the payment and its claim": `SELECT FROM relay_attempt WHERE payment_id = (SELECT id FROM relay_payment WHERE action_id = $1) FOR UPDATE`,
	} {
		t.Run(name, func(t *testing.T) {
			b := setup(t)
			pa := b.zap()
			b.pay(pa)
			// Not one of the pool's connections: all but one of those may come to wait for the row.
			apart, err := pgx.ConnectConfig(b.Ctx, b.Pool.Config().ConnConfig)
			if err != nil {
				t.Fatal(err)
			}
			defer func() { _ = apart.Close(context.WithoutCancel(b.Ctx)) }()
			tx, err := apart.Begin(b.Ctx)
			if err != nil {
				t.Fatal(err)
			}
			locked := make(chan struct{})
			// Before the node has the payment: the auditor asks it as well, and could have stored the preimage by the time the call has done its work.
			b.Node.Before(simnode.MethodPay, func(paidaction.Hash) {
				if _, err := tx.Exec(b.Ctx, lock, pa.ID); err != nil {
					t.Error(err)
				}
				close(locked)
			})
			b.Run(b.Relay)
			<-locked
			waiting := `FROM pg_stat_activity WHERE datname = current_database() AND wait_event_type = 'Lock' AND query NOT LIKE '%SeeAttempt%'`
			b.await("a transaction waits for the row", func() bool { return b.Count(`SELECT count(*) `+waiting) > 0 })
			if n := b.Count(`SELECT count(pg_terminate_backend(pid)) ` + waiting); n == 0 {
				t.Error("nothing was cut")
			}
			if err := tx.Rollback(b.Ctx); err != nil {
				t.Fatal(err)
			}
			b.rest()
			b.wantEnd(pa, moment{act: simnode.Pays, end: paidaction.Paid})
		})
	}
}

// A withdrawal's process dies as well.
func TestAProcessDiesWithAWithdrawal(t *testing.T) {
	for name, m := range map[string]moment{
		"between the claim and the send":            moments["between the claim and the send"],
		"between the send and its result":           moments["between the send and its result"],
		"between the preimage and its storing":      moments["between the preimage and its storing"],
		"between the node's FAILED and its storing": moments["between the node's FAILED and its storing"],
	} {
		t.Run(name, func(t *testing.T) {
			b := setup(t).rich(100)
			inv := b.issue(simnode.Ask{Amount: 50_000, Act: m.act})
			pa := b.withdraw(inv.Bolt11)
			ctx, die := context.WithCancel(b.Ctx)
			m.on(b.Node, die)
			if err := b.Relay.Run(ctx, b.Engine.Advance); err != nil {
				t.Fatal(err)
			}
			b.Run(b.NewRelay())
			b.Clock.Advance(over)
			if m.act == simnode.Holds {
				if err := b.wallet.Receiver.Settle(inv.Hash); err != nil {
					t.Fatal(err)
				}
			}
			b.Await(pa.ID, m.end)
			if m.end == paidaction.Paid {
				b.wantPaidOut(inv.Hash, 50_000)
				b.wantSats(49_000)
			} else {
				b.wantPaidOut(inv.Hash, 0)
				b.wantSats(100_000)
			}
			b.wantSound()
		})
	}
}

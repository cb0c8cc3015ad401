package reconcile_test

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"sync/atomic"
	"testing"
	"time"

	"github.com/jackc/pgx/v5/pgxpool"
	"golang.org/x/sync/errgroup"

	"github.com/a-seed-a7aed72f/holdfast/community"
	"github.com/a-seed-a7aed72f/holdfast/internal/db"
	"github.com/a-seed-a7aed72f/holdfast/internal/dbconn"
	"github.com/a-seed-a7aed72f/holdfast/internal/enginetest"
	"github.com/a-seed-a7aed72f/holdfast/ledger"
	"github.com/a-seed-a7aed72f/holdfast/lightning/simnode"
	"github.com/a-seed-a7aed72f/holdfast/paidaction"
	"github.com/a-seed-a7aed72f/holdfast/reconcile"
	"github.com/a-seed-a7aed72f/holdfast/relay"
	"github.com/a-seed-a7aed72f/holdfast/worker"
)

// alive switches the world to the real clock and runs a whole service on it until the test ends: workers, a listener
// and the relay.
func alive(w *enginetest.World) *paidaction.Engine {
	w.Helper()
	w.Clock.Live()
	settings := w.Pool.Config()
	settings.MaxConns = 24
	pool, err := pgxpool.NewWithConfig(w.Ctx, settings)
	if err != nil {
		w.Fatal(err)
	}
	w.Cleanup(pool.Close)
	quiet := slog.New(slog.DiscardHandler)
	queue, err := worker.NewQueue(quiet)
	if err != nil {
		w.Fatal(err)
	}
	config := w.Engine.Config
	sends := w.NewRelay(func(c *relay.Config) { c.Pool = pool })
	config.Pool, config.Relay, config.Jobs = pool, sends, queue
	engine, err := paidaction.New(config)
	if err != nil {
		w.Fatal(err)
	}
	parts := worker.Config{Pool: pool, Engine: engine, Jobs: queue, Log: quiet, Folds: []worker.Fold{
		{Name: "balances", Fold: func(ctx context.Context, q *db.Queries) (int, error) { return ledger.Fold(ctx, q, 100) }},
	}}
	works, err := worker.New(parts)
	if err != nil {
		w.Fatal(err)
	}
	hears, err := worker.NewListener(parts, w.Node.Name(), w.Node)
	if err != nil {
		w.Fatal(err)
	}
	ctx, cancel := context.WithCancel(w.Ctx)
	var group errgroup.Group
	group.Go(func() error { return works.Run(ctx) })
	group.Go(func() error { return hears.Run(ctx) })
	group.Go(func() error { _ = sends.Run(ctx, engine.Advance); return nil })
	w.Cleanup(func() {
		cancel()
		if err := group.Wait(); err != nil {
			w.Error(err)
		}
	})
	return engine
}

// busy has somebody pay, cancel and withdraw without a pause, so many times.
func busy(w *enginetest.World, engine *paidaction.Engine, payer, item int64, receiver *simnode.Receiver, times int) error {
	for i := range times {
		request := paidaction.Request{Kind: community.KindZap, Args: community.ZapArgs{Item: item, Sats: 10}, Caller: enginetest.Caller(payer)}
		switch i % 6 {
		case 0:
			request.Method = paidaction.FeeCredit
		case 1, 2:
			request.Method = paidaction.Optimistic
		case 3:
			request.Method = paidaction.Pessimistic
		case 4:
			request.Method, request.Args = paidaction.P2P, community.ZapArgs{Item: item, Sats: 100}
		case 5:
			request.Kind, request.Args = community.KindWithdraw, community.WithdrawArgs{To: receiver.Issue(simnode.Ask{Amount: sat}).Bolt11, MaxFeeSats: 2}
		}
		pa, err := engine.Pay(w.Ctx, request)
		if err == nil && pa.Invoice != nil {
			if i%6 == 2 {
				_, err = engine.Cancel(w.Ctx, request.Caller, pa.ID)
			} else {
				err = w.Node.PayBolt11(pa.Invoice.Bolt11, simnode.Payment{})
			}
		}
		if _, refused := paidaction.AsRefusal(err); err != nil && !refused {
			return fmt.Errorf("step %d: %w", i, err)
		}
	}
	return nil
}

// Reconciling beside a service that pays all the time, in every way, does not report what is merely under way: neither
// in full nor in partial runs.
func TestWhatMovesIsNotBroken(t *testing.T) {
	t.Parallel()
	w := enginetest.New(t, paidaction.Settings{MaxForwards: 1000})
	author := w.User("author", 100*sat, 0)
	item := w.Post(author, "a post")
	receiver := w.Wallets.Add(author).Receiver
	engine := alive(w)
	var group errgroup.Group
	for i := range 3 {
		payer := w.User(fmt.Sprint("payer_", i), 1_000_000*sat, 1_000_000*sat)
		group.Go(func() error { return busy(w, engine, payer, item, receiver, 24) })
	}
	done := make(chan error, 1)
	go func() { done <- group.Wait() }()
	ways := func() int64 {
		return w.Count(`SELECT count(DISTINCT (method, state)) FROM paid_action WHERE method = 'OPTIMISTIC' AND state = 'FAILED'
			OR state = 'PAID' AND method IN ('FEE_CREDIT', 'OPTIMISTIC', 'PESSIMISTIC', 'P2P', 'OUTGOING')`)
	}
	config := compared(w)
	config.Again = 500 * time.Millisecond
	limit := time.After(2 * time.Minute)
	for i, over := 0, false; !over || i < 2 || ways() < 6; i++ { // what is refused in the end has not moved
		select {
		case err := <-done:
			if over = true; err != nil {
				t.Fatal(err)
			}
		case <-limit:
			t.Fatalf("of the six ways only %d were gone", ways())
		default:
		}
		config.Changed = time.Time{}
		if i%2 == 1 {
			config.Changed = time.Now().Add(-time.Minute)
		}
		report, err := reconcile.Run(w.Ctx, config)
		if err != nil {
			t.Fatal(err)
		}
		if !report.OK {
			t.Fatalf("run %d: %+v", i, report)
		}
	}
}

// What looks broken at first, but not a moment later, was between the node's answer and our row.
func TestWhatIsGoneAtTheSecondLookWasUnderWay(t *testing.T) {
	t.Parallel()
	w := lived(t)
	for again, want := range map[time.Duration]int64{0: 1, time.Millisecond: 0} {
		var asked atomic.Int64
		config := compared(w)
		config.Again = again
		config.Nodes = liars{Nodes: config.Nodes, invoice: func(inv *paidaction.NodeInvoice) {
			if asked.Add(1) == 1 {
				inv.Received++
				inv.State = paidaction.InvoiceSettled
			}
		}}
		report, err := reconcile.Run(w.Ctx, config)
		if err != nil {
			t.Fatal(err)
		}
		if found := report.Invariants[8]; found.Broken != want {
			t.Errorf("looked again after %s: %+v", again, found)
		}
	}
}

// Anybody who knows the preimage of a settled invoice can pay it again by keysend, unasked. The node keeps that, and it
// is no break.
func TestWhatComesByKeysendAfterwardsIsNoBreak(t *testing.T) {
	t.Parallel()
	w := lived(t)
	var preimage []byte
	var amount int64
	if err := w.Pool.QueryRow(w.Ctx, `SELECT preimage, amount_msat FROM invoice JOIN paid_action ON id = action_id WHERE state = 'PAID' AND flow = 'OPTIMISTIC'`).Scan(&preimage, &amount); err != nil {
		t.Fatal(err)
	}
	if err := w.Node.Keysend(paidaction.Preimage(preimage), paidaction.Msat(amount), w.Node.Height()+200); err != nil {
		t.Fatal(err)
	}
	if there, err := w.Node.LookupInvoice(w.Ctx, paidaction.Preimage(preimage).Hash()); err != nil || there.Keysend != paidaction.Msat(amount) || there.Received != paidaction.Msat(amount)+12*sat {
		t.Errorf("the node says %+v, %v", there, err)
	}
	if report := run(t, w); !report.OK {
		t.Errorf("%+v", report)
	}
}

// Nobody waits for reconcile, and reconcile waits for nobody: neither for locked rows nor for uncommitted ones.
func TestItWaitsForNobody(t *testing.T) {
	t.Parallel()
	w := lived(t)
	tx, err := w.Pool.Begin(w.Ctx)
	if err != nil {
		t.Fatal(err)
	}
	defer tx.Rollback(w.Ctx)
	if _, err := tx.Exec(w.Ctx, `UPDATE account SET balance = balance + 1; UPDATE paid_action SET changed_at = changed_at; UPDATE relay_payment SET attempts = attempts`); err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithTimeout(w.Ctx, 20*time.Second)
	defer cancel()
	report, err := reconcile.Run(ctx, compared(w))
	if err != nil || !report.OK {
		t.Errorf("%+v, %v", report, err)
	}
}

// A look has its own time limit, although its pool gives others less time.
func TestALongLookIsWaitedFor(t *testing.T) {
	t.Parallel()
	w := enginetest.New(t, paidaction.Settings{})
	settings := w.Pool.Config()
	dbconn.BoundPool(settings, time.Nanosecond)
	pool, err := pgxpool.NewWithConfig(w.Ctx, settings)
	if err != nil {
		t.Fatal(err)
	}
	defer pool.Close()
	if _, err := pool.Exec(w.Ctx, "SELECT 1"); !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("the pool waits: %v", err)
	}
	c := reconcile.Config{Pool: pool, Nodes: w.Nodes, Issuers: w.Nodes.Names(), Now: w.Clock.Now}
	if _, err := reconcile.Run(w.Ctx, c); err != nil {
		t.Error(err)
	}
	if _, err := reconcile.Books(w.Ctx, c); err != nil {
		t.Error(err)
	}
	if _, err := reconcile.Range(w.Ctx, c, 1, 10); err != nil {
		t.Error(err)
	}
}

// A node that does not answer hides nothing of what the other nodes and the database say, and is itself no break.
func TestANodeThatIsAwayIsUnknown(t *testing.T) {
	t.Parallel()
	w := lived(t)
	w.Node.SetAway(true)
	report := run(t, w)
	if report.OK || len(report.Unknown) != 1 {
		t.Errorf("%+v", report)
	}
	for _, i := range report.Invariants {
		if i.Broken != 0 {
			t.Errorf("%+v", i)
		}
	}
}

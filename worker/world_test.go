package worker

import (
	"context"
	"errors"
	"log/slog"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"
	"golang.org/x/sync/errgroup"

	"github.com/a-seed-a7aed72f/holdfast/internal/db"
	"github.com/a-seed-a7aed72f/holdfast/internal/pgtest"
	"github.com/a-seed-a7aed72f/holdfast/ledger"
	"github.com/a-seed-a7aed72f/holdfast/lightning/simnode"
	"github.com/a-seed-a7aed72f/holdfast/paidaction"
)

func TestMain(m *testing.M) { pgtest.Main(m) }

// gift is an action for tests: it takes a row of donations as its effect.
type gift struct {
	paidaction.Base[giftArgs, giftResult]
	after func() error
}

type giftArgs struct{ Refuse bool }
type giftResult struct{}

func (gift) Spec() paidaction.Spec {
	return paidaction.Spec{Kind: "GIFT", Anonable: true, Methods: []paidaction.Method{paidaction.Optimistic, paidaction.Pessimistic}}
}

func (gift) Cost(context.Context, *paidaction.Tx, giftArgs) (paidaction.Msat, error) {
	return 1000, nil
}

func (gift) Perform(ctx context.Context, tx *paidaction.Tx, a giftArgs) (giftResult, error) {
	if a.Refuse {
		return giftResult{}, paidaction.Errorf(paidaction.CodeForbidden, "Not like this.")
	}
	return giftResult{}, tx.DB.InsertDonation(ctx, db.InsertDonationParams{ActionID: tx.Action, Msat: 1000})
}

func (gift) OnPaid(ctx context.Context, tx *paidaction.Tx, _ giftArgs, _ giftResult) error {
	if err := tx.DB.MarkDonation(ctx, db.MarkDonationParams{ActionID: tx.Action, State: "PAID"}); err != nil {
		return err
	}
	return tx.Pay(ledger.RewardSats, tx.Cost, "gift")
}

func (gift) OnFail(ctx context.Context, tx *paidaction.Tx, _ giftArgs, _ giftResult) error {
	err := tx.DB.MarkDonation(ctx, db.MarkDonationParams{ActionID: tx.Action, State: "FAILED"})
	return err
}

func (gift) Describe(giftArgs) string { return "a gift" }

func (g gift) AfterPaid(context.Context, *paidaction.Tx, giftArgs, giftResult) error {
	if g.after == nil {
		return nil
	}
	return g.after()
}

// world is a database, a node, and an engine that a service drives.
type world struct {
	testing.TB
	ctx    context.Context
	pool   *pgxpool.Pool
	node   *simnode.Node
	config Config
	user   int64
	ahead  atomic.Int64 // how far the engine's and the node's clock are ahead of the real one

	mu      sync.Mutex
	changes chan struct{} // closed and replaced at each change of an action
}

// seldom keeps a loop from running a second time within a test.
const seldom = time.Hour

func newWorld(t testing.TB, change ...func(*world, *paidaction.Config)) *world {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 3*time.Minute)
	t.Cleanup(cancel)
	w := &world{TB: t, ctx: ctx, pool: pgtest.New(t), changes: make(chan struct{})}
	now := func() time.Time { return time.Now().Add(time.Duration(w.ahead.Load())) }
	w.node = simnode.New("sim", now)
	queue, err := NewQueue(slog.New(slog.DiscardHandler))
	if err != nil {
		t.Fatal(err)
	}
	w.config = Config{Pool: w.pool, Jobs: queue, Log: slog.New(slog.DiscardHandler), Metrics: NewMetrics(nil),
		Settings: Settings{OverdueEvery: seldom, SweepEvery: seldom, FoldEvery: seldom, CheckEvery: seldom}}
	hooks := w.config.Metrics.Hooks()
	hooks.Changed = func(int64) { w.changed() }
	engine := paidaction.Config{Pool: w.pool, Nodes: simnode.Nodes{w.node}, Jobs: queue, Actions: []paidaction.Definition{paidaction.Define(gift{})},
		Secret: make([]byte, 32), Now: now, Log: w.config.Log, Hooks: hooks}
	for _, c := range change {
		c(w, &engine)
	}
	if w.config.Engine, err = paidaction.New(engine); err != nil {
		t.Fatal(err)
	}
	if w.user, err = db.New(w.pool).InsertUser(ctx, db.InsertUserParams{Name: "payer", CreatedAt: now()}); err != nil {
		t.Fatal(err)
	}
	return w
}

// listener makes what follows the node, by these streams of events.
func (w *world) listener(events paidaction.NodeEvents) *Listener {
	w.Helper()
	l, err := NewListener(w.config, w.node.Name(), events)
	if err != nil {
		w.Fatal(err)
	}
	return l
}

func (w *world) changed() {
	w.mu.Lock()
	defer w.mu.Unlock()
	close(w.changes)
	w.changes = make(chan struct{})
}

// await waits until ok says so; it is asked after every change of an action, and now and then.
func (w *world) await(what string, ok func() bool) {
	w.Helper()
	again := time.NewTicker(10 * time.Millisecond)
	defer again.Stop()
	for {
		w.mu.Lock()
		changes := w.changes
		w.mu.Unlock()
		if ok() {
			return
		}
		select {
		case <-w.ctx.Done():
			w.Fatalf("waited in vain: %s", what)
		case <-changes:
		case <-again.C:
		}
	}
}

func (w *world) awaitState(id int64, want paidaction.State) {
	w.Helper()
	w.await("action in "+string(want), func() bool { return w.state(id) == want })
}

func (w *world) state(id int64) paidaction.State {
	w.Helper()
	row, err := db.New(w.pool).GetAction(w.ctx, id)
	if err != nil {
		w.Fatal(err)
	}
	return paidaction.State(row.PaidAction.State)
}

func (w *world) count(query string, args ...any) (n int) {
	w.Helper()
	if err := w.pool.QueryRow(w.ctx, query, args...).Scan(&n); err != nil {
		w.Fatal(err)
	}
	return n
}

func (w *world) request(method paidaction.Method) paidaction.Request {
	return paidaction.Request{Kind: "GIFT", Args: giftArgs{}, Terms: paidaction.Terms{Method: method}, Caller: paidaction.Caller{User: &w.user}}
}

// observe gives the test connections of its own, by the name of observer.
func (w *world) observe() {
	w.Helper()
	config := w.pool.Config().Copy()
	config.ConnConfig.RuntimeParams["application_name"] = "observer"
	pool, err := pgxpool.NewWithConfig(w.ctx, config)
	if err != nil {
		w.Fatal(err)
	}
	w.Cleanup(pool.Close)
	w.pool = pool
}

// begin asks for a gift.
func (w *world) begin(method paidaction.Method) *paidaction.PaidAction {
	w.Helper()
	pa, err := w.config.Engine.Pay(w.ctx, w.request(method))
	if err != nil {
		w.Fatal(err)
	}
	return pa
}

func (w *world) pay(pa *paidaction.PaidAction) {
	w.Helper()
	if err := w.node.PayHash(pa.Invoice.Hash, simnode.Payment{}); err != nil {
		w.Fatal(err)
	}
}

// wantOnce fails the test unless the action was paid for and took effect exactly once.
func (w *world) wantOnce(id int64) {
	w.Helper()
	if n := w.count(`SELECT count(*) FROM action_history WHERE action_id = $1 AND to_state = 'PAID'`, id); n != 1 {
		w.Errorf("action %d was paid %d times", id, n)
	}
	if n := w.count(`SELECT count(*) FROM donation WHERE action_id = $1 AND state = 'PAID'`, id); n != 1 {
		w.Errorf("action %d took effect %d times", id, n)
	}
	if n := w.count(`SELECT coalesce(sum(msat), 0) FROM posting WHERE action_id = $1`, id); n != 1000 {
		w.Errorf("action %d booked %d msat", id, n)
	}
}

// service is a running worker and listener.
type service struct {
	worker   *Worker
	listener *Listener
	stop     func() // may be called twice
}

func (w *world) start(events paidaction.NodeEvents) *service {
	w.Helper()
	worker, err := New(w.config)
	if err != nil {
		w.Fatal(err)
	}
	listener := w.listener(events)
	ctx, cancel := context.WithCancel(w.ctx)
	var group errgroup.Group
	group.Go(func() error { return worker.Run(ctx) })
	group.Go(func() error { return listener.Run(ctx) })
	var once sync.Once
	s := &service{worker, listener, func() {
		once.Do(func() {
			cancel()
			if err := group.Wait(); err != nil {
				w.Error(err)
			}
		})
	}}
	w.Cleanup(s.stop)
	return s
}

// started is start, and waits until the streams are open and what followed from that is done.
func (w *world) started() *service {
	w.Helper()
	s := w.start(w.node)
	w.await("the node's streams", s.listener.Up)
	if err := w.node.AwaitStreams(w.ctx, 2); err != nil {
		w.Fatal(err)
	}
	return s
}

// deaf are a node's streams, of which that of all invoices says nothing.
type deaf struct{ *simnode.Node }

func (d deaf) WatchInvoices(ctx context.Context, add, settle uint64, _ func(paidaction.InvoiceEvent) error) error {
	return d.Node.WatchInvoices(ctx, add, settle, func(paidaction.InvoiceEvent) error { return nil })
}

// unreliable jobs cannot be stored at first.
type unreliable struct {
	paidaction.Jobs
	failures atomic.Int64
}

var errNoJobs = errors.New("no jobs today")

func (u *unreliable) Insert(ctx context.Context, tx pgx.Tx, jobs ...paidaction.Job) error {
	if len(jobs) > 0 && u.failures.Add(-1) >= 0 {
		return errNoJobs
	}
	return u.Jobs.Insert(ctx, tx, jobs...)
}

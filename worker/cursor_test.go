package worker

import (
	"context"
	"sync"
	"testing"
	"time"

	"github.com/jackc/pgx/v5/pgxpool"
	"pgregory.net/rapid"

	"github.com/a-seed-a7aed72f/holdfast/internal/db"
	"github.com/a-seed-a7aed72f/holdfast/lightning/simnode"
	"github.com/a-seed-a7aed72f/holdfast/paidaction"
)

// Whatever comes, in whatever order and however often: the position is the highest number below which nothing is missing.
func TestCursorIsContiguous(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		from := rapid.Uint64Range(0, 5).Draw(t, "from")
		c := newCursor(position{add: from})
		seen := map[uint64]bool{}
		skipped := from
		for _, n := range rapid.SliceOf(rapid.Uint64Range(0, 30)).Draw(t, "numbers") {
			if n > 28 { // now and then a gap is given up
				c.skip(c.highest())
				for m := range seen {
					skipped = max(skipped, m)
				}
			} else {
				seen[n] = true
				c.see([]paidaction.InvoiceEvent{{AddIndex: n}})
			}
			want := skipped
			for seen[want+1] {
				want++
			}
			if got := c.position().add; got != want {
				t.Fatalf("after %d: at %d, want %d", n, got, want)
			}
		}
	})
}

func TestCursorMovesWithTheJobs(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	jobs := &unreliable{Jobs: w.config.Jobs}
	w.config.Jobs = jobs
	l := w.listener(w.node)
	var events []paidaction.InvoiceEvent
	for range 3 {
		pa := w.begin(paidaction.Optimistic)
		w.pay(pa)
		inv, _ := w.node.Inspect(pa.Invoice.Hash)
		events = append(events, paidaction.InvoiceEvent{Hash: pa.Invoice.Hash, State: inv.State, AddIndex: inv.AddIndex, SettleIndex: inv.SettleIndex})
	}
	stored := func() int { return w.count(`SELECT count(*) FROM river_job WHERE kind = 'advance'`) }
	before := stored()
	want := func(settle, jobs int) {
		t.Helper()
		if err := l.StoreCursor(w.ctx); err != nil {
			t.Fatal(err)
		}
		if n := w.count(`SELECT coalesce(max(settle_index), 0) FROM node_cursor`); n != settle {
			t.Errorf("the cursor is at %d, want %d", n, settle)
		}
		if n := stored() - before; n != jobs {
			t.Errorf("%d jobs were stored, want %d", n, jobs)
		}
	}
	jobs.failures.Store(1)
	if err := l.OnInvoices(w.ctx, events[:1]); err == nil {
		t.Error("the failure was swallowed")
	}
	want(0, 0) // neither without the other
	if err := l.OnInvoices(w.ctx, events[:1]); err != nil {
		t.Fatal(err)
	}
	want(1, 1)
	// The second event is missing: the cursor waits for it, though the third is worked off.
	if err := l.OnInvoices(w.ctx, []paidaction.InvoiceEvent{events[2], events[2], {Hash: paidaction.Hash{1}, State: paidaction.InvoiceSettled}}); err != nil {
		t.Fatal(err)
	}
	want(1, 2)
	// A sweep that began after it finds what the stream left out; then there is nothing left to wait for.
	if err := l.CatchUp(w.ctx); err != nil {
		t.Fatal(err)
	}
	want(3, 2)
	for id := range int64(3) {
		if s := w.state(id + 1); s != paidaction.Paid {
			t.Errorf("action %d is %s", id+1, s)
		}
	}
	// A listener that comes later begins there.
	later := w.listener(w.node)
	if err := later.Resume(w.ctx); err != nil {
		t.Fatal(err)
	}
	if p := later.cursor.position(); p != (position{3, 3}) {
		t.Errorf("resumes at %+v", p)
	}
}

// meanwhile are nodes at which something happens while they are asked about an invoice.
type meanwhile struct {
	paidaction.Nodes
	happens func()
}

func (m meanwhile) Node(name string) (paidaction.Node, error) {
	m.happens()
	return m.Nodes.Node(name)
}

// A catch-up answers for what was heard before it began. It may have looked at an action before the event that was heard since, which
// is still being driven: the cursor stays before that one.
func TestACatchUpPassesOnlyWhatWasHeardBeforeIt(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	l := w.listener(w.node)
	w.begin(paidaction.Optimistic) // the sweep asks about it
	hears := func(settled uint64) { l.cursor.see([]paidaction.InvoiceEvent{{SettleIndex: settled}}) }
	engine := *w.config.Engine
	engine.Nodes = meanwhile{w.config.Engine.Nodes, func() {
		if at := l.cursor.position().settle; at != 0 {
			t.Errorf("the cursor is at %d, and nothing was looked at yet", at)
		}
		hears(7)
	}}
	l.Engine = &engine
	hears(5)
	if err := l.CatchUp(w.ctx); err != nil {
		t.Fatal(err)
	}
	if at, seen := l.cursor.position().settle, l.cursor.highest().settle; at != 5 || seen != 7 {
		t.Errorf("the cursor is at %d, and %d was heard; want 5 and 7", at, seen)
	}
}

// only are nodes of which only one may be asked.
type only struct {
	paidaction.Nodes
	*testing.T
	name string
}

func (o only) Node(name string) (paidaction.Node, error) {
	if name != o.name {
		o.Errorf("node %s is asked", name)
	}
	return o.Nodes.Node(name)
}

// A catch-up with a node looks at what is open there alone: it need not wait for the others, which may not answer.
func TestACatchUpAsksItsOwnNode(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	there, elsewhere := w.begin(paidaction.Optimistic), w.begin(paidaction.Optimistic)
	if _, err := w.pool.Exec(w.ctx, `UPDATE invoice SET node = 'another' WHERE action_id = $1`, elsewhere.ID); err != nil {
		t.Fatal(err)
	}
	for _, pa := range []*paidaction.PaidAction{there, elsewhere} {
		if _, err := w.node.AddPart(pa.Invoice.Hash, pa.Cost, 0, 0); err != nil {
			t.Fatal(err)
		}
	}
	l := w.listener(w.node)
	engine := *w.config.Engine
	engine.Nodes = only{w.config.Engine.Nodes, t, w.node.Name()}
	l.Engine = &engine
	if err := l.CatchUp(w.ctx); err != nil {
		t.Fatal(err)
	}
	if here, other := w.state(there.ID), w.state(elsewhere.ID); here != paidaction.Paid || other != paidaction.Pending {
		t.Errorf("of its own the action is %s, of another %s", here, other)
	}
}

// Where the actions cannot be looked at, nothing is passed.
func TestACatchUpThatFailsPassesNothing(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	l := w.listener(w.node)
	away, err := pgxpool.NewWithConfig(w.ctx, w.pool.Config())
	if err != nil {
		t.Fatal(err)
	}
	away.Close()
	engine := *w.config.Engine
	engine.Pool, l.Engine = away, &engine
	l.cursor.see([]paidaction.InvoiceEvent{{SettleIndex: 5}})
	if err := l.CatchUp(w.ctx); err == nil {
		t.Error("the failure was swallowed")
	}
	if at := l.cursor.position().settle; at != 0 {
		t.Errorf("the cursor is at %d", at)
	}
}

// mends is a clock that mends something as soon as somebody waits.
type mends struct {
	RealClock
	mend func()
}

func (m mends) Wait(ctx context.Context, d time.Duration) error {
	m.mend()
	return m.RealClock.Wait(ctx, d)
}

// A catch-up that fails is begun again, until it succeeds: what it is for is announced once.
func TestACatchUpThatFailsIsBegunAgain(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	pa := w.begin(paidaction.Optimistic)
	w.pay(pa)
	exec := func(sql string) {
		if _, err := w.pool.Exec(w.ctx, sql); err != nil {
			t.Error(err)
		}
	}
	exec(`ALTER TABLE paid_action RENAME TO gone`)
	w.config.Clock = mends{mend: func() { exec(`ALTER TABLE gone RENAME TO paid_action`) }}
	l := w.listener(w.node)
	ctx, stop := context.WithCancel(w.ctx)
	var group sync.WaitGroup
	defer group.Wait()
	defer stop()
	group.Go(func() { _ = l.catchUps(ctx) })
	signal(l.behind)
	w.await("the action paid", func() bool { return w.count(`SELECT count(*) FROM action_history WHERE to_state = 'PAID'`) == 1 })
}

// Where we owe a call, whoever makes it sees what came of it.
func TestNoNewsIsNeededWhereACallIsOwed(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	l := w.listener(w.node)
	pa := w.begin(paidaction.Pessimistic)
	w.pay(pa)
	news := func(state paidaction.InvoiceState) (jobs int) {
		t.Helper()
		before := w.count(`SELECT count(*) FROM river_job WHERE kind = 'advance'`)
		if err := l.OnInvoices(w.ctx, []paidaction.InvoiceEvent{{Hash: pa.Invoice.Hash, State: state}}); err != nil {
			t.Fatal(err)
		}
		return w.count(`SELECT count(*) FROM river_job WHERE kind = 'advance'`) - before
	}
	if n := news(paidaction.InvoiceAccepted); n != 1 {
		t.Errorf("it waits for its payer, and %d jobs were stored", n)
	}
	if p, err := w.config.Engine.Advance(w.ctx, pa.ID); err != nil || p != paidaction.Moved {
		t.Fatal(p, err)
	}
	if n := news(paidaction.InvoiceSettled); n != 0 {
		t.Errorf("it is HELD, and %d jobs were stored", n)
	}
}

// Of a payment that is told of before its invoice's opening, in one batch, it counts that it was paid.
func TestWhatIsToldInAnyOrderIsHeard(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	l := w.listener(w.node)
	pa := w.begin(paidaction.Optimistic)
	w.pay(pa)
	before := w.advances()
	told := func(state paidaction.InvoiceState) paidaction.InvoiceEvent {
		return paidaction.InvoiceEvent{Hash: pa.Invoice.Hash, State: state}
	}
	if err := l.OnInvoices(w.ctx, []paidaction.InvoiceEvent{told(paidaction.InvoiceSettled), told(paidaction.InvoiceOpen)}); err != nil {
		t.Fatal(err)
	}
	if n := w.advances() - before; n != 1 {
		t.Errorf("%d jobs were stored, want 1", n)
	}
}

func TestSafetyHeight(t *testing.T) { // one job, not one with each block
	t.Parallel()
	w := newWorld(t)
	l := w.listener(w.node)
	pa := w.begin(paidaction.Pessimistic)
	w.pay(pa)
	if p, err := w.config.Engine.Advance(w.ctx, pa.ID); err != nil || p != paidaction.Moved {
		t.Fatal(p, err)
	}
	row, err := db.New(w.pool).GetAction(w.ctx, pa.ID)
	if err != nil {
		t.Fatal(err)
	}
	safety := uint32(*row.PaidAction.DeadlineHeight)
	if want := w.node.Height() + 80 + 3 - 18 - 12; safety != want {
		t.Fatalf("safety height %d, want %d", safety, want)
	}
	before := w.count(`SELECT count(*) FROM river_job`)
	for _, c := range []struct {
		height uint32
		alarms float64
		jobs   int
	}{{safety - 25, 0, 0}, {safety - 24, 1, 0}, {safety - 1, 1, 0}, {safety, 1, 1}, {safety, 1, 1}, {safety + 2, 1, 1}} {
		if err := l.OnHeight(w.ctx, c.height); err != nil {
			t.Fatal(err)
		}
		if got := gauge(t, l.Metrics.alarms.WithLabelValues("sim")); got != c.alarms {
			t.Errorf("at %d: %v alarms, want %v", c.height, got, c.alarms)
		}
		if n := w.count(`SELECT count(*) FROM river_job`) - before; n != c.jobs {
			t.Errorf("at %d: %d jobs, want %d", c.height, n, c.jobs)
		}
	}
	// The job finds that no settle was ever permitted, and gives the payment back.
	w.node.Mine(safety - w.node.Height())
	worker, err := New(w.config)
	if err != nil {
		t.Fatal(err)
	}
	for range 2 {
		if again := worker.Do(w.ctx, paidaction.Job{Kind: paidaction.JobAdvance, Action: pa.ID}, 0); again != 0 {
			t.Fatal("not done")
		}
	}
	if s := w.state(pa.ID); s != paidaction.Failed {
		t.Errorf("the action is %s", s)
	}
	if n := w.node.Count(simnode.MethodSettle, pa.Invoice.Hash); n != 0 {
		t.Errorf("%d settle calls", n)
	}
}

// What a height asks for and cannot be stored is stored soon, and not with the next block.
func TestAHeightIsWorkedOffUntilItsJobsAreStored(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	pa := w.begin(paidaction.Pessimistic)
	w.pay(pa)
	if p, err := w.config.Engine.Advance(w.ctx, pa.ID); err != nil || p != paidaction.Moved {
		t.Fatal(p, err)
	}
	jobs := &unreliable{Jobs: w.config.Jobs}
	jobs.failures.Store(1)
	w.config.Jobs = jobs
	l := w.listener(w.node)
	before := w.advances()
	ctx, stop := context.WithCancel(w.ctx)
	var group sync.WaitGroup
	defer group.Wait()
	defer stop()
	group.Go(func() { _ = l.workOffHeights(ctx) })
	latest(l.heights, w.node.Height()+80)
	w.await("its job", func() bool { return w.advances() == before+1 })
}

func TestBlocksAreFollowed(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	s := w.started()
	w.node.Mine(7)
	height := func() bool {
		return w.count(`SELECT coalesce(max(height), 0) FROM node_cursor`) == int(w.node.Height())
	}
	w.await("the height stored", height)
	w.node.DropStreams()
	w.node.Mine(2)
	w.await("the height after a reconnect", height)
	// It is measured once the transaction that stored it is over.
	w.await("the height measured", func() bool { return gauge(t, s.listener.Metrics.height.WithLabelValues("sim")) == 109 })
}

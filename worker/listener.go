package worker

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"sync/atomic"

	"github.com/jackc/pgx/v5"
	"golang.org/x/sync/errgroup"

	"github.com/a-seed-a7aed72f/holdfast/internal/db"
	"github.com/a-seed-a7aed72f/holdfast/paidaction"
)

// Listener follows the streams of one node. It drives every action that an event is about, or stores a job for it.
// Several listeners may follow the same node: what is reported twice is done once.
type Listener struct {
	Config
	// Direct runs do for an action, without blocking the caller; false if too much is running already. Run sets it.
	// nil: every event becomes a job.
	Direct func(action int64, do func(ctx context.Context)) bool

	node   string
	events paidaction.NodeEvents

	cursor  *cursor
	stored  position                     // the cursor as StoreCursor last stored it
	inbox   chan paidaction.InvoiceEvent // from all streams of invoices
	heights chan uint32                  // at most the latest one
	told    uint32                       // the highest one whose jobs are stored
	behind  chan struct{}                // holds a token if something may have been missed
	holds   *holds
	up      atomic.Bool
}

// inboxSize is how many events may wait, and batchSize how many of them are handled together.
const (
	inboxSize = 1024
	batchSize = 256
)

// NewListener makes a listener for the node with this name.
func NewListener(c Config, node string, events paidaction.NodeEvents) (*Listener, error) {
	c, err := c.defaults()
	if err != nil {
		return nil, err
	}
	return &Listener{
		Config: c, node: node, events: events,
		cursor: newCursor(position{}), holds: newHolds(),
		inbox: make(chan paidaction.InvoiceEvent, inboxSize), heights: make(chan uint32, 1), behind: make(chan struct{}, 1),
	}, nil
}

// Node is the name of the node.
func (l *Listener) Node() string { return l.node }

// Up reports whether the node's streams are open.
func (l *Listener) Up() bool { return l.up.Load() }

// Run follows the node until ctx ends, and then returns nil. Neither an unreachable node nor a failing database nor any
// message ends it. When it returns, all that it started has ended.
func (l *Listener) Run(ctx context.Context) error {
	if err := l.retry(ctx, "cursor", l.Resume); err != nil {
		return nil
	}
	end := l.beginDirect(ctx)
	group, ctx := errgroup.WithContext(ctx)
	group.Go(func() error { return l.follow(ctx) })
	group.Go(func() error { return l.workOff(ctx) })
	group.Go(func() error { return l.workOffHeights(ctx) })
	group.Go(func() error { return l.catchUps(ctx) })
	group.Go(func() error {
		return every(ctx, l.Clock, l.Settings.CheckEvery, func(ctx context.Context) {
			l.failed(ctx, "check of hold streams", l.CheckHolds(ctx))
			l.failed(ctx, "cursor", l.StoreCursor(ctx))
			if l.cursor.stuck() { // a gap in the indices that has not closed since the last check
				signal(l.behind)
			}
		})
	})
	err := group.Wait()
	l.holds.wait()
	end()
	if !errors.Is(err, context.Canceled) {
		return err
	}
	return nil
}

// Resume reads where the last listener of this node stopped.
func (l *Listener) Resume(ctx context.Context) error {
	row, err := db.New(l.Pool).GetCursor(ctx, l.node)
	if err != nil && !errors.Is(err, pgx.ErrNoRows) {
		return fmt.Errorf("read the cursor of node %s: %w", l.node, err)
	}
	l.stored = position{uint64(row.AddIndex), uint64(row.SettleIndex)}
	l.cursor = newCursor(l.stored)
	return nil
}

// follow keeps the node's streams open. If they end soon after they are up, it waits ever longer before it reopens
// them: each reopening sweeps everything that may have changed meanwhile.
func (l *Listener) follow(ctx context.Context) error {
	for failures := 0; ; failures++ {
		begun := l.Clock.Now()
		wasUp, err := l.session(ctx)
		if ctx.Err() != nil {
			return ctx.Err()
		}
		if wasUp && l.Clock.Now().Sub(begun) > maxPause {
			failures = 0
		}
		l.Metrics.reconnects.WithLabelValues(l.node, "node").Inc()
		l.Log.WarnContext(ctx, "the node's streams ended and are opened again", "node", l.node, "error", err)
		if err := l.Clock.Wait(ctx, l.Clock.Jitter(pause(failures))); err != nil {
			return err
		}
	}
}

// session opens the streams of invoices and of blocks; when one ends, so does the other. The stream of invoices is
// silent until something happens, but the stream of blocks begins with the present height: this shows that the node
// answers.
func (l *Listener) session(ctx context.Context) (wasUp bool, err error) {
	ctx, cancel := context.WithCancel(ctx)
	ended := make(chan error, 2)
	from := l.cursor.position()
	go func() { ended <- l.events.WatchInvoices(ctx, from.add, from.settle, l.put(ctx)) }()
	go func() {
		ended <- l.events.WatchBlocks(ctx, func(height uint32) error {
			if !l.up.Swap(true) {
				signal(l.behind)
			}
			latest(l.heights, height)
			return nil
		})
	}()
	err = <-ended
	cancel()
	<-ended
	return l.up.Swap(false), err
}

// put passes an event to workOff. If that is slow or the database is away, the stream waits; nothing is dropped.
func (l *Listener) put(ctx context.Context) func(paidaction.InvoiceEvent) error {
	return func(e paidaction.InvoiceEvent) error {
		select {
		case <-ctx.Done():
			return ctx.Err()
		case l.inbox <- e:
			return nil
		}
	}
}

// workOff handles the events of all streams, as many at a time as there are.
func (l *Listener) workOff(ctx context.Context) error {
	for {
		var batch []paidaction.InvoiceEvent
		select {
		case <-ctx.Done():
			return ctx.Err()
		case e := <-l.inbox:
			batch = append(batch, e)
		}
		for more := true; more && len(batch) < batchSize; {
			select {
			case e := <-l.inbox:
				batch = append(batch, e)
			default:
				more = false
			}
		}
		if err := l.retry(ctx, "events", func(ctx context.Context) error { return l.OnInvoices(ctx, batch) }); err != nil {
			return err
		}
	}
}

// OnInvoices drives, or stores a job for, each of our actions that waits for one of these events; those that a call is
// owed for have a job already. It begins to watch hold invoices that are new to it. Only then does the cursor pass the
// events. It may be repeated.
func (l *Listener) OnInvoices(ctx context.Context, events []paidaction.InvoiceEvent) error {
	happened := map[paidaction.Hash]bool{} // false: only opened
	for _, e := range events {
		happened[e.Hash] = happened[e.Hash] || e.State != paidaction.InvoiceOpen
	}
	open, err := l.Engine.OpenOf(ctx, slices.Collect(maps.Keys(happened)))
	if err != nil {
		return err
	}
	var jobs []paidaction.Job
	var held []paidaction.Hash
	for _, pa := range open {
		hash := pa.Invoice.Hash
		if pa.Invoice.Hold {
			held = append(held, hash)
		}
		if !happened[hash] || pa.State.Driven() {
			continue
		}
		of := func(e paidaction.InvoiceEvent) bool { return e.Hash == hash }
		own := slices.DeleteFunc(slices.Clone(events), func(e paidaction.InvoiceEvent) bool { return !of(e) })
		if id := pa.ID; l.drive(pa, own) { // from here on pa belongs to the driver
			events = slices.DeleteFunc(slices.Clone(events), of) // the cursor passes these once the action was driven
		} else {
			jobs = append(jobs, paidaction.Job{Kind: paidaction.JobAdvance, Action: id})
		}
	}
	if len(jobs) > 0 {
		if err := l.store(ctx, jobs...); err != nil {
			return err
		}
	}
	l.cursor.see(events)
	for _, hash := range held {
		l.watch(ctx, hash)
	}
	return nil
}

// store stores jobs for events. Its commit waits for the disk, since the cursor then passes the events.
func (l *Listener) store(ctx context.Context, jobs ...paidaction.Job) error {
	return l.inTx(ctx, func(q *db.Queries, tx pgx.Tx) error {
		if err := q.PlanOnce(ctx); err != nil {
			return err
		}
		return l.insertTraced(ctx, q, tx, jobs)
	})
}

// StoreCursor stores how far the node's events were processed. After a restart the node reports everything later again.
func (l *Listener) StoreCursor(ctx context.Context) error {
	at := l.cursor.position()
	if at == l.stored {
		return nil
	}
	if err := l.moveCursor(ctx, db.New(l.Pool), at); err != nil {
		return fmt.Errorf("store the cursor: %w", err)
	}
	l.stored = at
	return nil
}

func (l *Listener) moveCursor(ctx context.Context, q *db.Queries, to position) error {
	err := q.MoveCursor(ctx, db.MoveCursorParams{Node: l.node, AddIndex: int64(to.add), SettleIndex: int64(to.settle)})
	if err != nil {
		return fmt.Errorf("move the cursor of node %s: %w", l.node, err)
	}
	return nil
}

// catchUps catches up whenever something may have been missed.
func (l *Listener) catchUps(ctx context.Context) error {
	for {
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-l.behind:
		}
		if err := l.retry(ctx, "catching up", l.CatchUp); err != nil {
			return err
		}
	}
}

// CatchUp looks at every open hold invoice and every open action of the node. After that nothing earlier has to be heard
// of, whatever the stream left out, so the cursor moves past the gaps. What could not be advanced stays open, and the
// sweep comes back to it. Gaps are common: a node replays added invoices without those cancelled meanwhile, and a new
// database meets a node that has counted before.
func (l *Listener) CatchUp(ctx context.Context) error {
	seen := l.cursor.highest()
	if err := l.CheckHolds(ctx); err != nil {
		return err
	}
	moved, err := l.Engine.SweepAt(ctx, l.node)
	l.Metrics.sweepMoves.WithLabelValues("reconnect").Add(float64(moved))
	if err != nil {
		return err
	}
	return l.moveCursor(ctx, db.New(l.Pool), l.cursor.skip(seen))
}

// signal leaves a token, if there is none yet.
func signal(to chan struct{}) {
	select {
	case to <- struct{}{}:
	default:
	}
}

// latest leaves n in place of an older one. Only one sender may use it.
func latest(to chan uint32, n uint32) {
	select {
	case <-to:
	default:
	}
	to <- n
}

package worker

import (
	"context"
	"errors"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/a-seed-a7aed72f/holdfast/lightning"
	"github.com/a-seed-a7aed72f/holdfast/lightning/lndtest"
	"github.com/a-seed-a7aed72f/holdfast/lightning/simnode"
	"github.com/a-seed-a7aed72f/holdfast/paidaction"
)

// A spontaneous AMP payment is nobody's action. The cursor passes it, on the stream on which it came.
func TestTheCursorPassesAPaymentWithoutAHash(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	server := lndtest.New(t, w.node)
	s := w.start(server.Client())
	w.await("the node's streams", s.listener.Up)
	// That of invoices may follow that of blocks. What came before it, and no index speaks of yet, is for a sweep.
	w.await("the stream of invoices", func() bool { return w.node.Count(simnode.MethodWatchInvoices, paidaction.Hash{}) == 1 })
	amp := paidaction.InvoiceRequest{Preimage: paidaction.Preimage{9}, Hash: paidaction.Preimage{9}.Hash(), Amount: 1000, Expiry: time.Hour, CLTVDelta: 80}
	server.ShowAsAMP(amp.Hash)
	if _, err := w.node.Add(w.ctx, amp); err != nil {
		t.Fatal(err)
	}
	if err := w.node.PayHash(amp.Hash, simnode.Payment{}); err != nil {
		t.Fatal(err)
	}
	pa := w.begin(paidaction.Optimistic)
	w.pay(pa)
	w.awaitState(pa.ID, paidaction.Paid)
	w.await("the cursor behind both", func() bool { return s.listener.cursor.position() == position{add: 2, settle: 2} })
	if n := w.node.Count(simnode.MethodWatchInvoices, paidaction.Hash{}); n != 1 {
		t.Errorf("the stream was opened %d times", n)
	}
}

// Whoever has an invoice can make it as large as they like. Once paid it is PAID like any other, and what comes after it
// is heard.
func TestALargeInvoiceEndsNoStream(t *testing.T) {
	t.Parallel()
	var server *lndtest.Server
	var client *lightning.Client
	w := newWorld(t, func(w *world, c *paidaction.Config) {
		server = lndtest.New(t, w.node)
		client = server.Client()
		nodes, err := lightning.NewNodes(client)
		if err != nil {
			t.Fatal(err)
		}
		c.Nodes = nodes
	})
	s := w.start(client)
	w.await("the node's streams", s.listener.Up)
	w.await("the stream of invoices", func() bool { return w.node.Count(simnode.MethodWatchInvoices, paidaction.Hash{}) == 1 })
	large, next := w.begin(paidaction.Optimistic), w.begin(paidaction.Optimistic)
	server.BulkOf(large.Invoice.Hash, 65<<20) // more than is read beside other answers
	for _, pa := range []*paidaction.PaidAction{large, next} {
		w.pay(pa)
	}
	for _, pa := range []*paidaction.PaidAction{next, large} {
		w.awaitState(pa.ID, paidaction.Paid)
		w.wantOnce(pa.ID)
	}
	w.await("the cursor behind both", func() bool { return s.listener.cursor.position() == position{add: 2, settle: 2} })
	if n := w.node.Count(simnode.MethodWatchInvoices, paidaction.Hash{}); n != 1 {
		t.Errorf("the stream was opened %d times", n)
	}
}

// Where more is told than is worked off, the stream waits. Nothing is dropped.
func TestAStreamWaitsUntilThereIsRoom(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		l := &Listener{inbox: make(chan paidaction.InvoiceEvent, 2)}
		const told = 5
		go func() {
			defer close(l.inbox)
			for n := range uint64(told) {
				if err := l.put(t.Context())(paidaction.InvoiceEvent{AddIndex: n}); err != nil {
					t.Error(err)
				}
			}
		}()
		synctest.Wait() // all that there is room for was told
		heard := uint64(0)
		for e := range l.inbox {
			if e.AddIndex != heard {
				t.Errorf("event %d came as number %d", e.AddIndex, heard)
			}
			heard++
		}
		if heard != told {
			t.Errorf("of %d events %d were heard", told, heard)
		}
	})
}

// A stream that has told of no settled invoice yet replays none. So what happened while it was broken is looked up, at each
// reconnect: nobody else sweeps here.
func TestWhatHappensWhileTheStreamIsBrokenIsFound(t *testing.T) {
	t.Parallel()
	w := newWorld(t, func(w *world, _ *paidaction.Config) { w.config.Settings.CheckEvery = 20 * time.Millisecond })
	w.listens(w.node)
	for n := range 2 { // the sweep after the start may find the first
		pa := w.begin(paidaction.Optimistic)
		w.await("its opening", func() bool { return w.count(`SELECT coalesce(max(add_index), 0) FROM node_cursor`) == n+1 })
		w.node.HoldEvents()
		w.pay(pa)
		w.node.DropStreams() // with what they had not delivered
		w.node.ReleaseEvents(nil)
		w.awaitState(pa.ID, paidaction.Paid)
		w.wantOnce(pa.ID)
	}
}

// The last resort (spec 01 §1.6): no event comes, and no job is there.
func TestTheSweepFindsWhatNobodyTellsOf(t *testing.T) {
	t.Parallel()
	w := newWorld(t, func(w *world, _ *paidaction.Config) { w.config.Settings.SweepEvery = 20 * time.Millisecond })
	one, err := New(w.config)
	if err != nil {
		t.Fatal(err)
	}
	ctx, stop := context.WithCancel(w.ctx)
	var group sync.WaitGroup
	defer group.Wait()
	defer stop()
	group.Go(func() {
		if err := one.Run(ctx); err != nil {
			t.Error(err)
		}
	})
	for range 2 { // not at the start alone
		pa := w.begin(paidaction.Optimistic)
		w.count(`WITH gone AS (DELETE FROM river_job RETURNING id) SELECT count(*) FROM gone`)
		w.pay(pa)
		w.awaitState(pa.ID, paidaction.Paid)
		w.wantOnce(pa.ID)
	}
}

// answered lets something happen each time the database has answered a question.
type answered struct {
	question string
	happens  func()
}

func (a *answered) TraceQueryStart(ctx context.Context, _ *pgx.Conn, data pgx.TraceQueryStartData) context.Context {
	return context.WithValue(ctx, a, strings.Contains(data.SQL, a.question))
}

func (a *answered) TraceQueryEnd(ctx context.Context, _ *pgx.Conn, _ pgx.TraceQueryEndData) {
	if is, _ := ctx.Value(a).(bool); is {
		a.happens()
	}
}

// A check reads which hold invoices are open, and ends the streams of all others. One that is opened since is in no such
// list, and its stream, which alone tells that it is held, goes on.
func TestACheckEndsNoStreamThatBeganAfterItRead(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	since := &answered{question: "OpenHoldInvoices"}
	settings := w.pool.Config()
	settings.ConnConfig.Tracer = since
	var err error
	if w.config.Pool, err = pgxpool.NewWithConfig(w.ctx, settings); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(w.config.Pool.Close)
	l := w.listener(w.node)
	ctx, stop := context.WithCancel(w.ctx)
	defer l.holds.wait()
	defer stop()
	since.happens = func() {
		hash := w.begin(paidaction.Pessimistic).Invoice.Hash
		if err := l.OnInvoices(ctx, []paidaction.InvoiceEvent{{Hash: hash, State: paidaction.InvoiceOpen, AddIndex: 1}}); err != nil {
			t.Error(err)
		}
	}
	if err := l.CheckHolds(ctx); err != nil {
		t.Fatal(err)
	}
	if n := l.holds.count(); n != 1 {
		t.Errorf("%d streams of 1 hold invoice", n)
	}
}

// brief are a node's streams, which end as soon as they are up.
type brief struct {
	*simnode.Node
	up    chan struct{}
	lasts func()
}

var errBrief = errors.New("the stream is over")

func (b brief) WatchBlocks(ctx context.Context, on func(height uint32) error) error {
	_ = on(1)
	b.up <- struct{}{}
	<-ctx.Done()
	return ctx.Err()
}

func (b brief) WatchInvoices(context.Context, uint64, uint64, func(paidaction.InvoiceEvent) error) error {
	<-b.up
	b.lasts()
	return errBrief
}

// stepping is a clock on which time passes only when it is waited for, and which ends everything after a number of waits.
type stepping struct {
	now   time.Time
	waits []time.Duration
	left  int
}

func (s *stepping) Now() time.Time                       { return s.now }
func (s *stepping) Jitter(d time.Duration) time.Duration { return d }
func (s *stepping) Wait(_ context.Context, d time.Duration) error {
	s.now, s.waits = s.now.Add(d), append(s.waits, d)
	if len(s.waits) == s.left {
		return errBrief
	}
	return nil
}

// Each time the streams are up everything is looked at. So those that end at once are opened again less and less often, until they last.
func TestStreamsThatEndAtOnceAreOpenedMoreAndMoreSeldom(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	clock := &stepping{left: 10}
	w.config.Clock = clock
	lasts := func() {
		if len(clock.waits) == 8 {
			clock.now = clock.now.Add(time.Minute)
		}
	}
	l, err := NewListener(w.config, "brief", brief{w.node, make(chan struct{}), lasts})
	if err != nil {
		t.Fatal(err)
	}
	if err := l.follow(w.ctx); !errors.Is(err, errBrief) {
		t.Error(err)
	}
	ms := func(n int) time.Duration { return time.Duration(n) * time.Millisecond }
	want := []time.Duration{ms(50), ms(100), ms(200), ms(400), ms(800), ms(1600), ms(3200), ms(5000), ms(50), ms(100)}
	if !slices.Equal(clock.waits, want) {
		t.Errorf("waited %s, want %s", clock.waits, want)
	}
}

// numbered are a node's streams, of which that of one invoice has the indices as well, as LND's does.
type numbered struct{ *simnode.Node }

func (n numbered) WatchInvoice(ctx context.Context, h paidaction.Hash, on func(paidaction.InvoiceEvent) error) error {
	return n.Node.WatchInvoice(ctx, h, func(e paidaction.InvoiceEvent) error {
		e.AddIndex, e.SettleIndex = 1, 1
		return on(e)
	})
}

// That an invoice is held, and that it was given back, its own stream alone tells. Its indices belong to the stream of all
// invoices: the cursor must not pass what is still on its way there.
func TestAHoldInvoicesStreamTellsThatItIsHeldAndThatItIsGivenBack(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	l := w.listener(numbered{w.node})
	ctx, stop := context.WithCancel(w.ctx)
	defer l.holds.wait()
	defer stop()
	tells := func(pa *paidaction.PaidAction, want paidaction.InvoiceState) {
		t.Helper()
		select {
		case e := <-l.inbox:
			if e.Hash != pa.Invoice.Hash || e.State != want || e.AddIndex != 0 || e.SettleIndex != 0 {
				t.Errorf("it tells %+v, want %s", e, want)
			}
		case <-w.ctx.Done():
			t.Fatalf("it does not tell that its invoice is %s", want)
		}
	}
	pa := w.begin(paidaction.Pessimistic)
	l.watch(ctx, pa.Invoice.Hash)
	w.pay(pa)
	tells(pa, paidaction.InvoiceAccepted)
	if err := w.node.Cancel(w.ctx, pa.Invoice.Hash); err != nil {
		t.Fatal(err)
	}
	tells(pa, paidaction.InvoiceCanceled)
}

// breaking are a node's streams, of which that of one invoice breaks at once, each time; the fourth has said something before.
type breaking struct {
	*simnode.Node
	opened int
}

func (b *breaking) WatchInvoice(_ context.Context, h paidaction.Hash, on func(paidaction.InvoiceEvent) error) error {
	if b.opened++; b.opened == 4 {
		_ = on(paidaction.InvoiceEvent{Hash: h, State: paidaction.InvoiceOpen})
	}
	return errBrief
}

// A hold invoice's own stream that breaks is opened again, less and less often until it has said something.
func TestAHoldInvoicesStreamThatBreaksIsOpenedAgain(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	clock := &stepping{left: 6}
	w.config.Clock = clock
	l := w.listener(&breaking{Node: w.node})
	l.watch(w.ctx, paidaction.Hash{1})
	l.holds.wait()
	ms := func(n int) time.Duration { return time.Duration(n) * time.Millisecond }
	if want := []time.Duration{ms(50), ms(100), ms(200), ms(50), ms(100), ms(200)}; !slices.Equal(clock.waits, want) {
		t.Errorf("waited %s, want %s", clock.waits, want)
	}
}

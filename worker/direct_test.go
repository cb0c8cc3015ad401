package worker

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/a-seed-a7aed72f/holdfast/lightning/simnode"
	"github.com/a-seed-a7aed72f/holdfast/paidaction"
)

// advances counts the jobs that bring actions on.
func (w *world) advances() int {
	w.Helper()
	return w.count(`SELECT count(*) FROM river_job WHERE kind = 'advance'`)
}

// Who hears of a payment takes the action to its end: nobody works off jobs here, and none is stored for the event.
func TestWhoHearsOfAPaymentDrivesIt(t *testing.T) {
	t.Parallel()
	w := newWorld(t, func(w *world, _ *paidaction.Config) { w.config.Settings.CheckEvery = 20 * time.Millisecond })
	w.listens(w.node)
	for method, follow := range map[paidaction.Method]int{paidaction.Optimistic: 0, paidaction.Pessimistic: 1} {
		pa := w.begin(method)
		before := w.advances()
		w.pay(pa)
		w.awaitState(pa.ID, paidaction.Paid)
		w.wantOnce(pa.ID)
		if n := w.advances() - before; n != follow { // HELD has one that stands by
			t.Errorf("%s: %d jobs were stored, want %d", method, n, follow)
		}
	}
	w.await("the cursor", func() bool { return w.count(`SELECT coalesce(max(settle_index), 0) FROM node_cursor`) == 2 })
}

// listens runs a listener, and no worker.
func (w *world) listens(events paidaction.NodeEvents) {
	w.Helper()
	l := w.listener(events)
	ctx, stop := context.WithCancel(w.ctx)
	var group errgroup.Group
	group.Go(func() error { return l.Run(ctx) })
	w.Cleanup(func() {
		stop()
		if err := group.Wait(); err != nil {
			w.Error(err)
		}
	})
	w.await("the node's streams", l.Up)
}

// forgetful are a node's streams that leave one settled invoice out.
type forgetful struct {
	*simnode.Node
	hash paidaction.Hash
}

func (f *forgetful) WatchInvoices(ctx context.Context, add, settle uint64, put func(paidaction.InvoiceEvent) error) error {
	return f.Node.WatchInvoices(ctx, add, settle, func(e paidaction.InvoiceEvent) error {
		if e.Hash == f.hash && e.State == paidaction.InvoiceSettled {
			return nil
		}
		return put(e)
	})
}

// Nobody sweeps here but for the gap.
func TestWhatTheStreamLeavesOutIsFound(t *testing.T) {
	t.Parallel()
	w := newWorld(t, func(w *world, _ *paidaction.Config) { w.config.Settings.CheckEvery = 20 * time.Millisecond })
	left, told := w.begin(paidaction.Optimistic), w.begin(paidaction.Optimistic)
	w.listens(&forgetful{w.node, left.Invoice.Hash})
	w.await("the sweep after the start", func() bool { return w.node.Count(simnode.MethodLookup, told.Invoice.Hash) > 0 })
	w.pay(left)
	w.pay(told)
	w.awaitState(told.ID, paidaction.Paid)
	w.awaitState(left.ID, paidaction.Paid)
	w.wantOnce(left.ID)
}

// held has what is heard of driven when it says so.
type held struct{ waiting []func(context.Context) }

func (h *held) beside(_ int64, do func(context.Context)) bool {
	h.waiting = append(h.waiting, do)
	return true
}

func (h *held) run(ctx context.Context) {
	for _, do := range h.waiting {
		do(ctx)
	}
	h.waiting = nil
}

// What is being driven is forgotten with the process, so the node has to tell of it again: the cursor stays before it, also while others that came later are done,
// until it was driven or has a job.
func TestTheCursorWaitsForWhatIsDriven(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	jobs := &unreliable{Jobs: w.config.Jobs}
	w.config.Jobs = jobs
	l := w.listener(w.node)
	first, second := &held{}, &held{}
	var paid []*paidaction.PaidAction
	hears := func(beside *held) {
		t.Helper()
		pa := w.begin(paidaction.Optimistic)
		w.pay(pa)
		paid = append(paid, pa)
		inv, _ := w.node.Inspect(pa.Invoice.Hash)
		l.Direct = beside.beside
		err := l.OnInvoices(w.ctx, []paidaction.InvoiceEvent{{Hash: pa.Invoice.Hash, State: inv.State, AddIndex: inv.AddIndex, SettleIndex: inv.SettleIndex}})
		if err != nil {
			t.Fatal(err)
		}
	}
	want := func(what string, settle, jobs int) {
		t.Helper()
		if err := l.StoreCursor(w.ctx); err != nil {
			t.Fatal(err)
		}
		if n := w.count(`SELECT coalesce(max(settle_index), 0) FROM node_cursor`); n != settle {
			t.Errorf("%s: the cursor is at %d, want %d", what, n, settle)
		}
		if n := w.advances(); n != jobs {
			t.Errorf("%s: %d jobs, want %d", what, n, jobs)
		}
	}
	hears(first)
	hears(second)
	before := w.advances()
	second.run(w.ctx)
	want("the first is not done", 0, before)
	first.run(w.ctx)
	want("both are done", 2, before)
	for _, pa := range paid {
		if s := w.state(pa.ID); s != paidaction.Paid {
			t.Errorf("action %d is %s", pa.ID, s)
		}
	}

	hears(first)
	before = w.advances()
	w.node.FailBefore(simnode.MethodLookup, 1)
	jobs.failures.Store(1)
	first.run(w.ctx)
	want("neither driven nor stored", 2, before)
	select {
	case <-l.behind:
	default:
		t.Error("nobody looks for what was missed")
	}
	hears(first)
	before = w.advances()
	w.node.FailBefore(simnode.MethodLookup, 1)
	first.run(w.ctx)
	want("the one before is missing", 2, before+1)
	if err := l.CatchUp(w.ctx); err != nil {
		t.Fatal(err)
	}
	want("caught up", 4, before+1)
	for _, pa := range paid {
		w.wantOnce(pa.ID)
	}
}

// Of a burst the rest has jobs: other processes do them too, and nothing waits in memory.
func TestOnlySoManyAreDrivenAtOnce(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.config.Settings.Direct = 2
	l := w.listener(w.node)
	stopped, stop := context.WithCancel(w.ctx)
	end := l.beginDirect(stopped)
	goOn, begun := make(chan struct{}), make(chan struct{}, 3)
	block := func(ctx context.Context) {
		begun <- struct{}{}
		select {
		case <-goOn:
		case <-ctx.Done():
			t.Error("its context ends with the listener's")
		}
	}
	for i, want := range []bool{true, true, false} {
		if got := l.Direct(int64(i), block); got != want {
			t.Errorf("number %d: %v", i, got)
		}
	}
	<-begun
	<-begun
	stop()
	close(goOn)
	end()
	if !errors.Is(stopped.Err(), context.Canceled) || len(begun) != 0 {
		t.Error("a third one ran")
	}
}

// What hangs gives its place free after as long as a job may run, and sooner where the process stops.
func TestWhatHangsIsGivenUp(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		l := &Listener{Config: Config{Settings: Settings{Direct: 1}}}
		end := l.beginDirect(t.Context())
		over := make(chan bool, 2)
		hangs := func(want time.Duration) {
			begun := time.Now()
			if !l.Direct(0, func(ctx context.Context) {
				defer func() { over <- true }()
				<-ctx.Done()
				if lasted := time.Since(begun); lasted != want {
					t.Errorf("it was given up after %s, want %s", lasted, want)
				}
			}) {
				t.Error("there is no place")
			}
		}
		hangs(jobTimeout)
		<-over
		synctest.Wait()
		hangs(stopTimeout)
		end()
	})
}

// blockless are a node's streams, of which that of blocks says nothing: so nobody catches up.
type blockless struct{ *simnode.Node }

func (blockless) WatchBlocks(ctx context.Context, _ func(uint32) error) error {
	<-ctx.Done()
	return ctx.Err()
}

// A process that stops finishes what it has begun to drive.
func TestWhatIsDrivenIsFinishedAtAStop(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	l := w.listener(blockless{w.node})
	pa := w.begin(paidaction.Optimistic)
	begun, goOn, over := make(chan struct{}), make(chan struct{}), make(chan error, 1)
	w.node.Before(simnode.MethodLookup, func(paidaction.Hash) { close(begun); <-goOn })
	ctx, stop := context.WithCancel(w.ctx)
	defer stop()
	go func() { over <- l.Run(ctx) }()
	if err := w.node.AwaitStreams(w.ctx, 1); err != nil {
		t.Fatal(err)
	}
	w.pay(pa)
	<-begun
	stop()
	close(goOn)
	if err := <-over; err != nil {
		t.Error(err)
	}
	if s := w.state(pa.ID); s != paidaction.Paid {
		t.Errorf("the action is %s", s)
	}
}

// A gap that moves is what is being driven, or on its way; one that stays is what the stream left out.
func TestOnlyAGapThatStaysIsOne(t *testing.T) {
	t.Parallel()
	c := newCursor(position{})
	sees := func(want bool, settled ...uint64) {
		t.Helper()
		for _, n := range settled {
			c.see([]paidaction.InvoiceEvent{{SettleIndex: n}})
		}
		if got := c.stuck(); got != want {
			t.Errorf("after %d: stuck is %v", settled, got)
		}
	}
	sees(false)
	sees(false, 2)
	sees(true, 3)
	sees(false, 1, 5)
	sees(false, 4, 7)
	sees(true)
	sees(false, 6)
	sees(false)
}

// An opening that the stream left out is a gap as well, also while no payment is missing: the cursor would stay before it
// for ever.
func TestAnOpeningThatIsLeftOutIsAGap(t *testing.T) {
	t.Parallel()
	c := newCursor(position{})
	c.see([]paidaction.InvoiceEvent{{AddIndex: 2, SettleIndex: 1}})
	if c.stuck() {
		t.Error("it may be on its way")
	}
	if !c.stuck() {
		t.Error("nobody looks for what it left out")
	}
}

// Package lock orders work by keys: one holder per key at a time, the others in the order of their arrival; different
// keys do not affect each other.
//
// A lock saves effort and gives order. Money is never safe because of a lock: a holder can be stopped or cut off, and
// go on after its lease has ended. The database refuses what must not happen then, by a condition of its own or by the
// lease's fence ([Lease.Fence]). docs/locks.md says what is promised.
//
// Queues and leases live in a [Store]: in PostgreSQL (lock/postgres), in Redis (lock/redis), or in this process
// ([Memory]).
//
//	lease, err := locker.Acquire(ctx, key, lock.Options{})
//	if err != nil { return err }
//	defer lease.Release(ctx)
package lock

import (
	"container/list"
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"time"
)

// Locker acquires locks for one process. It is safe for concurrent use.
type Locker struct {
	store    Store
	settings Settings
	metrics  *Metrics
	process  Process

	stop       context.CancelFunc
	stopped    <-chan struct{}
	loops      sync.WaitGroup
	listening  atomic.Bool
	missed     atomic.Bool               // wakes may have been: listening began or ceased since all tickets were looked at
	beaten     atomic.Pointer[time.Time] // when the last successful heartbeat was sent
	before     atomic.Pointer[time.Time] // and the one before it
	keeper     *keeper
	acquiring  sync.WaitGroup // acquisitions that may still become leases
	background sync.WaitGroup // store calls that nobody waits for

	mu       sync.Mutex
	closed   bool
	drained  bool
	waiters  map[string]*waiter    // by ticket
	lines    map[string]*list.List // of places, by key
	urgent   []Ticket              // woken: look at them now
	kick     chan struct{}         // holds a token when the watch has something new to do
	pulse    chan struct{}         // holds a token when somebody has begun to wait
	stale    chan map[string]bool  // keys to hand over
	owed     list.List             // of tickets to give back
	owing    chan struct{}         // holds a token when there is another one of them
	fallback *Locker               // a lock within this process, for those who may go on without the store
}

// New makes a Locker on the store. Close closes the store as well.
func New(store Store, settings Settings) (*Locker, error) {
	settings, err := settings.withDefaults()
	if err != nil {
		return nil, err
	}
	ctx, stop := context.WithCancel(context.Background())
	l := &Locker{
		store: store, settings: settings, metrics: settings.Metrics,
		process: Process{ID: rand.Text(), Name: settings.Name}, stop: stop, stopped: ctx.Done(),
		waiters: map[string]*waiter{}, lines: map[string]*list.List{}, kick: make(chan struct{}, 1),
		pulse: make(chan struct{}, 1), stale: make(chan map[string]bool, 1), owing: make(chan struct{}, 1),
	}
	l.keeper = newKeeper(l)
	l.loops.Go(func() { l.watch(ctx) })
	l.loops.Go(func() { l.beats(ctx) })
	l.loops.Go(func() { l.advances(ctx) })
	l.loops.Go(func() { l.listen(ctx) })
	l.loops.Go(func() { l.repay(ctx) })
	l.loops.Go(func() { l.keeper.run(ctx) })
	l.loops.Go(func() { l.sweep(ctx) })
	return l, nil
}

// Acquire waits until the caller holds the lock of the key, and returns the lease. The caller's place in the queue is
// taken at the moment of the call. The lease's context ends with ctx. Errors: the cause of ctx, [ErrTimeout], also with
// that cause, [ErrQueueFull], [ErrTooManyKeys], [ErrUnavailable], [ErrBadKey], [ErrBadOptions], [ErrClosed]. After an
// error the caller holds nothing and waits for nothing.
func (l *Locker) Acquire(ctx context.Context, key string, options Options) (*Lease, error) {
	return l.Queue(key).Acquire(ctx, options)
}

// TryAcquire is Acquire without waiting: [ErrBusy] if the lock is held, or if an earlier place of this process is still
// undecided (neither used nor left).
func (l *Locker) TryAcquire(ctx context.Context, key string, options Options) (*Lease, error) {
	return l.acquire(ctx, l.claim(key), options, false)
}

// Do calls work while it holds the lock. If the lease is lost, the context of work ends, and Do returns that loss.
func (l *Locker) Do(ctx context.Context, key string, options Options, work func(context.Context, *Lease) error) error {
	lease, err := l.Acquire(ctx, key, options)
	if err != nil {
		return err
	}
	err = work(lease.Context(), lease)
	if released := lease.Release(ctx); errors.Is(released, ErrLost) {
		return errors.Join(released, err)
	}
	return err
}

// Listening reports whether wakes from other processes get through; while they do not, waiters poll.
func (l *Locker) Listening() bool { return l.listening.Load() }

// acquire uses the place, which has left the line when acquire returns.
func (l *Locker) acquire(ctx context.Context, p *Place, options Options, wait bool) (*Lease, error) {
	if p.bad != nil {
		return nil, p.bad
	}
	options = options.or(l.settings.Options)
	if err := options.check(); err != nil {
		p.depart()
		return nil, err
	}
	begun := time.Now()
	l.metrics.waiting.Inc()
	lease, err := l.obtain(ctx, p, options, wait)
	l.metrics.waiting.Dec()
	l.metrics.acquisitions.WithLabelValues(status(err)).Inc()
	switch {
	case err == nil:
		l.metrics.wait.Observe(time.Since(begun).Seconds())
		return lease, nil
	case errors.Is(err, ErrTimeout):
		l.metrics.timeouts.Inc()
	case errors.Is(err, ErrUnavailable) && options.FailOpen && ctx.Err() == nil:
		l.settings.Log.ErrorContext(ctx, "the lock's store is away: going on with a lock of this process alone", "key", p.key, "error", err)
		return l.goOn(ctx, p.key, options, wait)
	}
	return nil, err
}

// goOn acquires a lock within this process. Without it everybody who waits would be let through at once.
func (l *Locker) goOn(ctx context.Context, key string, options Options, wait bool) (*Lease, error) {
	l.mu.Lock()
	if l.closed {
		l.mu.Unlock()
		return nil, ErrClosed
	}
	if l.fallback == nil {
		settings := l.settings
		settings.Metrics = NewMetrics(nil)
		var err error
		if l.fallback, err = New(NewMemory(0), settings); err != nil {
			l.mu.Unlock()
			return nil, err
		}
	}
	fallback := l.fallback
	l.mu.Unlock()
	options.FailOpen = false
	lease, err := fallback.acquire(ctx, fallback.claim(key), options, wait)
	if err != nil {
		return nil, err
	}
	lease.degraded = true
	l.metrics.acquisitions.WithLabelValues("degraded").Inc()
	return lease, nil
}

// status is how an acquisition ended, for the metric.
func status(err error) string {
	switch {
	case err == nil:
		return "acquired"
	case errors.Is(err, ErrTimeout):
		return "timeout"
	case errors.Is(err, ErrBusy):
		return "busy"
	case errors.Is(err, ErrQueueFull), errors.Is(err, ErrTooManyKeys):
		return "full"
	case errors.Is(err, ErrUnavailable):
		return "unavailable"
	case errors.Is(err, ErrClosed):
		return "closed"
	default:
		return "cancelled"
	}
}

// obtain waits for the lock, and queues again whenever it loses its place.
func (l *Locker) obtain(ctx context.Context, p *Place, options Options, wait bool) (*Lease, error) {
	if !l.begin() {
		p.depart()
		return nil, ErrClosed
	}
	defer l.acquiring.Done()
	waiting := ctx
	if options.MaxWait != Unlimited {
		var cancel context.CancelFunc
		waiting, cancel = context.WithTimeoutCause(ctx, options.MaxWait, ErrTimeout)
		defer cancel()
	}
	for {
		ticket := Ticket{Key: p.key, ID: rand.Text(), Process: l.process.ID}
		got := l.attempt(waiting, p, Entry{
			Ticket: ticket, Name: l.process.Name, Live: l.settings.live(), Wait: wait,
			TTL: options.TTL, MaxHold: bound(options.MaxHold), MaxQueue: options.MaxQueue, Fleeting: options.Fleeting,
		})
		if got.gone {
			p = l.claim(p.key) // the store has forgotten the place: take one at the end
			continue
		}
		if got.err != nil {
			return nil, got.err
		}
		lease := newLease(ctx, l, ticket, options, got)
		if options.Manual && time.Until(got.until) < options.TTL/2 {
			// A lease that was handed over is short until its first touch, and nobody else will touch this one.
			switch err := lease.Touch(waiting, options.TTL); {
			case errors.Is(err, ErrLost):
				p = l.claim(p.key)
				continue
			case err != nil:
				return nil, errors.Join(err, lease.Release(ctx))
			}
		}
		return lease, nil
	}
}

// Close ends all waits with [ErrClosed] and all leases with that cause. When it returns, nothing of the Locker runs.
func (l *Locker) Close() error {
	l.mu.Lock()
	if l.closed {
		l.mu.Unlock()
		return nil
	}
	l.closed = true
	waiting := make([]Ticket, 0, len(l.waiters))
	for _, w := range l.waiters {
		waiting = append(waiting, w.Ticket)
	}
	fallback := l.fallback
	l.mu.Unlock()
	for _, t := range waiting {
		l.turnAway(t, ErrClosed)
	}
	l.stop()
	l.loops.Wait()
	l.acquiring.Wait() // whoever was granted the lock before is about to have a lease
	for _, lease := range l.keeper.all() {
		lease.lose(ErrClosed)
	}
	l.mu.Lock()
	l.drained = true
	l.mu.Unlock()
	l.background.Wait()
	if fallback != nil {
		if err := fallback.Close(); err != nil {
			return err
		}
	}
	return l.store.Close()
}

// begin counts an acquisition that Close waits for. It returns false, and counts none, once the Locker is being closed.
func (l *Locker) begin() bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	if !l.closed {
		l.acquiring.Add(1)
	}
	return !l.closed
}

// closing reports whether the Locker is being closed.
func (l *Locker) closing() bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.closed
}

// spawn runs something that only Close waits for. After Close has waited, it returns false and runs nothing.
func (l *Locker) spawn(run func()) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	if !l.drained {
		l.background.Go(run)
	}
	return !l.drained
}

// call is the context of one store call. It is not the caller's: aborting a call costs its connection, and leaves open
// what the call did.
func (l *Locker) call() (context.Context, context.CancelFunc) {
	return context.WithTimeout(context.Background(), l.settings.Patience)
}

// failed counts a failed store call and turns err into ErrUnavailable.
func (l *Locker) failed(operation string, err error) error {
	l.metrics.errors.WithLabelValues(operation).Inc()
	return fmt.Errorf("%w: %s: %w", ErrUnavailable, operation, err)
}

package pool_test

import (
	"context"
	"log/slog"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/a-seed-a7aed72f/holdfast/lightning/pool"
	"github.com/a-seed-a7aed72f/holdfast/lock"
	"github.com/a-seed-a7aed72f/holdfast/lock/locktest"
)

// counting is a world that counts how often the lock is asked.
func counting(t *testing.T) (w *world, asked *counted) {
	w, asked = newWorld(t), &counted{Store: lock.NewMemory(0)}
	w.locker = func(s lock.Settings) *lock.Locker {
		return locktest.Open(t, locktest.Strategy{Open: func() (lock.Store, error) { return asked, nil }}, s)
	}
	return w, asked
}

// Payments that follow each other share one lock: a lease that follows at once costs no question.
func TestTheNextPaymentHasTheLockOfTheLast(t *testing.T) {
	t.Parallel()
	w, asked := counting(t)
	s := quick()
	s.Cooldown, s.Probe = 0, time.Hour
	p := w.open(s, member{"alice", newNode("a", 1000*sat), 1})
	const n = 100
	fence := int64(0)
	for range n {
		lease := p.lease(pool.Need{})
		if lease.Fence() < fence {
			t.Errorf("fence %d after %d", lease.Fence(), fence)
		}
		fence = lease.Fence()
		release(t, lease, pool.Done(0))
		if err := lease.Context().Err(); err == nil {
			t.Error("the lease lives on")
		}
	}
	if asked := asked.enters.Load(); asked > n/2 { // it would be one, if no machine were ever busy
		t.Errorf("the lock was asked %d times for %d payments", asked, n)
	}
}

// A waiter in another process is not passed over for long, however many follow each other here.
func TestALockIsNotKeptForEver(t *testing.T) {
	t.Parallel()
	everywhere(t, func(t *testing.T, w *world) {
		s := quick()
		s.Cooldown = 0
		alice := member{"alice", newNode("a", 1000*sat), 1}
		here, elsewhere := w.open(s, alice), w.open(s, alice)
		busy, stop := context.WithCancel(t.Context())
		defer stop()
		var traffic sync.WaitGroup
		begun := make(chan struct{})
		first := sync.OnceFunc(func() { close(begun) })
		for range 3 {
			traffic.Go(func() {
				for busy.Err() == nil {
					lease, err := here.Acquire(t.Context(), pool.Need{})
					if err != nil {
						t.Error(err)
						return
					}
					first()
					pause(time.Millisecond)
					release(t, lease, pool.Done(0))
				}
			})
		}
		locktest.Wait(t, "traffic", begun)
		lease := elsewhere.lease(pool.Need{})
		stop()
		release(t, lease, pool.Done(0))
		traffic.Wait()
	})
}

// Nor once it was got long ago, whoever may want it here in a moment.
func TestALockThatWasGotLongAgoIsNotKept(t *testing.T) {
	t.Parallel()
	w, _ := counting(t)
	s := quick()
	s.Cooldown, s.Probe = 0, time.Hour
	alice := member{"alice", newNode("a", 1000*sat), 1}
	here, elsewhere := w.open(s, alice), w.open(s, alice)
	here.KeepLocksFor(time.Millisecond)
	elsewhere.KeepLocksFor(300 * time.Millisecond)
	lease := here.lease(pool.Need{})
	pause(2 * time.Millisecond)
	release(t, lease, pool.Done(0))
	lease = elsewhere.lease(pool.Need{})
	release(t, lease, pool.Done(0))

	// Nor by payments that follow each other without a pause.
	locktest.Eventually(t, "another lock", func() bool {
		next := elsewhere.lease(pool.Need{})
		release(t, next, pool.Done(0))
		return next.Fence() > lease.Fence()
	})
}

// forgetful is a store of locks that forgets, once it is told so, each lease that is touched.
type forgetful struct {
	lock.Store
	forgets atomic.Bool
}

func (f *forgetful) Touch(ctx context.Context, touches []lock.Touch) (map[string]time.Duration, error) {
	if !f.forgets.Load() {
		return f.Store.Touch(ctx, touches)
	}
	for _, t := range touches {
		if _, err := f.Leave(ctx, t.Ticket); err != nil {
			return nil, err
		}
	}
	return nil, nil
}

// Nor does it serve a payment once it was lost: another process may have the slot by then.
func TestALockThatWasLostWhileItWasKeptServesNobody(t *testing.T) {
	t.Parallel()
	w, store, registry := newWorld(t), &forgetful{Store: lock.NewMemory(0)}, prometheus.NewRegistry()
	w.locker = func(s lock.Settings) *lock.Locker {
		return locktest.Open(t, locktest.Strategy{Open: func() (lock.Store, error) { return store, nil }}, s)
	}
	s := quick()
	s.Cooldown, s.Probe = 0, time.Hour
	settings := lock.Settings{Options: lock.Options{TTL: time.Second}, Metrics: lock.NewMetrics(registry), Log: slog.New(slog.DiscardHandler)}
	p := w.openOn(w.db, w.locker(settings), s, member{"alice", newNode("a", 1000*sat), 1})
	p.KeepLocks()
	lease := p.lease(pool.Need{})
	release(t, lease, pool.Done(0))
	store.forgets.Store(true)
	locktest.Eventually(t, "the loss", func() bool { return locktest.Metric(t, registry, "holdfast_lock_lost_total") == 1 })
	store.forgets.Store(false)
	next := p.lease(pool.Need{})
	if next.Fence() <= lease.Fence() {
		t.Errorf("fence %d after %d: the lock that was lost was given to a payment", next.Fence(), lease.Fence())
	}
	release(t, next, pool.Done(0))
}

// Nor is it where nobody here wants it, after a payment that failed because of the node, or by a pool that is closed.
func TestWhatIsNotWantedIsNotKept(t *testing.T) {
	t.Parallel()
	w, asked := counting(t)
	s := quick()
	s.Cooldown, s.FailureCooldown, s.Probe = 0, 0, time.Hour
	alice := member{"alice", newNode("a", 1000*sat), 1}
	here, elsewhere := w.open(s, alice), w.open(s, alice)

	lease := here.lease(pool.Need{})
	release(t, lease, pool.Done(0))
	next := elsewhere.lease(pool.Need{})
	if next.Fence() <= lease.Fence() {
		t.Errorf("fence %d after %d in another process", next.Fence(), lease.Fence())
	}
	release(t, next, pool.NodeFault("down"))
	entered := asked.enters.Load()
	release(t, elsewhere.lease(pool.Need{}), pool.Done(0))
	if asked.enters.Load() == entered {
		t.Error("the lock was kept though the node was at fault")
	}
	elsewhere.Close()
	locker := w.locker(lock.Settings{})
	held, err := locker.TryAcquire(t.Context(), pool.Key("alice", 0), lock.Options{})
	if err != nil {
		t.Fatalf("a pool was closed, and still has a lock: %v", err)
	}
	if err := held.Release(t.Context()); err != nil {
		t.Error(err)
	}

	release(t, here.lease(pool.Need{}), pool.Done(0))
	out := here.lease(pool.Need{}) // by the lock that was kept
	here.Close()
	if err := out.Context().Err(); err != nil {
		t.Errorf("a lease that was out when the pool was closed has ended: %v", err)
	}
	release(t, out, pool.Done(0))
}

// reluctant is a store of locks whose first release takes until it is told to end.
type reluctant struct {
	counted
	once       sync.Once
	begun, end chan struct{}
}

func (r *reluctant) Release(ctx context.Context, t lock.Ticket) (lock.Released, error) {
	r.once.Do(func() {
		close(r.begun)
		<-r.end
	})
	return r.Store.Release(ctx, t)
}

// While a kept lock is given back, nobody here asks for its slot: they would find it taken by themselves, and wait for
// it in the queue beside all others.
func TestNobodyAsksForASlotThatIsJustBeingGivenBack(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	store := &reluctant{counted: counted{Store: lock.NewMemory(0)}, begun: make(chan struct{}), end: make(chan struct{})}
	end := sync.OnceFunc(func() { close(store.end) })
	defer end()
	s := quick()
	s.Cooldown, s.Probe = 0, time.Hour
	locker := locktest.Open(t, locktest.Strategy{Open: func() (lock.Store, error) { return store, nil }}, lock.Settings{})
	p := w.openOn(w.db, locker, s, member{"alice", newNode("a", 1000*sat), 1})
	release(t, p.lease(pool.Need{}), pool.Done(0))
	locktest.Wait(t, "the release of the lock that was kept", store.begun)
	before := store.enters.Load()
	next := p.leased(pool.Need{})
	locktest.Eventually(t, "the next waits", func() bool { return p.Waiting() == 1 })
	p.health() // asks the database: time enough for a question to the lock
	if n := store.enters.Load() - before; n != 0 {
		t.Errorf("the lock was asked %d times for the slot meanwhile", n)
	}
	end()
	release(t, got(t, "the next", next), pool.Done(0))
}

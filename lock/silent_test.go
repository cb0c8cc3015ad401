package lock_test

import (
	"cmp"
	"context"
	"errors"
	"os"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/a-seed-a7aed72f/holdfast/lock"
	"github.com/a-seed-a7aed72f/holdfast/lock/locktest"
)

// silent is a store that says nothing while it is silent: its calls last until their callers give them up.
type silent struct {
	*lock.Memory
	now   *atomic.Bool
	limit time.Duration // a client of its own that gives up before; 0: none
}

func (s silent) wait(ctx context.Context) error {
	if !s.now.Load() {
		return nil
	}
	if s.limit > 0 {
		<-time.After(s.limit)
		return os.ErrDeadlineExceeded
	}
	<-ctx.Done()
	return ctx.Err()
}

func (s silent) Enter(ctx context.Context, e lock.Entry) (lock.Entered, error) {
	if err := s.wait(ctx); err != nil {
		return lock.Entered{}, err
	}
	return s.Memory.Enter(ctx, e)
}

func (s silent) Touch(ctx context.Context, touches []lock.Touch) (map[string]time.Duration, error) {
	if err := s.wait(ctx); err != nil {
		return nil, err
	}
	return s.Memory.Touch(ctx, touches)
}

func (s silent) Release(ctx context.Context, t lock.Ticket) (lock.Released, error) {
	if err := s.wait(ctx); err != nil {
		return lock.Released{}, err
	}
	return s.Memory.Release(ctx, t)
}

func (s silent) Leave(ctx context.Context, t lock.Ticket) (lock.Handoff, error) {
	if err := s.wait(ctx); err != nil {
		return lock.Handoff{}, err
	}
	return s.Memory.Leave(ctx, t)
}

// TestCloseWaitsForASilentStoreOnce: whoever ends a process waits for half a minute, and for more than the lock.
func TestCloseWaitsForASilentStoreOnce(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		store := silent{Memory: lock.NewMemory(0), now: &atomic.Bool{}}
		const patience = 5 * time.Second
		l := locktest.Open(t, locktest.Strategy{Open: func() (lock.Store, error) { return store, nil }}, lock.Settings{Patience: patience})
		locktest.Acquire(t, l, "held", lock.Options{})
		waits := locktest.Go(t.Context(), l, "held", lock.Options{})
		synctest.Wait()
		store.now.Store(true)
		begun := time.Now()
		_ = l.Close()
		if took := time.Since(begun); took > 2*patience {
			t.Errorf("closing took %v", took)
		}
		if r := <-waits; !errors.Is(r.Err, lock.ErrClosed) {
			t.Errorf("who waited: %v", r.Err)
		}
	})
}

// TestASilentStoreIsAway: nobody waits for its answer for longer than Patience, and a lease that it does not touch ends
// when the lock may go to another.
func TestASilentStoreIsAway(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		store := silent{Memory: lock.NewMemory(0), now: &atomic.Bool{}}
		const patience, ttl = 5 * time.Second, 30 * time.Second
		l := locktest.Open(t, locktest.Strategy{Open: func() (lock.Store, error) { return store, nil }},
			lock.Settings{Patience: patience, Options: lock.Options{TTL: ttl, MaxWait: lock.Unlimited, MaxHold: lock.Unlimited}})
		held, released := locktest.Acquire(t, l, "held", lock.Options{}), locktest.Acquire(t, l, "released", lock.Options{})
		store.now.Store(true)
		touch := func() error { return held.Touch(context.Background(), ttl) }
		for _, call := range []struct {
			what string
			make func() error
		}{
			{"a touch", touch},
			{"a release", func() error { return released.Release(context.Background()) }},
			{"a touch while the locker's own is not answered", touch}, // that one began four seconds ago
			{"an acquisition", func() error { _, err := l.Acquire(context.Background(), "other", lock.Options{}); return err }},
		} {
			begun := time.Now()
			if err := call.make(); !errors.Is(err, lock.ErrUnavailable) || time.Since(begun) != patience {
				t.Errorf("%s, after %v: %v", call.what, time.Since(begun), err)
			}
		}
		if err := held.Err(); err != nil {
			t.Errorf("a touch that failed was a loss: %v", err)
		}
		<-held.Context().Done()
		if err := held.Err(); !errors.Is(err, lock.ErrExpired) {
			t.Errorf("a lease that nobody could touch: %v", err)
		}
		store.now.Store(false)
	})
}

// TestNobodyWaitsForTheSilenceOfOthers: who stands behind others in the line of a key has waited as long as they have
// for a store that says nothing, and does not wait for it once more. Who only now wants the lock asks it.
func TestNobodyWaitsForTheSilenceOfOthers(t *testing.T) {
	t.Parallel()
	for _, limit := range []time.Duration{0, 3 * time.Second} { // the URL of a Redis may set one
		synctest.Test(t, func(t *testing.T) { nobodyWaitsForOthers(t, limit) })
	}
}

func nobodyWaitsForOthers(t *testing.T, limit time.Duration) {
	store := silent{lock.NewMemory(0), &atomic.Bool{}, limit}
	const patience = 5 * time.Second
	l := locktest.Open(t, locktest.Strategy{Open: func() (lock.Store, error) { return store, nil }}, lock.Settings{Patience: patience})
	store.now.Store(true)
	var all sync.WaitGroup
	for range 50 {
		all.Go(func() {
			begun := time.Now()
			lease, err := l.Acquire(context.Background(), "k", open)
			if err != nil || !lease.Degraded() || time.Since(begun) != cmp.Or(limit, patience) {
				t.Errorf("after %v: %v", time.Since(begun), err)
				return
			}
			locktest.Release(t, lease)
		})
	}
	synctest.Wait()
	undecided := l.Queue("k")
	all.Wait()
	store.now.Store(false)
	lease, err := undecided.Acquire(t.Context(), open)
	if err != nil || lease.Degraded() {
		t.Fatalf("the store answers, and is not asked: %v", err)
	}
	locktest.Release(t, lease)
}

// untouchable is a store whose touches fail at once while it is away.
type untouchable struct {
	*lock.Memory
	away  *atomic.Bool
	asked *atomic.Int64
}

func (s untouchable) Touch(ctx context.Context, touches []lock.Touch) (map[string]time.Duration, error) {
	if s.asked.Add(1); s.away.Load() {
		return nil, errAway
	}
	return s.Memory.Touch(ctx, touches)
}

// TestAFailedTouchIsMadeAgain: a store that is away for a moment takes no lease away. It is asked again soon, and not
// all the time (known failure 35).
func TestAFailedTouchIsMadeAgain(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		store := untouchable{lock.NewMemory(0), &atomic.Bool{}, &atomic.Int64{}}
		l := locktest.Open(t, locktest.Strategy{Open: func() (lock.Store, error) { return store, nil }},
			lock.Settings{Options: lock.Options{TTL: 30 * time.Second, MaxHold: lock.Unlimited}})
		lease := locktest.Acquire(t, l, "k", lock.Options{})
		store.away.Store(true)
		<-time.After(25 * time.Second) // the first touch is due after ten
		if n := store.asked.Load(); n < 10 || n > 20 {
			t.Errorf("touched %d times in fifteen seconds", n)
		}
		store.away.Store(false)
		<-time.After(time.Hour)
		locktest.Release(t, lease)
	})
}

// TestDoTellsOfALoss: what was done without the lock is not taken for done.
func TestDoTellsOfALoss(t *testing.T) {
	t.Parallel()
	l := locktest.Open(t, locktest.Strategy{Open: func() (lock.Store, error) { return lock.NewMemory(0), nil }}, lock.Settings{})
	failed := errors.New("failed")
	for _, own := range []error{nil, failed} {
		err := l.Do(t.Context(), "k", lock.Options{MaxHold: 50 * time.Millisecond}, func(ctx context.Context, _ *lock.Lease) error {
			<-ctx.Done()
			return own
		})
		if !errors.Is(err, lock.ErrLost) || !errors.Is(err, lock.ErrMaxHold) || own != nil && !errors.Is(err, own) {
			t.Errorf("told: %v", err)
		}
		if err := l.Do(t.Context(), "k", lock.Options{}, func(context.Context, *lock.Lease) error { return own }); err != own {
			t.Errorf("nothing was lost: %v", err)
		}
	}
}

// beatless is a store that takes no heartbeat while it is away.
type beatless struct {
	*lock.Memory
	away *atomic.Bool
}

func (s beatless) Beat(ctx context.Context, p lock.Process, live time.Duration) error {
	if s.away.Load() {
		return errAway
	}
	return s.Memory.Beat(ctx, p, live)
}

// TestTheFirstToWaitIsPatientToo: the patience of those who wait begins when the store last answered one of them, and
// not when somebody last waited.
func TestTheFirstToWaitIsPatientToo(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		store := beatless{lock.NewMemory(0), &atomic.Bool{}}
		const patience = 5 * time.Second
		l := locktest.Open(t, locktest.Strategy{Open: func() (lock.Store, error) { return store, nil }},
			lock.Settings{Patience: patience, Options: lock.Options{MaxHold: lock.Unlimited}})
		held := locktest.Acquire(t, l, "k", lock.Options{})
		<-time.After(time.Minute) // in which nobody waits
		store.away.Store(true)
		begun := time.Now()
		r := locktest.Wait(t, "the end of the wait", locktest.Go(t.Context(), l, "k", lock.Options{}))
		if took := time.Since(begun); !errors.Is(r.Err, lock.ErrUnavailable) || took < patience {
			t.Errorf("turned away after %v: %v", took, r.Err)
		}
		store.away.Store(false)
		locktest.Release(t, held)
	})
}

// TestAFailedReleaseIsMadeUpFor: whom the store did not answer at the release keeps the lock from the next no longer than
// the store is silent, however long the lease would have lasted.
func TestAFailedReleaseIsMadeUpFor(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		store := silent{Memory: lock.NewMemory(0), now: &atomic.Bool{}}
		l := locktest.Open(t, locktest.Strategy{Open: func() (lock.Store, error) { return store, nil }}, lock.Settings{})
		const long = time.Hour
		lease := locktest.Acquire(t, l, "k", lock.Options{TTL: long, MaxHold: lock.Unlimited})
		store.now.Store(true)
		if err := lease.Release(t.Context()); !errors.Is(err, lock.ErrUnavailable) {
			t.Errorf("the release: %v", err)
		}
		store.now.Store(false)
		<-time.After(long / 60)
		next, err := l.TryAcquire(t.Context(), "k", lock.Options{})
		if err != nil {
			t.Fatalf("the next: %v", err)
		}
		locktest.Release(t, next)
	})
}

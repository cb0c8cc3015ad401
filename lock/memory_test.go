package lock_test

import (
	"context"
	"errors"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"go.uber.org/goleak"

	"github.com/a-seed-a7aed72f/holdfast/lock"
	"github.com/a-seed-a7aed72f/holdfast/lock/locktest"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

func TestMemory(t *testing.T) {
	store := lock.NewMemory(0)
	locktest.Run(t, locktest.Strategy{
		Open:    func() (lock.Store, error) { return store, nil },
		Waiting: func(_ context.Context, key string) (int, error) { return store.Waiting(key), nil },
		Left: func(_ context.Context, prefix string) (n int, _ error) {
			for key := range store.Keys() {
				if strings.HasPrefix(key, prefix) {
					n++
				}
			}
			return n, nil
		},
		Cancels: 10_000,
	})
}

// TestAHeldKeyIsNeverEvicted is known failure 31.
func TestAHeldKeyIsNeverEvicted(t *testing.T) {
	t.Parallel()
	store := lock.NewMemory(2)
	l := locktest.Open(t, locktest.Strategy{Open: func() (lock.Store, error) { return store, nil }}, lock.Settings{})
	a, b := locktest.Acquire(t, l, "a", lock.Options{}), locktest.Acquire(t, l, "b", lock.Options{})
	if _, err := l.Acquire(t.Context(), "c", lock.Options{}); !errors.Is(err, lock.ErrTooManyKeys) {
		t.Errorf("a third key: %v", err)
	}
	// Nor do those take it away who tidy up, or who think that its holder is gone.
	if err := store.Sweep(t.Context()); err != nil {
		t.Error(err)
	}
	for _, key := range []string{"a", "b"} {
		if _, err := store.Advance(t.Context(), key, "another"); err != nil {
			t.Error(err)
		}
		if _, err := l.TryAcquire(t.Context(), key, lock.Options{}); !errors.Is(err, lock.ErrBusy) {
			t.Errorf("%s: %v", key, err)
		}
	}
	locktest.Release(t, a)
	locktest.Release(t, locktest.Acquire(t, l, "c", lock.Options{}))
	locktest.Release(t, b)
}

// TestLinesGoWithTheirPlaces: whatever became of a place, nothing is kept of it.
func TestLinesGoWithTheirPlaces(t *testing.T) {
	t.Parallel()
	l := locktest.Open(t, locktest.Strategy{Open: func() (lock.Store, error) { return lock.NewMemory(0), nil }}, lock.Settings{})
	ctx, cancel := context.WithCancel(t.Context())
	first, behind := l.Queue("k"), l.Queue("k")
	done := make(chan error, 1)
	go func() { _, err := behind.Acquire(ctx, lock.Options{}); done <- err }()
	cancel()
	if err := locktest.Wait(t, "the end of the wait", done); !errors.Is(err, context.Canceled) {
		t.Error(err)
	}
	if n := l.Lines(); n != 1 {
		t.Errorf("%d lines beside a place", n)
	}
	first.Leave()
	l.Queue("used").Leave()
	lease := locktest.Acquire(t, l, "k", lock.Options{})
	if _, err := l.TryAcquire(t.Context(), "k", lock.Options{}); !errors.Is(err, lock.ErrBusy) {
		t.Error(err)
	}
	locktest.Release(t, lease)
	locktest.Eventually(t, "no line is left", func() bool { return l.Lines() == 0 })
}

// slowly answers touches late. The time that an answer takes is what a lease lacks afterwards, so no signal can stand for it.
type slowly struct{ *lock.Memory }

func (s slowly) Touch(ctx context.Context, touches []lock.Touch) (map[string]time.Duration, error) {
	<-time.After(60 * time.Millisecond)
	return s.Memory.Touch(ctx, touches)
}

// TestLongestHoldOfASlowStore: how long the store took to answer makes a lease end earlier, and is no other cause.
func TestLongestHoldOfASlowStore(t *testing.T) {
	t.Parallel()
	l := locktest.Open(t, locktest.Strategy{Open: func() (lock.Store, error) { return slowly{lock.NewMemory(0)}, nil }}, lock.Settings{})
	lease := locktest.Acquire(t, l, "k", lock.Options{MaxHold: 300 * time.Millisecond})
	locktest.Wait(t, "the forced release", lease.Context().Done())
	if cause := context.Cause(lease.Context()); !errors.Is(cause, lock.ErrMaxHold) {
		t.Errorf("the cause: %v", cause)
	}
}

// lateAnswer has its first lease ready at once, and tells of it when that has run out.
type lateAnswer struct {
	*lock.Memory
	first *sync.Once
}

func (s lateAnswer) Enter(ctx context.Context, e lock.Entry) (lock.Entered, error) {
	got, err := s.Memory.Enter(ctx, e)
	s.first.Do(func() { <-time.After(e.TTL) })
	return got, err
}

// TestALeaseCountsFromBeforeTheQuestion: a lease that ran out while the answer was on its way is nobody's, and is not taken for one.
func TestALeaseCountsFromBeforeTheQuestion(t *testing.T) {
	t.Parallel()
	store := lateAnswer{lock.NewMemory(0), &sync.Once{}}
	l := locktest.Open(t, locktest.Strategy{Open: func() (lock.Store, error) { return store, nil }}, lock.Settings{})
	lease := locktest.Acquire(t, l, "k", lock.Options{TTL: time.Second, Manual: true})
	if err := lease.Touch(t.Context(), time.Minute); err != nil {
		t.Errorf("a lease that has just been got: %v", err)
	}
	locktest.Release(t, lease)
}

// lateTouch has a touch done at once, and tells of it late.
type lateTouch struct {
	*lock.Memory
	begun *time.Time
}

func (s lateTouch) Touch(ctx context.Context, touches []lock.Touch) (map[string]time.Duration, error) {
	*s.begun = time.Now()
	return late(s.Memory.Touch(ctx, touches))
}

// TestALeaseThatHasExpiredIsNobodys: the next one to ask has the lock at once, before anybody has noticed the end.
func TestALeaseThatHasExpiredIsNobodys(t *testing.T) {
	t.Parallel()
	store := lock.NewMemory(0)
	one := locktest.Strategy{Open: func() (lock.Store, error) { return store, nil }}
	late := locktest.Acquire(t, locktest.Open(t, one, lock.Settings{}), "k", lock.Options{})
	store.Expire("k")
	next, err := locktest.Open(t, one, lock.Settings{}).TryAcquire(t.Context(), "k", lock.Options{})
	if err != nil {
		t.Fatal(err)
	}
	if err := late.Release(t.Context()); !errors.Is(err, lock.ErrLost) {
		t.Errorf("the late one's release: %v", err)
	}
	locktest.Release(t, next)
}

// TestFencesGrowOverARestart: what a lease of the process before wrote is not above all that comes after it.
func TestFencesGrowOverARestart(t *testing.T) {
	t.Parallel()
	last := int64(0)
	for range 3 {
		l, err := lock.New(lock.NewMemory(0), lock.Settings{})
		if err != nil {
			t.Fatal(err)
		}
		for range 10 {
			lease := locktest.Acquire(t, l, "k", lock.Options{})
			if lease.Fence() <= last {
				t.Errorf("fence %d after %d", lease.Fence(), last)
			}
			last = lease.Fence()
			locktest.Release(t, lease)
		}
		if err := l.Close(); err != nil {
			t.Error(err)
		}
	}
}

// TestATouchCountsFromBeforeTheQuestion: a lease is nobody's any more once the store gives the lock to another one, however long the answer to the last touch took.
func TestATouchCountsFromBeforeTheQuestion(t *testing.T) {
	t.Parallel()
	store := lateTouch{lock.NewMemory(0), new(time.Time)}
	l := locktest.Open(t, locktest.Strategy{Open: func() (lock.Store, error) { return store, nil }}, lock.Settings{})
	lease := locktest.Acquire(t, l, "k", lock.Options{Manual: true})
	const ttl = 20 * time.Second
	if err := lease.Touch(t.Context(), ttl); err != nil {
		t.Error(err)
	}
	if late := lease.Until().Sub(store.begun.Add(ttl)); late > 0 {
		t.Errorf("the lease ends %v after its lock", late)
	}
}

// TestAShortLeaseIsShortFromTheQueueToo: who is handed the lock has it for as long as they asked for, though their process
// lives on, and may have said so more than once.
func TestAShortLeaseIsShortFromTheQueueToo(t *testing.T) {
	t.Parallel()
	for _, waits := range []time.Duration{0, time.Second} {
		synctest.Test(t, func(t *testing.T) {
			store := lock.NewMemory(0)
			strategy := locktest.Strategy{Open: func() (lock.Store, error) { return store, nil }}
			first, second := locktest.Open(t, strategy, lock.Settings{}), locktest.Open(t, strategy, lock.Settings{})
			lease := locktest.Acquire(t, first, "k", lock.Options{})
			const ttl = 100 * time.Millisecond
			handed := locktest.Go(t.Context(), second, "k", lock.Options{TTL: ttl, Manual: true})
			synctest.Wait()
			<-time.After(waits)
			locktest.Release(t, lease)
			got := <-handed
			if got.Err != nil {
				t.Fatal(got.Err)
			}
			if left := time.Until(got.Lease.Until()); left > ttl {
				t.Errorf("after %v it is taken to last for %v, and was asked for for %v", waits, left, ttl)
			}
		})
	}
}

// TestWhoHasLostTheLockIsToldSo: the store has given the lock to nobody or another one, as it may to who stood still, or
// knows that it has run out. The touch and the release of who believes to hold it still say so.
func TestWhoHasLostTheLockIsToldSo(t *testing.T) {
	t.Parallel()
	store := lock.NewMemory(0)
	l := locktest.Open(t, locktest.Strategy{Open: func() (lock.Store, error) { return store, nil }}, lock.Settings{})
	gone := func(key string) error { _, err := store.Leave(t.Context(), store.Holder(key)); return err }
	over := func(key string) error { store.Expire(key); return nil }
	touch := func(s *lock.Lease) error { return s.Touch(t.Context(), time.Minute) }
	release := func(s *lock.Lease) error { return s.Release(t.Context()) }
	for name, c := range map[string]struct {
		lose  func(key string) error
		end   func(*lock.Lease) error
		cause error
	}{
		"touch-of-what-was-taken-away":   {gone, touch, lock.ErrTaken},
		"release-of-what-was-taken-away": {gone, release, lock.ErrTaken},
		"touch-of-what-is-over":          {over, touch, lock.ErrTaken},
		"release-of-what-is-over":        {over, release, lock.ErrExpired},
	} {
		lease := locktest.Acquire(t, l, name, lock.Options{TTL: time.Minute})
		if err := c.lose(name); err != nil {
			t.Fatal(err)
		}
		for range 2 { // the second time it is known
			if err := c.end(lease); !errors.Is(err, lock.ErrLost) || !errors.Is(err, c.cause) {
				t.Errorf("%s: %v", name, err)
			}
		}
		if err := lease.Err(); !errors.Is(err, lock.ErrLost) {
			t.Errorf("%s: afterwards the lease says: %v", name, err)
		}
	}
}

// slow is a store that takes its time over an entry.
type slow struct {
	*lock.Memory
	asked, answer chan struct{}
}

func (s slow) Enter(ctx context.Context, e lock.Entry) (lock.Entered, error) {
	close(s.asked)
	<-s.answer
	return s.Memory.Enter(ctx, e)
}

// TestCloseLeavesNoLease: an entry that the store has while the Locker is closed becomes no lease that nobody holds.
func TestCloseLeavesNoLease(t *testing.T) {
	t.Parallel()
	store := slow{lock.NewMemory(0), make(chan struct{}), make(chan struct{})}
	l, err := lock.New(store, lock.Settings{})
	if err != nil {
		t.Fatal(err)
	}
	waiting := locktest.Go(t.Context(), l, "k", lock.Options{})
	<-store.asked
	closed := make(chan error, 1)
	go func() { closed <- l.Close() }()
	locktest.Eventually(t, "nothing more is begun", l.Drained)
	close(store.answer)
	if err := locktest.Wait(t, "the end of the Locker", closed); err != nil {
		t.Error(err)
	}
	if r := locktest.Wait(t, "the end of the wait", waiting); !errors.Is(r.Err, lock.ErrClosed) {
		t.Error(r.Err)
	}
	if left := store.Keys(); len(left) != 0 {
		t.Errorf("%d leases are left", len(left))
	}
}

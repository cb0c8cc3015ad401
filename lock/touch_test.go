package lock_test

import (
	"context"
	"errors"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/a-seed-a7aed72f/holdfast/lock"
	"github.com/a-seed-a7aed72f/holdfast/lock/locktest"
)

// TestAShorterTouchIsFollowedInTime: after a touch for a shorter time the touches that nobody has to think of come as
// often as that time needs, not when the next one was due before it.
func TestAShorterTouchIsFollowedInTime(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		l := locktest.Open(t, locktest.Strategy{Open: func() (lock.Store, error) { return lock.NewMemory(0), nil }}, lock.Settings{})
		lease := locktest.Acquire(t, l, "k", lock.Options{TTL: time.Hour, MaxHold: lock.Unlimited})
		<-time.After(time.Minute) // the first touch is due in 19 more
		if err := lease.Touch(t.Context(), time.Second); err != nil {
			t.Fatal(err)
		}
		<-time.After(time.Minute)
		locktest.Release(t, lease)
	})
}

// TestATouchCanBeGivenUp: who no longer waits for the answer of the store is told why they do not, and the lease goes
// on.
func TestATouchCanBeGivenUp(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		store := silent{Memory: lock.NewMemory(0), now: &atomic.Bool{}}
		l := locktest.Open(t, locktest.Strategy{Open: func() (lock.Store, error) { return store, nil }}, lock.Settings{})
		lease := locktest.Acquire(t, l, "k", lock.Options{TTL: 20 * time.Second})
		store.now.Store(true)
		gaveUp := errors.New("gave up")
		ctx, cancel := context.WithTimeoutCause(t.Context(), time.Second, gaveUp)
		defer cancel()
		begun := time.Now()
		if err := lease.Touch(ctx, 20*time.Second); !errors.Is(err, gaveUp) || time.Since(begun) != time.Second {
			t.Errorf("after %v: %v", time.Since(begun), err)
		}
		store.now.Store(false)
		locktest.Release(t, lease)
	})
}

// untouched is a store that answers the first touch as told.
type untouched struct {
	*lock.Memory
	first *atomic.Bool
	err   error // nil: it knows no such lease
}

func (s untouched) Touch(ctx context.Context, touches []lock.Touch) (map[string]time.Duration, error) {
	if s.first.CompareAndSwap(false, true) {
		return nil, s.err
	}
	return s.Memory.Touch(ctx, touches)
}

// TestAHandedLockThatCannotBeMadeLongerIsNotKept: a lock that was handed over is short, and a lease that its caller
// touches is made longer before the caller has it. Where the store does not answer, the caller has nothing, and the
// lock is free for the next; where the lock is lost already, the caller waits for it once more.
func TestAHandedLockThatCannotBeMadeLongerIsNotKept(t *testing.T) {
	t.Parallel()
	for name, away := range map[string]error{"the store does not answer": errAway, "the lock is lost": nil} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				memory := lock.NewMemory(0)
				store := untouched{memory, &atomic.Bool{}, away}
				first := locktest.Open(t, locktest.Strategy{Open: func() (lock.Store, error) { return memory, nil }}, lock.Settings{})
				second := locktest.Open(t, locktest.Strategy{Open: func() (lock.Store, error) { return store, nil }}, lock.Settings{})
				held := locktest.Acquire(t, first, "k", lock.Options{})
				const ttl = time.Hour
				handed := locktest.Go(t.Context(), second, "k", lock.Options{TTL: ttl, MaxHold: lock.Unlimited, Manual: true})
				<-time.After(time.Second) // and its process says more than once that it lives
				locktest.Release(t, held)
				got := <-handed
				if !store.first.Load() {
					t.Fatal("it was not handed over, or not touched")
				}
				if away == nil {
					if got.Err != nil || time.Until(got.Lease.Until()) < ttl/2 {
						t.Fatalf("acquired: %+v", got)
					}
					locktest.Release(t, got.Lease)
				} else if got.Lease != nil || !errors.Is(got.Err, lock.ErrUnavailable) || !errors.Is(got.Err, away) {
					t.Fatalf("acquired: %+v", got)
				}
				next, err := first.TryAcquire(t.Context(), "k", lock.Options{})
				if err != nil {
					t.Fatalf("the next: %v", err)
				}
				locktest.Release(t, next)
			})
		})
	}
}

// mute is a store that does what a touch asks for, and says of it what reply says.
type mute struct {
	*lock.Memory
	reply func(map[string]time.Duration) (map[string]time.Duration, error)
}

func (s mute) Touch(ctx context.Context, touches []lock.Touch) (map[string]time.Duration, error) {
	valid, err := s.Memory.Touch(ctx, touches)
	if err != nil {
		return nil, err
	}
	return s.reply(valid)
}

// TestAShorterTouchIsBelievedWithoutAnAnswer: who has asked for a shorter lease, and does not know whether it was made
// shorter, does not believe to hold the lock once it may be another's.
func TestAShorterTouchIsBelievedWithoutAnAnswer(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		memory := lock.NewMemory(0)
		store := mute{memory, func(map[string]time.Duration) (map[string]time.Duration, error) { return nil, errAway }}
		l := locktest.Open(t, locktest.Strategy{Open: func() (lock.Store, error) { return store, nil }}, lock.Settings{})
		other := locktest.Open(t, locktest.Strategy{Open: func() (lock.Store, error) { return memory, nil }}, lock.Settings{})
		lease := locktest.Acquire(t, l, "k", lock.Options{TTL: time.Hour, MaxHold: lock.Unlimited, Manual: true})
		if err := lease.Touch(t.Context(), time.Second); !errors.Is(err, errAway) {
			t.Errorf("a touch that was not answered: %v", err)
		}
		next := locktest.Acquire(t, other, "k", lock.Options{})
		if err := lease.Err(); !errors.Is(err, lock.ErrExpired) {
			t.Errorf("another has the lock, and the lease: %v", err)
		}
		locktest.Release(t, next)
	})
}

// TestTouchesOfALeaseDoNotOvertakeEachOther: a touch whose answer is late does not make longer what a later one has
// made shorter.
func TestTouchesOfALeaseDoNotOvertakeEachOther(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		memory := lock.NewMemory(0)
		var first atomic.Bool
		store := mute{memory, func(valid map[string]time.Duration) (map[string]time.Duration, error) {
			if first.CompareAndSwap(false, true) {
				<-time.After(500 * time.Millisecond)
			}
			return valid, nil
		}}
		l := locktest.Open(t, locktest.Strategy{Open: func() (lock.Store, error) { return store, nil }}, lock.Settings{})
		other := locktest.Open(t, locktest.Strategy{Open: func() (lock.Store, error) { return memory, nil }}, lock.Settings{})
		lease := locktest.Acquire(t, l, "k", lock.Options{TTL: time.Hour, MaxHold: lock.Unlimited})
		next := locktest.Go(t.Context(), other, "k", lock.Options{MaxWait: lock.Unlimited})
		<-time.After(20*time.Minute + 100*time.Millisecond) // it is being touched
		if !first.Load() {
			t.Fatal("it is not touched")
		}
		touched := make(chan error, 1)
		go func() { touched <- lease.Touch(t.Context(), time.Second) }()
		for range 20 {
			<-time.After(time.Second)
			select {
			case r := <-next:
				if lease.Err() == nil {
					t.Error("two hold the lock")
				}
				locktest.Release(t, r.Lease)
				return
			default:
			}
		}
		if err := errors.Join(<-touched, lease.Err()); err != nil {
			t.Error(err)
		}
		locktest.Release(t, lease)
		locktest.Release(t, (<-next).Lease)
	})
}

// inMemory opens a Locker on one such store.
func inMemory(t *testing.T, store lock.Store) *lock.Locker {
	t.Helper()
	return locktest.Open(t, locktest.Strategy{Open: func() (lock.Store, error) { return store, nil }}, lock.Settings{})
}

// TestAShortLeaseBesideALongOneIsTouchedInTime: what is touched next is what is due first, whichever lease came first.
func TestAShortLeaseBesideALongOneIsTouchedInTime(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		l := inMemory(t, lock.NewMemory(0))
		long := locktest.Acquire(t, l, "long", lock.Options{TTL: time.Hour, MaxHold: lock.Unlimited})
		<-time.After(time.Minute)
		short := locktest.Acquire(t, l, "short", lock.Options{TTL: time.Second, MaxHold: lock.Unlimited})
		<-time.After(2 * time.Hour)
		locktest.Release(t, short)
		locktest.Release(t, long)
	})
}

// TestALeaseIsTouchedThreeTimesInItsTime: two of these may fail.
func TestALeaseIsTouchedThreeTimesInItsTime(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		store := &touchedBy{Memory: lock.NewMemory(0)}
		l := inMemory(t, store)
		lease := locktest.Acquire(t, l, "k", lock.Options{TTL: 9 * time.Second, MaxHold: lock.Unlimited})
		<-time.After(90*time.Second + time.Millisecond)
		synctest.Wait()
		if n := len(store.at); n < 28 || n > 32 {
			t.Errorf("touched %d times in ten times its time, want 30", n)
		}
		locktest.Release(t, lease)
	})
}

// touchedBy is a store that remembers when it was asked to touch something.
type touchedBy struct {
	*lock.Memory
	at []time.Time
}

func (s *touchedBy) Touch(ctx context.Context, touches []lock.Touch) (map[string]time.Duration, error) {
	s.at = append(s.at, time.Now())
	return s.Memory.Touch(ctx, touches)
}

// TestATouchThatFailedIsTriedAgainInTime: a short lease is not lost because the store was away for a moment.
func TestATouchThatFailedIsTriedAgainInTime(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		l := inMemory(t, untouched{lock.NewMemory(0), &atomic.Bool{}, errAway})
		lease := locktest.Acquire(t, l, "k", lock.Options{TTL: time.Second, MaxHold: lock.Unlimited})
		<-time.After(time.Minute)
		locktest.Release(t, lease)
	})
}

// TestALeaseThatIsTouchedByHandIsNotTouchedOtherwise: whoever has taken that over and stops loses it, though others are
// touched beside it.
func TestALeaseThatIsTouchedByHandIsNotTouchedOtherwise(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		l := inMemory(t, lock.NewMemory(0))
		other := locktest.Acquire(t, l, "other", lock.Options{TTL: time.Second, MaxHold: lock.Unlimited})
		lease := locktest.Acquire(t, l, "k", lock.Options{TTL: 3 * time.Second, MaxHold: lock.Unlimited, Manual: true})
		if err := lease.Touch(t.Context(), 3*time.Second); err != nil {
			t.Fatal(err)
		}
		<-time.After(4 * time.Second)
		if lease.Err() == nil {
			t.Error("it goes on, though nobody touches it")
		}
		locktest.Release(t, other)
	})
}

// heeding is a store that does nothing for a caller whose context has ended.
type heeding struct{ *lock.Memory }

func (s heeding) Release(ctx context.Context, t lock.Ticket) (lock.Released, error) {
	if err := ctx.Err(); err != nil {
		return lock.Released{}, err
	}
	return s.Memory.Release(ctx, t)
}

// TestALockIsReleasedAlsoByARequestThatEnded: the next would wait for the end of the lease.
func TestALockIsReleasedAlsoByARequestThatEnded(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		l := inMemory(t, heeding{lock.NewMemory(0)})
		lease := locktest.Acquire(t, l, "k", lock.Options{})
		ended, end := context.WithCancel(t.Context())
		end()
		if err := lease.Release(ended); err != nil {
			t.Error(err)
		}
		begun := time.Now()
		locktest.Release(t, locktest.Acquire(t, l, "k", lock.Options{}))
		if took := time.Since(begun); took != 0 {
			t.Errorf("the next waited for %v", took)
		}
	})
}

package lock_test

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"github.com/a-seed-a7aed72f/holdfast/lock"
	"github.com/a-seed-a7aed72f/holdfast/lock/locktest"
)

// lateEntry has entries for one key done at once, and tells of them late.
type lateEntry struct {
	*lock.Memory
	key    string
	answer chan error // nil: how it was entered
}

func (s lateEntry) Enter(ctx context.Context, e lock.Entry) (lock.Entered, error) {
	got, err := s.Memory.Enter(ctx, e)
	if e.Key == s.key {
		err = errors.Join(err, <-s.answer)
	}
	return got, err
}

// TestALockThatCameBeforeItsPlaceIsKept: who is handed the lock may hear of it before the answer that only gave them a
// place. That answer takes nothing back, nor does it if it is lost.
func TestALockThatCameBeforeItsPlaceIsKept(t *testing.T) {
	t.Parallel()
	for name, answer := range map[string]error{"answered": nil, "lost": errors.New("the connection broke")} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				store := lock.NewMemory(0)
				late := lateEntry{store, "k", make(chan error)}
				first := locktest.Open(t, locktest.Strategy{Open: func() (lock.Store, error) { return store, nil }}, lock.Settings{})
				second := locktest.Open(t, locktest.Strategy{Open: func() (lock.Store, error) { return late, nil }}, lock.Settings{})
				held, other := locktest.Acquire(t, first, "k", lock.Options{}), locktest.Acquire(t, first, "other", lock.Options{})
				waits := locktest.Go(t.Context(), second, "other", lock.Options{}) // so that its process is known to live
				handed := locktest.Go(t.Context(), second, "k", lock.Options{})
				<-time.After(time.Second)
				locktest.Release(t, held)
				synctest.Wait()
				if len(handed) != 1 {
					t.Fatal("it was not handed the lock")
				}
				lease := (<-handed).Lease
				late.answer <- answer
				<-time.After(5 * time.Second)
				if err := lease.Err(); err != nil {
					t.Errorf("the lease: %v", err)
				}
				if _, err := first.TryAcquire(t.Context(), "k", lock.Options{}); !errors.Is(err, lock.ErrBusy) {
					t.Errorf("another one: %v", err)
				}
				locktest.Release(t, lease)
				locktest.Release(t, other)
				locktest.Release(t, (<-waits).Lease)
			})
		})
	}
}

// leaving has its caller give up at the very moment at which it is handed the lock.
type leaving struct {
	lateEntry
	giveUp context.CancelFunc
}

func (s leaving) Listen(ctx context.Context, p lock.Process, up func(bool), woken func(string, int64)) error {
	return s.Memory.Listen(ctx, p, up, func(id string, fence int64) {
		s.giveUp()
		woken(id, fence)
	})
}

// TestALockThatComesTooLateIsGivenBack: who gives up when they are just handed the lock, and before they hear that they
// have a place, leaves it to the next at once.
func TestALockThatComesTooLateIsGivenBack(t *testing.T) {
	t.Parallel()
	for range 10 { // either may be noticed first
		synctest.Test(t, func(t *testing.T) {
			store := lock.NewMemory(0)
			ctx, giveUp := context.WithCancel(t.Context())
			late := leaving{lateEntry{store, "k", make(chan error)}, giveUp}
			first := locktest.Open(t, locktest.Strategy{Open: func() (lock.Store, error) { return store, nil }}, lock.Settings{})
			second := locktest.Open(t, locktest.Strategy{Open: func() (lock.Store, error) { return late, nil }}, lock.Settings{})
			held, other := locktest.Acquire(t, first, "k", lock.Options{}), locktest.Acquire(t, first, "other", lock.Options{})
			waits := locktest.Go(t.Context(), second, "other", lock.Options{}) // so that its process is known to live
			handed := locktest.Go(ctx, second, "k", lock.Options{MaxWait: lock.Unlimited})
			<-time.After(time.Second)
			locktest.Release(t, held)
			synctest.Wait()
			if r := <-handed; r.Err == nil {
				locktest.Release(t, r.Lease)
			} else if !errors.Is(r.Err, context.Canceled) {
				t.Error(r.Err)
			}
			late.answer <- nil
			synctest.Wait()
			next, err := first.TryAcquire(t.Context(), "k", lock.Options{})
			if err != nil {
				t.Fatalf("the next: %v", err)
			}
			locktest.Release(t, next)
			locktest.Release(t, other)
			locktest.Release(t, (<-waits).Lease)
		})
	}
}

// TestAForgottenPlaceIsTakenAgain: whoever waits in a place that the store knows no longer takes one at the end, and does
// not wait in vain.
func TestAForgottenPlaceIsTakenAgain(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		store := lock.NewMemory(0)
		l := locktest.Open(t, locktest.Strategy{Open: func() (lock.Store, error) { return store, nil }}, lock.Settings{})
		held := locktest.Acquire(t, l, "k", lock.Options{})
		waits := locktest.Go(t.Context(), l, "k", lock.Options{})
		synctest.Wait()
		store.Forget("k")
		<-time.After(time.Second)
		if n := store.Waiting("k"); n != 1 {
			t.Errorf("%d places are taken, want 1", n)
		}
		locktest.Release(t, held)
		if r := <-waits; r.Err != nil {
			t.Error(r.Err)
		} else {
			locktest.Release(t, r.Lease)
		}
	})
}

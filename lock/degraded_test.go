package lock_test

import (
	"errors"
	"testing"
	"testing/synctest"

	"github.com/a-seed-a7aed72f/holdfast/lock"
	"github.com/a-seed-a7aed72f/holdfast/lock/locktest"
)

func opened(t *testing.T, state lock.State, err error) *lock.Locker {
	t.Helper()
	store := locktest.Answering{Memory: lock.NewMemory(0), State: state, Err: err}
	return locktest.Open(t, locktest.Strategy{Open: func() (lock.Store, error) { return store, nil }}, lock.Settings{})
}

var (
	errAway = errors.New("away")
	open    = lock.Options{FailOpen: true}
)

// TestWithoutTheStoreOneGoesOnAtATime is known failure 33, within a process. Only those go on who may, and what they
// have says what it is.
func TestWithoutTheStoreOneGoesOnAtATime(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		l := opened(t, "", errAway)
		if _, err := l.Acquire(t.Context(), "k", lock.Options{}); !errors.Is(err, lock.ErrUnavailable) || !errors.Is(err, errAway) {
			t.Errorf("who may not: %v", err)
		}
		first := locktest.Acquire(t, l, "k", open)
		if !first.Degraded() || first.Fence() != 0 {
			t.Errorf("degraded %t, fence %d", first.Degraded(), first.Fence())
		}
		second := locktest.Go(t.Context(), l, "k", open)
		synctest.Wait()
		if len(second) != 0 {
			t.Error("two went on at once")
		}
		if _, err := l.TryAcquire(t.Context(), "k", open); !errors.Is(err, lock.ErrBusy) {
			t.Errorf("who does not wait: %v", err)
		}
		locktest.Release(t, locktest.Acquire(t, l, "other", open))
		locktest.Release(t, first)
		locktest.Release(t, locktest.Wait(t, "the second", second).Lease)
	})
}

// TestALockThatIsNotGivenIsNoAbsence: who may go on without the store does not go on against it.
func TestALockThatIsNotGivenIsNoAbsence(t *testing.T) {
	t.Parallel()
	for state, want := range map[lock.State]error{
		lock.Full: lock.ErrQueueFull, lock.TooMany: lock.ErrTooManyKeys, lock.Busy: lock.ErrBusy, lock.Queued: lock.ErrTimeout,
	} {
		synctest.Test(t, func(t *testing.T) {
			if _, err := opened(t, state, nil).Acquire(t.Context(), "k", open); !errors.Is(err, want) {
				t.Errorf("%s: %v", state, err)
			}
		})
	}
}

// TestCloseEndsWhatWentOnWithoutTheStore as it ends everything else.
func TestCloseEndsWhatWentOnWithoutTheStore(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		l := opened(t, "", errAway)
		held := locktest.Acquire(t, l, "k", open)
		waiting := locktest.Go(t.Context(), l, "k", open)
		synctest.Wait()
		if err := l.Close(); err != nil {
			t.Error(err)
		}
		synctest.Wait()
		if err := held.Err(); !errors.Is(err, lock.ErrLost) || !errors.Is(err, lock.ErrClosed) || held.Context().Err() == nil {
			t.Errorf("the lease: %v", err)
		}
		if r := locktest.Wait(t, "the end of the wait", waiting); !errors.Is(r.Err, lock.ErrClosed) {
			t.Errorf("the wait: %v", r.Err)
		}
		if _, err := l.Acquire(t.Context(), "k", open); !errors.Is(err, lock.ErrClosed) {
			t.Errorf("afterwards: %v", err)
		}
	})
}

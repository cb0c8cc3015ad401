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

// keeping is a store that takes no ticket back while it is away, none for a key that is stuck, and none by a call that is
// over.
type keeping struct {
	*lock.Memory
	away  *atomic.Bool
	asked *atomic.Int64
}

func (s keeping) Leave(ctx context.Context, t lock.Ticket) (lock.Handoff, error) {
	if s.asked.Add(1); s.away.Load() || t.Key == "stuck" {
		return lock.Handoff{}, errAway
	}
	if err := ctx.Err(); err != nil {
		return lock.Handoff{}, err
	}
	return s.Memory.Leave(ctx, t)
}

// abandoned is a store that is away, and in which tickets wait for these keys that nobody in their process waits with any
// more. They were given up in this order.
func abandoned(t *testing.T, keys ...string) (keeping, *lock.Locker) {
	t.Helper()
	memory := lock.NewMemory(0)
	store := keeping{memory, &atomic.Bool{}, &atomic.Int64{}}
	l := locktest.Open(t, locktest.Strategy{Open: func() (lock.Store, error) { return store, nil }}, lock.Settings{})
	for _, key := range keys {
		holds := lock.Entry{Ticket: lock.Ticket{Key: key, ID: "another", Process: "another"}, TTL: 24 * time.Hour, MaxHold: 24 * time.Hour}
		if got, err := memory.Enter(t.Context(), holds); err != nil || got.State != lock.Held {
			t.Fatal(got, err)
		}
		ctx, cancel := context.WithCancel(t.Context())
		waits := locktest.Go(ctx, l, key, lock.Options{})
		synctest.Wait()
		store.away.Store(true)
		cancel()
		if r := <-waits; !errors.Is(r.Err, context.Canceled) {
			t.Fatal(r.Err)
		}
		<-time.After(time.Second) // the first tries to give it back are over
		if store.Waiting(key) == 0 {
			t.Fatalf("nobody waits for %s in the store", key)
		}
	}
	return store, l
}

// left is how many wait in the store for these keys.
func left(store keeping, keys ...string) (n int) {
	for _, key := range keys {
		n += store.Waiting(key)
	}
	return n
}

// TestAPlaceIsGivenBackOnceTheStoreTakesIt: however long it was away. It is not asked all the time meanwhile.
func TestAPlaceIsGivenBackOnceTheStoreTakesIt(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		store, _ := abandoned(t, "a", "b", "c")
		<-time.After(time.Hour)
		if n := store.asked.Load(); n > 1000 {
			t.Errorf("asked %d times in an hour", n)
		}
		store.away.Store(false)
		<-time.After(lock.DefaultSettings().Patience)
		if n := left(store, "a", "b", "c"); n != 0 {
			t.Errorf("%d places are left", n)
		}
	})
}

// TestAStuckKeyKeepsNoOtherPlace: what cannot be given back is tried again after all others.
func TestAStuckKeyKeepsNoOtherPlace(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		store, _ := abandoned(t, "stuck", "k")
		store.away.Store(false)
		<-time.After(2 * lock.DefaultSettings().Patience)
		if store.Waiting("stuck") != 1 || store.Waiting("k") != 0 {
			t.Errorf("%d wait for the stuck key, and %d for the other", store.Waiting("stuck"), store.Waiting("k"))
		}
	})
}

// TestCloseGivesBackOnceMore: what was owed until then, and it does not ask a store that is away once for each.
func TestCloseGivesBackOnceMore(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		away  bool
		asked int64
		left  int
	}{
		"a store that is back": {false, 3, 0},
		"a store that is away": {true, 1, 3},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				store, l := abandoned(t, "a", "b", "c")
				<-time.After(time.Hour)
				synctest.Wait()
				before := store.asked.Load()
				store.away.Store(c.away)
				if err := l.Close(); err != nil {
					t.Error(err)
				}
				if asked, n := store.asked.Load()-before, left(store, "a", "b", "c"); asked != c.asked || n != c.left {
					t.Errorf("asked %d times, and %d places are left, want %d and %d", asked, n, c.asked, c.left)
				}
			})
		})
	}
}

// gone is a store that is away altogether.
type gone struct{ locktest.Answering }

func (gone) Leave(context.Context, lock.Ticket) (lock.Handoff, error) { return lock.Handoff{}, errAway }

// TestWhatIsOwedIsBounded: each entry that the store did not answer may have a place there, and there may be any number
// of them while it is away.
func TestWhatIsOwedIsBounded(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		store := gone{locktest.Answering{Memory: lock.NewMemory(0), Err: errAway}}
		l := locktest.Open(t, locktest.Strategy{Open: func() (lock.Store, error) { return store, nil }}, lock.Settings{})
		for range lock.MostOwed + 100 {
			if _, err := l.Acquire(t.Context(), "k", lock.Options{}); !errors.Is(err, lock.ErrUnavailable) {
				t.Fatal(err)
			}
		}
		<-time.After(lock.DefaultSettings().Patience)
		if n := l.Owed(); n != lock.MostOwed {
			t.Errorf("%d tickets are kept, want %d", n, lock.MostOwed)
		}
	})
}

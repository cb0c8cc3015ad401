package lock_test

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"

	"github.com/a-seed-a7aed72f/holdfast/lock"
	"github.com/a-seed-a7aed72f/holdfast/lock/locktest"
)

// dawdling is the context of somebody who has got the lock, and is slow to take the lease.
type dawdling struct {
	context.Context
	take chan struct{}
}

func (s dawdling) Value(key any) any {
	<-s.take
	return s.Context.Value(key)
}

// TestWhatIsGrantedBesideCloseEndsWithIt: who got the lock a moment before Close, and takes the lease a moment after it,
// is told that the lease is over, and the lock is free for another process.
func TestWhatIsGrantedBesideCloseEndsWithIt(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		store := lock.NewMemory(0)
		l := locktest.Open(t, locktest.Strategy{Open: func() (lock.Store, error) { return store, nil }}, lock.Settings{})
		take := make(chan struct{})
		got := locktest.Go(dawdling{t.Context(), take}, l, "k", lock.Options{MaxWait: lock.Unlimited})
		synctest.Wait()
		if len(store.Keys()) != 1 {
			t.Fatal("the lock was not granted")
		}
		closed := make(chan error, 1)
		go func() { closed <- l.Close() }()
		synctest.Wait()
		close(take)
		if err := <-closed; err != nil {
			t.Error(err)
		}
		r := <-got
		if r.Err != nil {
			t.Fatal(r.Err)
		}
		if err := r.Lease.Err(); !errors.Is(err, lock.ErrLost) || !errors.Is(err, lock.ErrClosed) || r.Lease.Context().Err() == nil {
			t.Errorf("the lease: %v", err)
		}
		if left := store.Keys(); len(left) != 0 {
			t.Errorf("still locked: %v", left)
		}
	})
}

// TestCloseEndsAWaitBehindAPlace: who waits behind a place that nobody uses or leaves, for however long they may, is told
// of Close, which waits for them.
func TestCloseEndsAWaitBehindAPlace(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		l := locktest.Open(t, locktest.Strategy{Open: func() (lock.Store, error) { return lock.NewMemory(0), nil }}, lock.Settings{})
		place := l.Queue("k")
		defer place.Leave()
		behind := locktest.Go(t.Context(), l, "k", lock.Options{MaxWait: lock.Unlimited})
		synctest.Wait()
		if err := l.Close(); err != nil {
			t.Error(err)
		}
		if r := <-behind; !errors.Is(r.Err, lock.ErrClosed) {
			t.Errorf("the wait: %v", r.Err)
		}
	})
}

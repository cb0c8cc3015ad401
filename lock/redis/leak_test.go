package redis_test

import (
	"errors"
	"testing"

	"github.com/a-seed-a7aed72f/holdfast/lock"
	"github.com/a-seed-a7aed72f/holdfast/lock/locktest"
)

// TestLeaksNothing: a Locker that was closed leaves no goroutine, whatever it was doing.
func TestLeaksNothing(t *testing.T) {
	_, client, s := server(t)
	if err := client.Ping(t.Context()).Err(); err != nil {
		t.Fatal(err)
	}
	locktest.Leaks(t)
	store, err := s.Open()
	if err != nil {
		t.Fatal(err)
	}
	l, err := lock.New(store, lock.Settings{})
	if err != nil {
		t.Fatal(err)
	}
	locktest.Acquire(t, l, "k", lock.Options{})
	waiting := locktest.Go(t.Context(), l, "k", lock.Options{})
	locktest.Queued(t, s, "k", 1)
	if err := l.Close(); err != nil {
		t.Error(err)
	}
	if r := locktest.Wait(t, "the end of the wait", waiting); !errors.Is(r.Err, lock.ErrClosed) {
		t.Error(r.Err)
	}
}

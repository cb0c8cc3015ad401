package places

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"
)

// Whoever has taken all their places waits until one is given back, and nobody else waits with them.
func TestEachHasTheirOwn(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		s := New(2)
		take := func(asker string) func() {
			give, err := s.Take(t.Context(), asker, nil)
			if err != nil {
				t.Fatal(err)
			}
			return give
		}
		give, second := take("greedy"), take("greedy")
		var order []int
		for n := range 2 {
			go func() {
				defer take("greedy")()
				order = append(order, n)
			}()
			synctest.Wait()
		}
		take("another")()
		if len(order) != 0 {
			t.Fatal("a third place was given")
		}
		give()
		synctest.Wait()
		if len(order) != 2 || order[0] != 0 {
			t.Errorf("served: %v, want 0, 1", order)
		}
		second()
		if len(s.lines) != 0 {
			t.Errorf("%d askers are remembered who ask no more", len(s.lines))
		}
	})
}

// Whoever gives up waiting is told why, and keeps nothing.
func TestWaitingIsGivenUp(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		s, gone := New(1), errors.New("the caller has gone")
		give, err := s.Take(t.Context(), "a", nil)
		if err != nil {
			t.Fatal(err)
		}
		ctx, leave := context.WithCancelCause(t.Context())
		left := make(chan error)
		go func() {
			_, err := s.Take(ctx, "a", nil)
			left <- err
		}()
		synctest.Wait()
		leave(gone)
		if err := <-left; !errors.Is(err, gone) {
			t.Errorf("%v, want %v", err, gone)
		}
		give()
		if len(s.lines) != 0 {
			t.Errorf("%d askers are remembered who ask no more", len(s.lines))
		}
	})
}

// Whoever holds a place is remembered, whoever else has gone: the next one waits for it.
func TestAPlaceIsHeldWhoeverGoes(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		s := New(1)
		held := make(chan func(), 3)
		take := func() {
			go func() {
				give, err := s.Take(t.Context(), "a", nil)
				if err != nil {
					t.Error(err)
				}
				held <- give
			}()
			synctest.Wait()
		}
		take() // holds the place
		take() // waits for it
		(<-held)()
		synctest.Wait()
		take()
		if len(held) != 1 {
			t.Errorf("%d hold the one place", len(held))
		}
		(<-held)()
		(<-held)()
	})
}

// Where a simulation decides who goes on, it is told whether there is still nothing to take.
func TestASimulationWaits(t *testing.T) {
	t.Parallel()
	s := New(1)
	give, err := s.Take(t.Context(), "a", nil)
	if err != nil {
		t.Fatal(err)
	}
	again, err := s.Take(t.Context(), "a", func(_ context.Context, still func() bool) {
		if !still() {
			t.Error("there is a place before one was given back")
		}
		give()
		if still() {
			t.Error("there is none after one was given back")
		}
	})
	if err != nil {
		t.Fatal(err)
	}
	again()
}

package lock_test

import (
	"context"
	"errors"
	"fmt"
	"testing"
	"testing/synctest"
	"time"

	"github.com/a-seed-a7aed72f/holdfast/lock"
	"github.com/a-seed-a7aed72f/holdfast/lock/locktest"
)

// tardy does at once what it is asked for, and tells of it late. Nobody is woken by it.
type tardy struct{ *lock.Memory }

func newTardy() *tardy { return &tardy{lock.NewMemory(0)} }

// late passes on what the store has answered, and takes its time. That time is what is tested, so no signal can stand for
// it.
func late[T any](answer T, err error) (T, error) {
	<-time.After(60 * time.Millisecond)
	return answer, err
}

func (s *tardy) Beat(ctx context.Context, p lock.Process, live time.Duration) error {
	_, err := late(0, s.Memory.Beat(ctx, p, live))
	return err
}

func (s *tardy) Look(ctx context.Context, tickets []lock.Ticket) ([]lock.Standing, error) {
	return late(s.Memory.Look(ctx, tickets))
}

func (s *tardy) Advance(ctx context.Context, key, process string) (lock.Handoff, error) {
	return late(s.Memory.Advance(ctx, key, process))
}

func (s *tardy) Release(ctx context.Context, t lock.Ticket) (lock.Released, error) {
	return late(s.Memory.Release(ctx, t))
}

func (s *tardy) Leave(ctx context.Context, t lock.Ticket) (lock.Handoff, error) {
	return late(s.Memory.Leave(ctx, t))
}

func (s *tardy) Listen(ctx context.Context, _ lock.Process, _ func(bool), _ func(string, int64)) error {
	<-ctx.Done()
	return ctx.Err()
}

// overtaken is a tardy store in which a holder releases the key just before the third heartbeat comes. The wake comes only
// after that one is answered.
type overtaken struct {
	*tardy
	held   lock.Ticket
	beats  int
	counts time.Time // when the heartbeat was sent from which the next lease counts
}

func (s *overtaken) Beat(ctx context.Context, p lock.Process, live time.Duration) error {
	begun := time.Now()
	if s.beats++; s.beats < 3 {
		s.counts = begun
	} else if _, err := s.Memory.Release(ctx, s.held); err != nil {
		return err
	}
	return s.tardy.Beat(ctx, p, live)
}

func (s *overtaken) Listen(ctx context.Context, p lock.Process, up func(bool), woken func(string, int64)) error {
	return s.Memory.Listen(ctx, p, up, func(id string, fence int64) {
		<-time.After(time.Second)
		woken(id, fence)
	})
}

// TestNoLeaseIsTakenToLastLongerThanItDoes: by whatever way the lock comes to who waits, and however long the word of it
// took, they do not believe to hold it once the store gives it to another one.
func TestNoLeaseIsTakenToLastLongerThanItDoes(t *testing.T) {
	t.Parallel()
	entry := lock.Entry{Ticket: lock.Ticket{Key: "k", ID: "another", Process: "another"}, TTL: time.Minute, MaxHold: time.Minute}
	enter := func(t *testing.T, s *tardy, e lock.Entry) {
		if got, err := s.Memory.Enter(t.Context(), e); err != nil || got.State != lock.Held {
			t.Fatal(got, err)
		}
	}
	// Each holds the lock until end.
	for name, hold := range map[string]func(*testing.T, *tardy, *lock.Locker) (end func() error){
		"the release of one's own process": func(t *testing.T, _ *tardy, l *lock.Locker) func() error {
			lease := locktest.Acquire(t, l, "k", lock.Options{})
			return func() error { return lease.Release(t.Context()) }
		},
		"a loss in one's own process": func(t *testing.T, _ *tardy, l *lock.Locker) func() error {
			locktest.Acquire(t, l, "k", lock.Options{MaxHold: 300 * time.Millisecond})
			return func() error { return nil }
		},
		"a look after the release of another one": func(t *testing.T, s *tardy, _ *lock.Locker) func() error {
			enter(t, s, entry)
			return func() error { _, err := s.Memory.Release(t.Context(), entry.Ticket); return err }
		},
		"the end of another one's lease": func(t *testing.T, s *tardy, _ *lock.Locker) func() error {
			short := entry
			short.TTL = 300 * time.Millisecond
			enter(t, s, short)
			return func() error { return nil }
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			store := newTardy()
			l := locktest.Open(t, locktest.Strategy{Open: func() (lock.Store, error) { return store, nil }}, lock.Settings{})
			end := hold(t, store, l)
			next := locktest.Go(t.Context(), l, "k", lock.Options{TTL: time.Minute, MaxHold: time.Hour})
			locktest.Eventually(t, "it waits, or has the lock already", func() bool { return store.Waiting("k") == 1 || len(next) == 1 })
			if err := end(); err != nil {
				t.Fatal(err)
			}
			got := locktest.Wait(t, "the lock", next)
			if got.Err != nil {
				t.Fatal(got.Err)
			}
			if late := got.Lease.Until().Sub(store.Ends("k")); late > 0 {
				t.Errorf("the lease ends %v after its lock", late)
			}
		})
	}
}

// TestAWokenLeaseCountsFromBeforeTheHeartbeat: who is woken has the lock until their process counts as dead, which is
// counted from when it was last said before the hand-over that it lives, however late the answer to that came. What was
// said after the hand-over does not count, though it was answered before the wake.
func TestAWokenLeaseCountsFromBeforeTheHeartbeat(t *testing.T) {
	t.Parallel()
	for name, options := range map[string]lock.Options{
		"which outlasts the heartbeats":              {TTL: time.Minute, MaxHold: time.Hour},
		"whose longest hold is shorter than these":   {TTL: time.Minute, MaxHold: 3 * time.Second},
		"which lasts, without a touch, a short time": {TTL: 3 * time.Second, MaxHold: time.Hour},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				store := &overtaken{tardy: newTardy(), held: lock.Ticket{Key: "k", ID: "another", Process: "another"}}
				l := locktest.Open(t, locktest.Strategy{Open: func() (lock.Store, error) { return store, nil }}, locktest.Patient)
				other := lock.Entry{Ticket: store.held, TTL: time.Hour, MaxHold: time.Hour}
				if got, err := store.Memory.Enter(t.Context(), other); err != nil || got.State != lock.Held {
					t.Fatal(got, err)
				}
				got := <-locktest.Go(t.Context(), l, "k", options)
				if got.Err != nil {
					t.Fatal(got.Err)
				}
				const live = 15 * time.Second // three heartbeats
				until := got.Lease.Until()
				if late := until.Sub(store.counts.Add(live)); late > 0 {
					t.Errorf("the lease ends %v after its process counts as dead", late)
				}
				if late := until.Sub(store.Ends("k")); late > 0 {
					t.Errorf("the lease ends %v after its time", late)
				}
			})
		})
	}
}

// TestAShorterTouchEndsALeaseSooner: who touches a lease for a shorter time than it had left has it for that time alone.
func TestAShorterTouchEndsALeaseSooner(t *testing.T) {
	t.Parallel()
	l := locktest.Open(t, locktest.Strategy{Open: func() (lock.Store, error) { return lock.NewMemory(0), nil }}, lock.Settings{})
	lease := locktest.Acquire(t, l, "k", lock.Options{TTL: time.Hour, MaxHold: lock.Unlimited, Manual: true})
	if err := lease.Touch(t.Context(), 50*time.Millisecond); err != nil {
		t.Error(err)
	}
	locktest.Wait(t, "the end of the lease", lease.Context().Done())
	if err := lease.Err(); !errors.Is(err, lock.ErrExpired) {
		t.Errorf("it is over because: %v", err)
	}
}

// TestALeaseIsOverWhenItsTimeIs: a process that stood still goes on with everything at once. Who looks at a lease then
// need not wait for a timer to know that it is over.
func TestALeaseIsOverWhenItsTimeIs(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		l := locktest.Open(t, locktest.Strategy{Open: func() (lock.Store, error) { return lock.NewMemory(0), nil }}, lock.Settings{})
		const ttl = time.Second
		over := time.After(ttl)
		leases := make([]*lock.Lease, 100)
		for i := range leases {
			leases[i] = locktest.Acquire(t, l, fmt.Sprint(i), lock.Options{TTL: ttl, Manual: true})
		}
		<-over
		for i, lease := range leases {
			if err := lease.Err(); !errors.Is(err, lock.ErrExpired) {
				t.Errorf("lease %d: %v", i, err)
			}
		}
	})
}

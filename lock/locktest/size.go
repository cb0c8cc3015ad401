package locktest

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"golang.org/x/sync/errgroup"

	"github.com/a-seed-a7aed72f/holdfast/lock"
)

// cancelRace: a wait that is cancelled just when the lock arrives either keeps it or passes it on. Nothing is left
// behind.
func cancelRace(t *testing.T, s *suite) {
	l := s.open(t, Patient)
	const keys = 8
	var all sync.WaitGroup
	var granted, cancelled atomic.Int32
	for k := range keys {
		all.Go(func() {
			key := fmt.Sprint(s.key, k)
			// The cancel comes after about as long as the lock takes: its delay is adjusted until half of the waits
			// win.
			after := float64(time.Millisecond)
			for range s.Cancels / keys {
				held, err := l.Acquire(t.Context(), key, lock.Options{})
				if err != nil {
					t.Error(err)
					return
				}
				ctx, cancel := context.WithCancel(t.Context())
				waiting := Go(ctx, l, key, lock.Options{})
				timer := time.AfterFunc(time.Duration(after*(0.5+rand.Float64())), cancel)
				if err := held.Release(context.Background()); err != nil {
					t.Error(err)
				}
				r := Wait(t, "the end of the wait", waiting)
				timer.Stop()
				cancel()
				if r.Err == nil {
					granted.Add(1)
					after *= 0.9
					err = r.Lease.Release(context.Background())
				} else {
					cancelled.Add(1)
					after *= 1.1
					mustBe(t, "a cancelled wait", r.Err, context.Canceled)
				}
				if err != nil {
					t.Error(err)
				}
			}
		})
	}
	all.Wait()
	t.Logf("%d granted, %d cancelled", granted.Load(), cancelled.Load())
	if total := int(granted.Load() + cancelled.Load()); total != s.Cancels/keys*keys || min(granted.Load(), cancelled.Load()) < int32(total/10) {
		t.Error("that was hardly a race")
	}
	s.nothingLeft(t)
}

func (s *suite) nothingLeft(t *testing.T) {
	t.Helper()
	Eventually(t, "nothing is left in the store", func() bool {
		n, err := s.Left(t.Context(), strings.ToLower(s.key))
		if err != nil {
			t.Fatal(err)
		}
		return n == 0
	})
}

// touched is a store that records which keys' leases were touched.
type touched struct {
	lock.Store
	mu   sync.Mutex
	keys map[string]bool
}

func (s *touched) Touch(ctx context.Context, touches []lock.Touch) (map[string]time.Duration, error) {
	valid, err := s.Store.Touch(ctx, touches)
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, t := range touches {
		if valid[t.ID] > 0 {
			s.keys[t.Key] = true
		}
	}
	return valid, err
}

func (s *touched) count() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return len(s.keys)
}

// manyHeld: thousands of keys are held and kept, and another one can be acquired as fast as ever.
func manyHeld(t *testing.T, s *suite) {
	store := &touched{keys: map[string]bool{}}
	watched := s.Strategy
	watched.Open = func() (_ lock.Store, err error) {
		store.Store, err = s.Open()
		return store, err
	}
	l := Open(t, watched, Patient)
	const n, ttl = 5000, 15 * time.Second
	leases := make([]*lock.Lease, n)
	var group errgroup.Group
	group.SetLimit(32)
	for i := range n {
		group.Go(func() (err error) {
			leases[i], err = l.Acquire(t.Context(), fmt.Sprint(s.key, i), lock.Options{TTL: ttl, MaxHold: lock.Unlimited})
			return err
		})
	}
	if err := group.Wait(); err != nil {
		t.Fatal(err)
	}
	Eventually(t, "each was touched", func() bool { return store.count() == n })
	for _, lease := range leases {
		if err := lease.Err(); err != nil {
			t.Fatal(err)
		}
	}
	Within(t, time.Second, fmt.Sprintf("one more key beside %d held ones", n), func() time.Duration {
		begun := time.Now()
		Release(t, Acquire(t, l, s.key+"other", lock.Options{}))
		return time.Since(begun)
	})
	for _, lease := range leases {
		group.Go(func() error { return lease.Release(context.Background()) })
	}
	if err := group.Wait(); err != nil {
		t.Error(err)
	}
	s.nothingLeft(t)
}

// manyWaiters: a thousand wait for one key, and each release wakes one of them.
func manyWaiters(t *testing.T, s *suite) {
	const n, processes = 1000, 4
	registry := prometheus.NewRegistry()
	metrics := lock.NewMetrics(registry)
	options := lock.Options{MaxWait: 2 * time.Minute, TTL: 20 * time.Second, MaxHold: time.Minute}
	var lockers []*lock.Locker
	settings := Patient
	settings.Metrics = metrics
	for range processes {
		lockers = append(lockers, s.open(t, settings))
	}
	for _, l := range lockers {
		Eventually(t, "wakes get through", l.Listening)
	}
	first := Acquire(t, lockers[0], s.key, options)
	done := make(chan error, n)
	for i := range n {
		go func() {
			lease, err := lockers[i%processes].Acquire(t.Context(), s.key, options)
			if err == nil {
				err = lease.Release(context.Background())
			}
			done <- err
		}()
	}
	Queued(t, s.Strategy, s.key, n)
	before := Metric(t, registry, "holdfast_lock_wakes_total")
	begun := time.Now()
	Release(t, first)
	var failed error
	for range n {
		failed = errors.Join(failed, Wait(t, "a turn", done))
	}
	if failed != nil {
		t.Fatal(failed)
	}
	wakes := Metric(t, registry, "holdfast_lock_wakes_total") - before
	t.Logf("%d waiters served in %v with %v wakes", n, time.Since(begun), wakes)
	if wakes > 1.05*n {
		t.Errorf("%v wakes for %d releases: more than one waiter is woken by a release", wakes, n)
	}
	s.nothingLeft(t)
}

// lateAnswers: a store may be asked again with the same ticket, because an answer was lost.
func lateAnswers(t *testing.T, s *suite) {
	store, err := s.Open()
	if err != nil {
		t.Fatal(err)
	}
	defer store.Close()
	ctx := t.Context()
	entry := func(id string) lock.Entry {
		return lock.Entry{
			Ticket: lock.Ticket{Key: strings.ToLower(s.key), ID: id, Process: "p"}, Name: "p", Live: time.Minute,
			TTL: time.Minute, MaxHold: time.Minute, MaxQueue: 2, Wait: true,
		}
	}
	a, err1 := store.Enter(ctx, entry("a"))
	again, err2 := store.Enter(ctx, entry("a"))
	if err := errors.Join(err1, err2); err != nil || a.State != lock.Held || again.State != lock.Held || a.Fence != again.Fence {
		t.Errorf("entered twice: %+v and %+v, %v", a, again, err)
	}
	for _, id := range []string{"b", "c", "b"} { // there is no place for a third
		if got, err := store.Enter(ctx, entry(id)); err != nil || got.State != lock.Queued {
			t.Errorf("%s, who waits: %+v, %v", id, got, err)
		}
	}
	Queued(t, s.Strategy, s.key, 2)
	standings, err := store.Look(ctx, []lock.Ticket{entry("a").Ticket, entry("b").Ticket, entry("c").Ticket, entry("d").Ticket})
	if err != nil {
		t.Fatal(err)
	}
	for _, st := range standings {
		if want := map[string]lock.State{"a": lock.Held, "b": lock.Queued, "c": lock.Queued, "d": lock.Gone}[st.ID]; st.State != want {
			t.Errorf("%s is %s, want %s", st.ID, st.State, want)
		}
	}
	r, err := store.Release(ctx, entry("a").Ticket)
	if err != nil || !r.Owner || r.Late || r.Next.ID != "b" || r.Next.Fence <= a.Fence {
		t.Errorf("release: %+v, %v", r, err)
	}
	for _, id := range []string{"b", "b", "c"} {
		if _, err := store.Leave(ctx, entry(id).Ticket); err != nil {
			t.Error(err)
		}
	}
	s.nothingLeft(t)
}

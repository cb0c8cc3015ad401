package locktest

import (
	"context"
	"fmt"
	"math/rand/v2"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/a-seed-a7aed72f/holdfast/lock"
)

// use acquires with a place, in the background.
func use(ctx context.Context, p *lock.Place) <-chan Result {
	done := make(chan Result, 1)
	begun := time.Now()
	go func() {
		lease, err := p.Acquire(ctx, lock.Options{})
		done <- Result{lease, err, time.Since(begun)}
	}()
	return done
}

// places: a place counts from when it was taken, however late the lock is then asked for, and holds up nobody once it
// is left.
func places(t *testing.T, s *suite) {
	l, other := s.open(t, Patient), s.open(t, Patient)
	first, second, third, fourth := l.Queue(s.key), l.Queue(s.key), l.Queue(" "+strings.ToUpper(s.key)), l.Queue(s.key)
	late := use(t.Context(), fourth)
	middle := use(t.Context(), second)

	// Neither has reached the store yet: the first may still want the lock. Other keys and other processes do not wait
	// for it.
	Release(t, Acquire(t, l, s.key+"other", lock.Options{}))
	Release(t, Acquire(t, other, s.key, lock.Options{}))
	if _, err := l.TryAcquire(t.Context(), s.key, lock.Options{}); err == nil {
		t.Error("TryAcquire overtook a place")
	} else {
		mustBe(t, "TryAcquire behind a place", err, lock.ErrBusy)
	}
	_, err := l.Acquire(t.Context(), s.key, lock.Options{MaxWait: 50 * time.Millisecond})
	mustBe(t, "the longest wait behind a place", err, lock.ErrTimeout)
	ctx, cancel := context.WithCancel(t.Context())
	cancelled := use(ctx, l.Queue(s.key))
	cancel()
	mustBe(t, "a cancelled wait behind a place", Wait(t, "its end", cancelled).Err, context.Canceled)
	if len(middle)+len(late) > 0 {
		t.Fatal("somebody overtook a place")
	}

	lease := got(t, "the lock", use(t.Context(), first))
	Queued(t, s.Strategy, s.key, 1) // the second waits; the third may not be there yet
	first.Leave()                   // does nothing: the place was used
	third.Leave()
	third.Leave()
	Queued(t, s.Strategy, s.key, 2)
	if lease.Err() != nil {
		t.Errorf("the lease after Leave: %v", lease.Err())
	}
	Release(t, lease)
	lease = got(t, "the lock for the second", middle)
	if len(late) > 0 {
		t.Error("two hold the lock")
	}
	// A place that was used or left counts as a new one at the end.
	again, left := use(t.Context(), first), third
	Queued(t, s.Strategy, s.key, 2)
	Release(t, lease)
	Release(t, got(t, "the lock for the fourth", late))
	Release(t, got(t, "the lock with a used place", again))
	Release(t, got(t, "the lock with a place that was left", use(t.Context(), left)))

	bad := l.Queue("no key")
	_, err = bad.Acquire(t.Context(), lock.Options{})
	mustBe(t, "a bad key", err, lock.ErrBadKey)
	bad.Leave()
	_, err = l.Queue(s.key).Acquire(t.Context(), lock.Options{MaxQueue: -1})
	mustBe(t, "bad options", err, lock.ErrBadOptions)
	Release(t, Acquire(t, l, s.key, lock.Options{}))
	s.nothingLeft(t)
}

// placesAtClose: a place that nobody has left blocks neither Close nor those behind it.
func placesAtClose(t *testing.T, s *suite) {
	store, err := s.Open()
	if err != nil {
		t.Fatal(err)
	}
	l, err := lock.New(store, Patient)
	if err != nil {
		t.Fatal(err)
	}
	place := l.Queue(s.key)
	behind := use(t.Context(), l.Queue(s.key))
	if err := l.Close(); err != nil {
		t.Error(err)
	}
	mustBe(t, "a wait behind a place", Wait(t, "its end", behind).Err, lock.ErrClosed)
	_, err = place.Acquire(t.Context(), lock.Options{})
	mustBe(t, "a place after Close", err, lock.ErrClosed)
	place.Leave()
}

// placesRace: leaving, cancelling and getting the lock happen in every order. Nothing is left behind, and nobody waits
// for ever.
func placesRace(t *testing.T, s *suite) {
	l := s.open(t, Patient)
	const keys = 8
	var all sync.WaitGroup
	for k := range keys {
		all.Go(func() {
			key := fmt.Sprint(s.key, k)
			for range s.Cancels / keys / 40 {
				places := []*lock.Place{l.Queue(key), l.Queue(key), l.Queue(key), l.Queue(key)}
				var each sync.WaitGroup
				for i, p := range places {
					each.Go(func() {
						defer p.Leave()
						if i == rand.N(4) {
							return
						}
						ctx, cancel := context.WithCancel(t.Context())
						defer cancel()
						if rand.N(2) == 0 {
							timer := time.AfterFunc(rand.N(4*time.Millisecond), cancel)
							defer timer.Stop()
						}
						lease, err := p.Acquire(ctx, lock.Options{})
						if err == nil {
							err = lease.Release(context.Background())
						} else if ctx.Err() != nil {
							err = nil
						}
						if err != nil {
							t.Error(err)
						}
					})
				}
				each.Wait()
			}
		})
	}
	all.Wait()
	for k := range keys {
		Release(t, Acquire(t, l, fmt.Sprint(s.key, k), lock.Options{}))
	}
	s.nothingLeft(t)
}

package locktest

import (
	"context"
	"errors"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/a-seed-a7aed72f/holdfast/lock"
)

// order: waiters get the lock in the order in which they asked, even across several Lockers.
func order(t *testing.T, s *suite) {
	lockers := []*lock.Locker{s.open(t, Patient), s.open(t, Patient), s.open(t, Patient)}
	first := Acquire(t, lockers[0], s.key, lock.Options{})
	const n = 30
	var waiting []<-chan Result
	for i := range n {
		waiting = append(waiting, Go(t.Context(), lockers[i%3], s.key, lock.Options{}))
		Queued(t, s.Strategy, s.key, i+1)
	}
	fence := first.Fence()
	Release(t, first)
	for i, w := range waiting {
		lease := got(t, "the lock", w)
		if lease.Fence() <= fence {
			t.Errorf("place %d has fence %d after %d", i, lease.Fence(), fence)
		}
		fence = lease.Fence()
		for _, later := range waiting[i+1:] {
			if len(later) > 0 {
				t.Fatalf("somebody behind place %d got the lock first", i)
			}
		}
		Release(t, lease)
	}
}

// otherKeys: a held key with a long queue does not affect other keys.
func otherKeys(t *testing.T, s *suite) {
	l := s.open(t, Patient)
	held := Acquire(t, l, s.key+"held", lock.Options{})
	ctx, cancel := context.WithCancel(t.Context())
	var waiting []<-chan Result
	for range 200 {
		waiting = append(waiting, Go(ctx, l, s.key+"held", lock.Options{}))
	}
	Queued(t, s.Strategy, s.key+"held", 200)
	for range 50 {
		Within(t, time.Second, "another key", func() time.Duration {
			begun := time.Now()
			Release(t, Acquire(t, l, s.key+"other", lock.Options{}))
			return time.Since(begun)
		})
	}
	cancel()
	for _, w := range waiting {
		mustBe(t, "a cancelled wait", Wait(t, "the end of a wait", w).Err, context.Canceled)
	}
	Queued(t, s.Strategy, s.key+"held", 0)
	Release(t, held)
}

// exclusive: never two holders at once.
func exclusive(t *testing.T, s *suite) {
	lockers := []*lock.Locker{s.open(t, Patient), s.open(t, Patient)}
	var inside, total atomic.Int32
	var all sync.WaitGroup
	for i := range 16 {
		all.Go(func() {
			for range 20 {
				err := lockers[i%2].Do(t.Context(), s.key, lock.Options{}, func(context.Context, *lock.Lease) error {
					if inside.Add(1) != 1 {
						t.Error("two hold the lock")
					}
					total.Add(1)
					inside.Add(-1)
					return nil
				})
				if err != nil {
					t.Error(err)
				}
			}
		})
	}
	all.Wait()
	if total.Load() != 320 {
		t.Errorf("%d of 320 turns", total.Load())
	}
}

// wrongReleases: only the owner can release the lock, and only once.
func wrongReleases(t *testing.T, s *suite) {
	l := s.open(t, Patient)
	first := Acquire(t, l, s.key, lock.Options{})
	next := Go(t.Context(), l, s.key, lock.Options{})
	Queued(t, s.Strategy, s.key, 1)
	Release(t, first)
	second := got(t, "the lock", next)

	mustBe(t, "a second release", first.Release(context.Background()), lock.ErrNotOwner)
	store, err := s.Open()
	if err != nil {
		t.Fatal(err)
	}
	defer store.Close()
	stranger := lock.Ticket{Key: second.Key(), ID: "stranger"}
	if r, err := store.Release(t.Context(), stranger); err != nil || r.Owner {
		t.Errorf("a stranger's release: %+v, %v", r, err)
	}
	if _, err := store.Leave(t.Context(), stranger); err != nil {
		t.Error(err)
	}
	if valid, err := store.Touch(t.Context(), []lock.Touch{{Ticket: stranger, TTL: time.Second}}); err != nil || len(valid) != 0 {
		t.Errorf("a stranger's touch: %v, %v", valid, err)
	}
	_, err = l.TryAcquire(t.Context(), s.key, lock.Options{})
	mustBe(t, "after wrong releases", err, lock.ErrBusy)
	if second.Err() != nil || second.Context().Err() != nil {
		t.Errorf("the holder lost the lock: %v", second.Err())
	}
	Release(t, second)
	mustBe(t, "the context of a released lease", context.Cause(second.Context()), lock.ErrReleased)
}

// drop: the lease ends at once, and the lock goes to the next waiter.
func drop(t *testing.T, s *suite) {
	l := s.open(t, Patient)
	first := Acquire(t, l, s.key, lock.Options{})
	next := Go(t.Context(), l, s.key, lock.Options{})
	Queued(t, s.Strategy, s.key, 1)
	first.Drop()
	mustBe(t, "a dropped lease", first.Err(), lock.ErrNotOwner)
	mustBe(t, "releasing it", first.Release(t.Context()), lock.ErrNotOwner)
	first.Drop() // the second time it does nothing
	second := got(t, "the next", next)
	if second.Fence() <= first.Fence() {
		t.Errorf("fence %d after %d", second.Fence(), first.Fence())
	}
	second.Drop()
	Release(t, Acquire(t, l, s.key, lock.Options{}))
}

// touchAndLoss: automatic touches keep a lease beyond its TTL. One that was taken away is noticed, and can be neither
// touched nor released.
func touchAndLoss(t *testing.T, s *suite) {
	l := s.open(t, Patient)
	ttl := 3 * time.Second // a touch has two thirds of it to get through: a busy machine needs a fraction of a second
	lease := Acquire(t, l, s.key, lock.Options{TTL: ttl})
	over := time.NewTimer(ttl + ttl/2)
	defer over.Stop()
	select {
	case <-lease.Context().Done():
		t.Fatalf("lost in spite of touches: %v", context.Cause(lease.Context()))
	case <-over.C:
	}
	if err := lease.Touch(t.Context(), ttl); err != nil {
		t.Errorf("touch: %v", err)
	}

	manual := Acquire(t, l, s.key+"manual", lock.Options{TTL: 300 * time.Millisecond, Manual: true})
	Wait(t, "the loss", manual.Context().Done())
	mustBe(t, "the cause", context.Cause(manual.Context()), lock.ErrLost, lock.ErrExpired)
	mustBe(t, "a touch after the loss", manual.Touch(t.Context(), ttl), lock.ErrLost)
	mustBe(t, "a release after the loss", manual.Release(t.Context()), lock.ErrLost)
	after := Acquire(t, l, s.key+"manual", lock.Options{})
	if after.Fence() <= manual.Fence() {
		t.Errorf("fence %d after %d", after.Fence(), manual.Fence())
	}
	Release(t, after)
	Release(t, lease)
}

// manualTouch: a lease that came from the queue and is touched by hand has its whole TTL, whatever the heartbeat.
func manualTouch(t *testing.T, s *suite) {
	settings := lock.Settings{Heartbeat: time.Second} // its process counts as alive for three of them
	l := s.open(t, settings)
	first := Acquire(t, l, s.key, lock.Options{})
	next := Go(t.Context(), s.open(t, settings), s.key, lock.Options{TTL: Patience, Manual: true})
	Queued(t, s.Strategy, s.key, 1)
	Release(t, first)
	lease := got(t, "the lock", next)
	over := time.NewTimer(4 * time.Second)
	defer over.Stop()
	select {
	case <-lease.Context().Done():
		t.Errorf("lost long before the TTL: %v", lease.Err())
	case <-over.C:
	}
	Release(t, lease)
}

// maxHold: a holder that holds for too long loses the lock, and is fenced off.
func maxHold(t *testing.T, s *suite) {
	l := s.open(t, lock.Settings{})
	lease := Acquire(t, l, s.key, lock.Options{TTL: 2 * Patience, MaxHold: 500 * time.Millisecond})
	next := Go(t.Context(), s.open(t, Patient), s.key, lock.Options{})
	Wait(t, "the forced release", lease.Context().Done())
	mustBe(t, "the cause", context.Cause(lease.Context()), lock.ErrLost, lock.ErrMaxHold)
	r := Wait(t, "the next one's lock", next)
	if r.Err != nil || r.Lease.Fence() <= lease.Fence() || r.Took > 2*time.Second {
		t.Fatalf("the next one: %v after %v", r.Err, r.Took)
	}
	mustBe(t, "a late release", lease.Release(t.Context()), lock.ErrLost, lock.ErrMaxHold)
	if r.Lease.Err() != nil {
		t.Errorf("the late release hit the next one: %v", r.Lease.Err())
	}
	Release(t, r.Lease)
}

// leasesEnd: what the store itself says of a lease, whatever its holder believes. A lease cannot be touched beyond its
// longest hold, nor once it has run out, and who asks is told of no longer one.
func leasesEnd(t *testing.T, s *suite) {
	store, err := s.Open()
	if err != nil {
		t.Fatal(err)
	}
	defer store.Close()
	enter := func(id string, ttl time.Duration) lock.Ticket {
		ticket := lock.Ticket{Key: s.key + id, ID: id, Process: "suite"}
		e := lock.Entry{Ticket: ticket, Name: "suite", Live: time.Hour, TTL: ttl, MaxHold: time.Hour}
		if got, err := store.Enter(t.Context(), e); err != nil || got.State != lock.Held {
			t.Fatalf("%+v, %v", got, err)
		}
		return ticket
	}
	touch := func(ticket lock.Ticket, ttl time.Duration) map[string]time.Duration {
		valid, err := store.Touch(t.Context(), []lock.Touch{{Ticket: ticket, TTL: ttl}})
		if err != nil {
			t.Fatal(err)
		}
		return valid
	}
	brief := lock.Entry{Ticket: lock.Ticket{Key: s.key + "brief", ID: "brief", Process: "suite"}, Name: "suite", Live: time.Hour, TTL: time.Hour, MaxHold: 20 * time.Second}
	first, err1 := store.Enter(t.Context(), brief)
	again, err2 := store.Enter(t.Context(), brief)
	seen, err3 := store.Look(t.Context(), []lock.Ticket{brief.Ticket})
	if err := errors.Join(err1, err2, err3); err != nil || len(seen) != 1 {
		t.Fatal(seen, err)
	}
	for way, valid := range map[string]time.Duration{"got": first.Valid, "asked for again": again.Valid, "looked at": seen[0].Valid} {
		if valid <= 0 || valid > brief.MaxHold {
			t.Errorf("a lease of %v at most, %s, lasts for %v", brief.MaxHold, way, valid)
		}
	}
	long := enter("long", time.Minute)
	if valid := touch(long, 2*time.Hour)[long.ID]; valid <= time.Minute || valid > time.Hour {
		t.Errorf("a lease of an hour at most was touched for %v", valid)
	}
	if r, err := store.Release(t.Context(), long); err != nil || !r.Owner || r.Late {
		t.Errorf("a release in time: %+v, %v", r, err)
	}
	short := enter("short", 50*time.Millisecond)
	Eventually(t, "the lease has run out", func() bool {
		all, err := store.Look(t.Context(), []lock.Ticket{short})
		if err != nil || len(all) != 1 {
			t.Fatal(all, err)
		}
		return all[0].State == lock.Stale || all[0].State == lock.Gone // one store keeps leases that have run out, another forgets them
	})
	if valid := touch(short, time.Minute); len(valid) != 0 {
		t.Errorf("a lease that had run out was touched: %v", valid)
	}
	if r, err := store.Release(t.Context(), short); err != nil || r.Owner && !r.Late {
		t.Errorf("a release of what had run out: %+v, %v", r, err)
	}
}

// noLeaseEndsEarly: a lease goes to another one only once it has run out for its holder, who counts from before they
// asked. It goes to who has waited for it, and not to who comes just then; and it ends for them, too.
func noLeaseEndsEarly(t *testing.T, s *suite) {
	store, err := s.Open()
	if err != nil {
		t.Fatal(err)
	}
	defer store.Close()
	const ttl, hold = time.Minute, 2 * time.Minute
	for name, end := range map[string]func(*testing.T, lock.Entry) (lock.Handoff, error){
		"waits": func(t *testing.T, e lock.Entry) (lock.Handoff, error) {
			return store.Advance(t.Context(), e.Key, e.Process)
		},
		"comes": func(t *testing.T, e lock.Entry) (lock.Handoff, error) {
			e.ID, e.Wait = "comes", false
			got, err := store.Enter(t.Context(), e)
			if got.State != lock.Busy {
				t.Fatalf("who comes to a key that others wait for finds it %s", got.State)
			}
			return got.Next, err
		},
	} {
		t.Run("who "+name, func(t *testing.T) {
			entry := lock.Entry{
				Ticket: lock.Ticket{Key: s.key + name, ID: "first-" + name, Process: "suite"}, Name: "suite", Live: time.Hour,
				TTL: ttl, MaxHold: hold, MaxQueue: 10, Wait: true,
			}
			next := entry
			next.ID = "next-" + name
			first, err1 := store.Enter(t.Context(), entry)
			second, err2 := store.Enter(t.Context(), next)
			asked := time.Now()
			valid, err3 := store.Touch(t.Context(), []lock.Touch{{Ticket: entry.Ticket, TTL: 300 * time.Millisecond}})
			if err := errors.Join(err1, err2, err3); err != nil || first.State != lock.Held || second.State != lock.Queued || valid[entry.ID] == 0 {
				t.Fatal(first, second, valid, err)
			}
			var handed lock.Handoff
			Eventually(t, "the lease is handed over", func() bool {
				if handed, err = end(t, entry); err != nil {
					t.Fatal(err)
				}
				return handed.ID != ""
			})
			if early := time.Until(asked.Add(valid[entry.ID])); early > 0 {
				t.Errorf("the lease was handed over %v before its end", early)
			}
			if handed.ID != next.ID || handed.Fence <= first.Fence || handed.Valid > ttl {
				t.Errorf("%+v followed the fence %d", handed, first.Fence)
			}
			valid, err = store.Touch(t.Context(), []lock.Touch{{Ticket: next.Ticket, TTL: 2 * hold}})
			if err != nil || valid[next.ID] > hold {
				t.Errorf("what was handed over for %v at most lasts for %v, %v", hold, valid[next.ID], err)
			}
		})
	}
}

// limits: longest wait, longest queue, no wait at all.
func limits(t *testing.T, s *suite) {
	l := s.open(t, Patient)
	held := Acquire(t, l, s.key, lock.Options{})
	_, err := l.TryAcquire(t.Context(), s.key, lock.Options{})
	mustBe(t, "TryAcquire", err, lock.ErrBusy)
	_, err = l.Acquire(t.Context(), s.key, lock.Options{MaxWait: 100 * time.Millisecond})
	mustBe(t, "the longest wait", err, lock.ErrTimeout)
	Queued(t, s.Strategy, s.key, 0)
	one := Go(t.Context(), l, s.key, lock.Options{MaxQueue: 1})
	Queued(t, s.Strategy, s.key, 1)
	_, err = l.Acquire(t.Context(), s.key, lock.Options{MaxQueue: 1})
	mustBe(t, "a full queue", err, lock.ErrQueueFull)
	Release(t, held)
	Release(t, got(t, "the lock", one))
	Release(t, func() *lock.Lease {
		l, err := l.TryAcquire(t.Context(), s.key, lock.Options{})
		mustBe(t, "free", err, nil)
		return l
	}())

	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	_, err = l.Acquire(ctx, s.key, lock.Options{})
	mustBe(t, "a context that is over", err, context.Canceled)
	for _, o := range []lock.Options{{TTL: time.Millisecond}, {MaxWait: -5}, {MaxHold: -5}, {MaxQueue: -1}} {
		_, err = l.Acquire(t.Context(), s.key, o)
		mustBe(t, "bad options", err, lock.ErrBadOptions)
	}
}

// keys: different spellings of one key are one key, and invalid keys are refused.
func keys(t *testing.T, s *suite) {
	l := s.open(t, Patient)
	lease := Acquire(t, l, "  "+strings.ToUpper(s.key)+"Äß ", lock.Options{})
	_, err := l.TryAcquire(t.Context(), strings.ToLower(s.key)+"äß", lock.Options{})
	mustBe(t, "another spelling", err, lock.ErrBusy)
	Release(t, lease)
	for _, bad := range []string{"", "  ", "a b", "a\x00b", "\xff", strings.Repeat("x", 256)} {
		_, err := l.Acquire(t.Context(), bad, lock.Options{})
		mustBe(t, "key "+bad, err, lock.ErrBadKey)
	}
	Release(t, Acquire(t, l, s.key+strings.Repeat("x", 255-len(s.key)), lock.Options{}))
}

// closing: a closed Locker leaves nothing that blocks others.
func closing(t *testing.T, s *suite) {
	other := s.open(t, Patient)
	store, err := s.Open()
	if err != nil {
		t.Fatal(err)
	}
	l, err := lock.New(store, Patient)
	if err != nil {
		t.Fatal(err)
	}
	lease := Acquire(t, l, s.key, lock.Options{})
	inside := Go(t.Context(), l, s.key, lock.Options{})
	Queued(t, s.Strategy, s.key, 1)
	next := Go(t.Context(), other, s.key, lock.Options{})
	Queued(t, s.Strategy, s.key, 2)
	if err := l.Close(); err != nil {
		t.Error(err)
	}
	mustBe(t, "a wait", Wait(t, "the end of the wait", inside).Err, lock.ErrClosed)
	mustBe(t, "the lease", lease.Err(), lock.ErrLost, lock.ErrClosed)
	Release(t, got(t, "the lock", next))
	_, err = l.Acquire(t.Context(), s.key, lock.Options{})
	mustBe(t, "after Close", err, lock.ErrClosed)
}

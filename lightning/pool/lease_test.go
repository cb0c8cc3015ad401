package pool_test

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/a-seed-a7aed72f/holdfast/lightning/pool"
	"github.com/a-seed-a7aed72f/holdfast/lock"
	"github.com/a-seed-a7aed72f/holdfast/lock/locktest"
	"github.com/a-seed-a7aed72f/holdfast/paidaction"
)

// everywhere runs a test on all strategies.
func everywhere(t *testing.T, test func(t *testing.T, w *world)) {
	t.Run("memory", func(t *testing.T) {
		t.Parallel()
		test(t, inMemory(t))
	})
	shared(t, func(t *testing.T, w *world, _ string) { test(t, w) })
}

// spec 05.34: "Exclusivity shorter than the lease's validity: a double lease." The seed's ended after 5 s. Here it
// lasts until the release, although the TTL, the lock's longest hold and the cooldown have all passed several times.
func TestExclusivityLastsUntilTheRelease(t *testing.T) {
	t.Parallel()
	everywhere(t, func(t *testing.T, w *world) {
		alice := member{"alice", newNode("a", 1000*sat), 1}
		s := quick()
		s.Cooldown = 50 * time.Millisecond
		first := w.openOn(w.db, w.locker(lock.Settings{Options: lock.Options{TTL: 3 * time.Second, MaxHold: 3 * time.Second}}), s, alice)
		lease := first.lease(pool.Need{})
		s.RetryTimeout = 7 * time.Second
		w.open(s, alice).none(pool.Need{}, pool.Busy)
		if lease.Context().Err() != nil {
			t.Errorf("the lease is over: %v", context.Cause(lease.Context()))
		}
		release(t, lease, pool.Done(0))
		if err := lease.Release(t.Context(), pool.Done(0)); !errors.Is(err, lock.ErrNotOwner) {
			t.Errorf("a second release: %v", err)
		}
		if err := context.Cause(lease.Context()); !errors.Is(err, lock.ErrReleased) {
			t.Errorf("the context of a released lease: %v", err)
		}
	})
}

// However many ask, no slot is leased twice.
func TestNoSlotIsLeasedTwice(t *testing.T) {
	t.Parallel()
	everywhere(t, func(t *testing.T, w *world) {
		const slots = 2
		members := []member{{"alice", newNode("a", 1000*sat), slots}, {"bob", newNode("b", 1000*sat), slots}}
		processes := []*process{w.open(quick(), members...), w.open(quick(), members...)}
		inFlight := map[string]*atomic.Int64{"alice": {}, "bob": {}}
		most := map[string]*atomic.Int64{"alice": {}, "bob": {}}
		// The first payments of each node last until all its slots are taken, however busy the machine is.
		full := map[string]func(){}
		taken := map[string]chan struct{}{"alice": make(chan struct{}), "bob": make(chan struct{})}
		var notYet atomic.Int64
		for name, all := range taken {
			notYet.Add(1)
			full[name] = sync.OnceFunc(func() { close(all); notYet.Add(-1) })
		}
		var group sync.WaitGroup
		for i := range 16 {
			p := processes[i%len(processes)]
			group.Go(func() {
				// Callers with quick payments go on until the last slot has been used.
				for n := 0; n < 10 || notYet.Load() > 0 && !t.Failed(); n++ {
					lease, err := p.Acquire(t.Context(), pool.Need{Amount: sat})
					if err != nil {
						t.Error(err)
						return
					}
					n := inFlight[lease.Name()].Add(1)
					if n > slots {
						t.Errorf("%d payments in flight at %s", n, lease.Name())
					}
					for m := most[lease.Name()]; ; {
						if before := m.Load(); n <= before || m.CompareAndSwap(before, n) {
							break
						}
					}
					if n >= slots {
						full[lease.Name()]()
					}
					select {
					case <-taken[lease.Name()]:
					case <-time.After(time.Minute):
						t.Errorf("nobody takes the other slots of %s", lease.Name())
					}
					pause(time.Millisecond)
					inFlight[lease.Name()].Add(-1)
					release(t, lease, pool.Done(0))
				}
			})
		}
		group.Wait()
		for name, m := range most {
			if m.Load() != slots {
				t.Errorf("%s had %d payments in flight at most, of %d slots: was there no contention?", name, m.Load(), slots)
			}
		}
	})
}

// pause is a payment of some length. Another payment at the same slot could be met only while this one lasts, and no
// signal says that there is none.
func pause(d time.Duration) {
	timer := time.NewTimer(d + rand.N(d))
	defer timer.Stop()
	<-timer.C
}

// Slots are independent: a lease of one leaves the others free, and each has its own fences, which never fall.
func TestANodeHasAsManySlotsAsItMayHavePayments(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	p := w.open(briefly(), member{"alice", newNode("a", 1000*sat), 3})
	var leases []*pool.Lease
	for range 3 {
		leases = append(leases, p.lease(pool.Need{}))
	}
	p.none(pool.Need{}, pool.Busy)
	if s := p.health()["alice"]; s.InFlight != 3 || s.Slots != 3 || !s.Eligible {
		t.Errorf("%+v", s)
	}
	release(t, leases[1], pool.Done(0))
	again := p.lease(pool.Need{})
	if again.Fence() < leases[1].Fence() {
		t.Errorf("fence %d after %d", again.Fence(), leases[1].Fence())
	}
}

// Callers are served in the order in which they ask, as far as a node can serve them.
func TestFirstComeFirstServed(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	s := quick()
	s.Cooldown = 0
	p := w.open(s, member{"alice", newNode("a", 1000*sat), 1}, member{"bob", newNode("b", 5000*sat), 1})
	alice, bob := p.lease(pool.Need{Only: "alice"}), p.lease(pool.Need{Only: "bob"})
	var waits []<-chan result
	for i, need := range []pool.Need{{Amount: 2000 * sat}, {Only: "alice"}, {}} {
		waits = append(waits, p.leased(need))
		locktest.Eventually(t, "another one waits", func() bool { return p.Waiting() == i+1 })
	}
	release(t, alice, pool.Done(0))
	only := got(t, "the one that wants alice: the first needs more than she has", waits[1])
	release(t, bob, pool.Done(0))
	large := got(t, "the first", waits[0])
	release(t, only, pool.Done(0))
	last := got(t, "the last", waits[2])
	if only.Name() != "alice" || large.Name() != "bob" || last.Name() != "alice" {
		t.Errorf("%s, %s, %s", only.Name(), large.Name(), last.Name())
	}
}

// The choice of node is random: the same with the same seed, and over many leases each node about as often.
func TestTheChoiceIsSpread(t *testing.T) {
	t.Parallel()
	const n = 300
	pick := func() (picked []string) {
		w := newWorld(t)
		s := quick()
		s.Cooldown = 0
		s.Probe = time.Hour // looks would not disturb, but nothing else should happen
		p := w.open(s, member{"alice", newNode("a", 1000*sat), 1}, member{"bob", newNode("b", 1000*sat), 5}, member{"carol", newNode("c", 1000*sat), 1})
		p.KeepLocks()
		// The locks of all slots are got first. Whoever waits long for one takes another that is kept, and how long the lock takes to answer
		// is no matter of the seed.
		var all []*pool.Lease
		for range 1 + 5 + 1 {
			all = append(all, p.lease(pool.Need{}))
		}
		for _, lease := range all {
			release(t, lease, pool.Done(0))
		}
		for range n {
			lease := p.lease(pool.Need{})
			picked = append(picked, lease.Name())
			release(t, lease, pool.Done(0))
		}
		return picked
	}
	picked, count := pick(), map[string]int{}
	for _, name := range picked {
		count[name]++
	}
	// Five standard deviations; slots are no weights.
	for _, name := range []string{"alice", "bob", "carol"} {
		if count[name] < n/3-41 || count[name] > n/3+41 {
			t.Errorf("%s was picked %d times of %d", name, count[name], n)
		}
	}
	if again := pick(); fmt.Sprint(again) != fmt.Sprint(picked) {
		t.Error("the same seed picks others")
	}
}

// A wait that is given up just when the lease comes leaves nothing leased.
func TestGivingUpRacesWithTheLease(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	s := quick()
	s.Cooldown = 0
	p := w.open(s, member{"alice", newNode("a", 1000*sat), 1})
	for range 300 {
		held := p.lease(pool.Need{})
		ctx, cancel := context.WithCancel(t.Context())
		done := make(chan result, 1)
		go func() {
			lease, err := p.Acquire(ctx, pool.Need{})
			done <- result{lease, err}
		}()
		go cancel()
		release(t, held, pool.Done(0))
		r := locktest.Wait(t, "the end of the wait", done)
		switch {
		case r.err == nil:
			release(t, r.lease, pool.Done(0))
		case !errors.Is(r.err, context.Canceled):
			t.Fatal(r.err)
		}
	}
	release(t, p.lease(pool.Need{}), pool.Done(0))
	p.eventually("nothing is leased", "alice", func(s pool.Status) bool { return s.InFlight == 0 })
}

// The wait is given up while the lease is on its way: after the lock was got and the register read, but before the
// lease is handed over.
func TestALeaseThatComesTooLateIsGivenBack(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	s := quick()
	s.Probe, s.Cooldown = time.Hour, 0
	alice := member{"alice", newNode("a", 1000*sat), 1}
	elsewhere := w.open(s, alice)
	var giveUp func()
	var waits, read atomic.Bool
	database := &switched{DBTX: w.db, asked: func() { read.Store(waits.Load()) }}
	here := *w
	here.clock = newClock()
	here.clock.asked = func() {
		if read.Swap(false) {
			giveUp()
		}
	}
	p := here.openOn(database, w.locker(lock.Settings{}), s, alice)
	for tries := 0; ; tries++ {
		held := elsewhere.lease(pool.Need{})
		ctx, cancel := context.WithCancel(t.Context())
		defer cancel()
		giveUp = cancel
		done := p.waiting(ctx, "alice")
		waits.Store(true)
		release(t, held, pool.Done(0))
		err := locktest.Wait(t, "the end of the wait", done)
		waits.Store(false)
		if !errors.Is(err, context.Canceled) {
			t.Error(err)
		}
		release(t, elsewhere.lease(pool.Need{}), pool.Done(0))
		n := p.metric("holdfast_node_leases_total", "alice", "unused")
		if n == 1 {
			break
		}
		if n > 1 || tries == 20 { // else the machine was too busy: the wait was given up too early
			t.Fatalf("%v leases came too late, this test is about one", n)
		}
	}
}

// Who comes while a lock is on its way to those who have given up does not get it: it would end with their wait.
func TestALeaseDoesNotEndWithTheWaitOfAnother(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	s := quick()
	s.Probe, s.Cooldown = time.Hour, 0
	alice := member{"alice", newNode("a", 1000*sat), 1}
	elsewhere := w.open(s, alice)
	var waits atomic.Bool
	reading, read := make(chan struct{}), make(chan struct{})
	database := &switched{DBTX: w.db, asked: func() {
		if waits.Swap(false) {
			close(reading)
			<-read
		}
	}}
	p := w.openOn(database, w.locker(lock.Settings{}), s, alice)
	held := elsewhere.lease(pool.Need{})
	ctx, giveUp := context.WithCancel(t.Context())
	defer giveUp()
	gone := p.waiting(ctx, "alice")
	waits.Store(true)
	release(t, held, pool.Done(0))
	locktest.Wait(t, "the lock", reading)
	giveUp()
	if err := locktest.Wait(t, "the end of the wait", gone); !errors.Is(err, context.Canceled) {
		t.Error(err)
	}
	next := p.leased(pool.Need{})
	locktest.Eventually(t, "the next waits", func() bool { return p.Waiting() == 1 })
	close(read)
	lease := got(t, "the next", next)
	p.health() // asks the database: time enough for a lease to end that is going to
	if err := lease.Context().Err(); err != nil {
		t.Errorf("the next one's lease: %v", context.Cause(lease.Context()))
	}
	release(t, lease, pool.Done(0))
}

// The lease's context ends with that of Acquire, and the lease can still be released then.
func TestTheContextOfALease(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	p := w.open(briefly(), member{"alice", newNode("a", 1000*sat), 1})
	ctx, cancel := context.WithCancel(t.Context())
	lease, err := p.Acquire(ctx, pool.Need{})
	if err != nil {
		t.Fatal(err)
	}
	cancel()
	locktest.Wait(t, "the end of the context", lease.Context().Done())
	p.none(pool.Need{}, pool.Busy)
	if err := lease.Release(ctx, pool.ReceiverFault()); err != nil {
		t.Error(err)
	}
	release(t, p.lease(pool.Need{}), pool.ReceiverFault())
}

// A lease is released once: what comes after it has the slot of the next one left alone.
func TestALeaseIsReleasedOnce(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	s := briefly()
	s.Cooldown = 0
	p := w.open(s, member{"alice", newNode("a", 1000*sat), 1})
	lease := p.lease(pool.Need{})
	release(t, lease, pool.Done(0))
	next := p.lease(pool.Need{})
	if err := lease.Release(t.Context(), pool.Done(0)); !errors.Is(err, lock.ErrNotOwner) {
		t.Errorf("released again: %v", err)
	}
	p.none(pool.Need{}, pool.Busy)
	if err := next.Context().Err(); err != nil {
		t.Errorf("the next lease: %v", err)
	}
	release(t, next, pool.Done(0))
}

// While the lock or the database is away nobody gets a node: spec 04 §4.1, closed.
func TestWithoutTheLockNobodyGetsANode(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	alice := member{"alice", newNode("a", 1000*sat), 1}
	away := locktest.Open(t, locktest.Strategy{Open: openPostgres("postgres://127.0.0.1:1/none")}, lock.Settings{})
	broken := &switched{DBTX: w.db}
	for name, p := range map[string]*process{
		"the lock":     w.openOn(w.db, away, quick(), alice),
		"the database": w.openOn(broken, w.locker(lock.Settings{}), quick(), alice),
	} {
		broken.off.Store(name == "the database")
		for range 2 {
			if _, err := p.Acquire(t.Context(), pool.Need{}); !errors.Is(err, paidaction.Refused(paidaction.CodeTryAgain)) {
				t.Errorf("without %s: %v", name, err)
			}
		}
	}
	broken.off.Store(false)
	lease := w.open(quick(), alice).lease(pool.Need{})
	release(t, lease, pool.Done(0))
}

func TestAClosedPool(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	alice := member{"alice", newNode("a", 1000*sat), 1}
	p := w.open(quick(), alice)
	lease := p.lease(pool.Need{})
	waits := p.leased(pool.Need{})
	locktest.Eventually(t, "the other one waits", func() bool { return p.Waiting() == 1 })
	p.Close()
	if r := locktest.Wait(t, "the end of the wait", waits); !errors.Is(r.err, pool.ErrClosed) {
		t.Errorf("the wait: %v", r.err)
	}
	if _, err := p.Acquire(t.Context(), pool.Need{}); !errors.Is(err, pool.ErrClosed) {
		t.Errorf("an acquisition: %v", err)
	}
	release(t, lease, pool.ReceiverFault())
	release(t, w.open(quick(), alice).lease(pool.Need{}), pool.Done(0))
}

// Not parallel: it counts goroutines.
func TestNothingIsLeftBehind(t *testing.T) {
	w := newWorld(t)
	locktest.Leaks(t)
	alice := newNode("a", 1000*sat)
	p := w.open(briefly(), member{"alice", alice, 1}, member{"bob", newNode("b", 1000*sat), 2})
	lease := p.lease(pool.Need{Only: "alice"})
	p.none(pool.Need{Only: "alice"}, pool.Busy)
	release(t, lease, pool.NodeFault("NO_ROUTE"))
	p.none(pool.Need{Only: "alice"}, pool.Cooling)
}

func TestWhatCannotBeAskedFor(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	p := w.open(quick(), member{"alice", newNode("a", 1000*sat), 1}, member{"bob", newNode("b", 1000*sat), 0})
	for name, c := range map[string]struct {
		need pool.Need
		code paidaction.Code
	}{
		"a node of which nobody knows": {pool.Need{Only: "mallory"}, paidaction.CodeLightningUnavailable},
		"a negative amount":            {pool.Need{Amount: -1}, paidaction.CodeInvalidAmount},
		"a node that only issues":      {pool.Need{Only: "bob"}, paidaction.CodeLightningUnavailable},
		"no node at all":               {pool.Need{Avoid: []string{"alice"}}, paidaction.CodeLightningUnavailable},
	} {
		begun := time.Now()
		if _, err := p.Acquire(t.Context(), c.need); !errors.Is(err, paidaction.Refused(c.code)) {
			t.Errorf("%s: %v", name, err)
		}
		if took := time.Since(begun); took > quick().RetryTimeout/2 {
			t.Errorf("%s: it took %v, though no wait could help", name, took)
		}
	}
}

func TestPoolsThatCannotWork(t *testing.T) {
	t.Parallel()
	locker := locktest.Open(t, locktest.Strategy{Open: func() (lock.Store, error) { return lock.NewMemory(0), nil }}, lock.Settings{})
	for name, change := range map[string]func(*pool.Config){
		"two names that are one key": func(c *pool.Config) { c.Nodes = []pool.Member{{Name: "Alice"}, {Name: "alice"}} },
		"a name that is no key":      func(c *pool.Config) { c.Nodes = []pool.Member{{Name: "al ice"}} },
		"no lock":                    func(c *pool.Config) { c.Locker = nil },
		"no register":                func(c *pool.Config) { c.Register = nil },
		"no wait":                    func(c *pool.Config) { c.Settings.RetryTimeout = 0 },
		"a negative cooldown":        func(c *pool.Config) { c.Settings.Cooldown = -1 },
		"a negative rest at fault":   func(c *pool.Config) { c.Settings.FailureCooldown = -1 },
		"a negative jitter":          func(c *pool.Config) { c.Settings.Jitter = -1 },
		"a negative outbound":        func(c *pool.Config) { c.Settings.MinOutbound = -1 },
		"no unknowns":                func(c *pool.Config) { c.Settings.Unknowns = 0 },
		"no probe":                   func(c *pool.Config) { c.Settings.Probe = 0 },
		"no time for a probe":        func(c *pool.Config) { c.Settings.ProbeTimeout = 0 },
	} {
		c := pool.Config{Locker: locker, Register: pool.NewRegister(nil, time.Now), Settings: pool.DefaultSettings()}
		change(&c)
		if p, err := pool.New(c); err == nil {
			p.Close()
			t.Errorf("%s: it was made", name)
		}
	}
}

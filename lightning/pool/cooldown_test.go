package pool_test

import (
	"context"
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/a-seed-a7aed72f/holdfast/lightning/pool"
	"github.com/a-seed-a7aed72f/holdfast/lock"
	"github.com/a-seed-a7aed72f/holdfast/lock/locktest"
)

// How long a node rests, in every process, and after what.
func TestCooldowns(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		slots   int
		outcome pool.Outcome
		rest    time.Duration
	}{
		"a payment, one slot":                 {1, pool.Done(sat), 5 * time.Second},
		"a payment, several slots":            {2, pool.Done(sat), 0},
		"the node's fault, one slot":          {1, pool.NodeFault("NO_ROUTE"), 20 * time.Second},
		"the node's fault, several slots":     {2, pool.NodeFault("NO_ROUTE"), 20 * time.Second},
		"the receiver's fault, one slot":      {1, pool.ReceiverFault(), 0},
		"the receiver's fault, several slots": {2, pool.ReceiverFault(), 0},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := newWorld(t)
			alice := member{"alice", newNode("a", 1000*sat), c.slots}
			here, there := w.open(briefly(), alice), w.open(briefly(), alice)
			release(t, here.lease(pool.Need{}), c.outcome)
			if c.rest > 0 {
				for range c.slots {
					here.none(pool.Need{}, pool.Cooling)
					there.none(pool.Need{}, pool.Cooling)
				}
				if s := there.health()["alice"]; s.Eligible || !s.CoolingUntil.Equal(w.now().Add(c.rest)) {
					t.Errorf("%+v", s)
				}
				w.clock.advance(c.rest - time.Millisecond)
				here.none(pool.Need{}, pool.Cooling)
				there.none(pool.Need{}, pool.Cooling)
				w.clock.advance(time.Millisecond)
			}
			release(t, there.lease(pool.Need{}), pool.ReceiverFault())
			release(t, here.lease(pool.Need{}), pool.ReceiverFault())
		})
	}
}

// Each of the two rests counts in every process, however much longer it is than the other.
func TestARestCountsHoweverShortTheOtherIs(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		settings func(*pool.Settings)
		outcome  pool.Outcome
	}{
		"after a payment":        {func(s *pool.Settings) { s.Cooldown = time.Hour }, pool.Done(sat)},
		"after the node's fault": {func(s *pool.Settings) { s.FailureCooldown = time.Hour }, pool.NodeFault("NO_ROUTE")},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := newWorld(t)
			s := briefly()
			c.settings(&s)
			alice := member{"alice", newNode("a", 1000*sat), 1}
			here, there := w.open(s, alice), w.open(s, alice)
			release(t, here.lease(pool.Need{}), c.outcome)
			here.none(pool.Need{}, pool.Cooling)
			there.none(pool.Need{}, pool.Cooling)
			w.clock.advance(time.Hour)
			release(t, there.lease(pool.Need{}), pool.ReceiverFault())
		})
	}
}

// While a node with several slots rests, its other leases go on. A shorter rest, by a process with other settings, does
// not cut a longer one short.
func TestACooldownHoldsForTheWholeNode(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	alice := member{"alice", newNode("a", 1000*sat), 3}
	s := briefly()
	s.FailureCooldown = time.Second
	p, hasty := w.open(briefly(), alice), w.open(s, alice)
	bad, good := p.lease(pool.Need{}), hasty.lease(pool.Need{})
	release(t, bad, pool.NodeFault("INSUFFICIENT_BALANCE"))
	if good.Context().Err() != nil {
		t.Error("the other lease is over")
	}
	release(t, good, pool.NodeFault("NO_ROUTE"))
	fresh := w.open(briefly(), alice)
	w.clock.advance(15 * time.Second)
	for _, p := range []*process{p, hasty, fresh} {
		p.none(pool.Need{}, pool.Cooling)
		if s := p.health()["alice"]; !strings.Contains(s.Why, "INSUFFICIENT_BALANCE") {
			t.Errorf("it says %q", s.Why)
		}
	}
	w.clock.advance(5 * time.Second)
	release(t, p.lease(pool.Need{}), pool.Done(0))
}

// A process whose clock is far ahead lets the node rest until its own time has come. Others do not wait for that, and
// their own rests hold among them all the same.
func TestARestByAClockThatIsAheadDoesNotCount(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	future := *w
	future.clock = newClock()
	future.clock.advance(8 * time.Hour)
	alice := member{"alice", newNode("a", 1000*sat), 1}
	ahead, here, there := future.open(briefly(), alice), w.open(briefly(), alice), w.open(briefly(), alice)
	release(t, ahead.lease(pool.Need{}), pool.NodeFault("NO_ROUTE"))
	ahead.none(pool.Need{}, pool.Cooling)
	if s := there.health()["alice"]; !s.Eligible || !s.CoolingUntil.IsZero() {
		t.Errorf("it rests for the others: %+v", s)
	}
	release(t, there.lease(pool.Need{}), pool.NodeFault("INSUFFICIENT_BALANCE"))
	for _, p := range []*process{here, there} {
		p.none(pool.Need{}, pool.Cooling)
		if s := p.health()["alice"]; !s.CoolingUntil.Equal(w.now().Add(20*time.Second)) || !strings.Contains(s.Why, "INSUFFICIENT_BALANCE") {
			t.Errorf("of what the others say: %+v", s)
		}
	}
	w.clock.advance(20 * time.Second)
	release(t, here.lease(pool.Need{}), pool.ReceiverFault())
}

// A clock that was ahead is put right: what it said before counts no more, in the processes either that had believed it.
func TestARestEndsWhenTheClockIsPutRight(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	alice := member{"alice", newNode("a", 1000*sat), 1}
	here, there := w.open(briefly(), alice), w.open(briefly(), alice)
	w.clock.advance(8 * time.Hour)
	release(t, here.lease(pool.Need{}), pool.NodeFault("NO_ROUTE"))
	here.none(pool.Need{}, pool.Cooling)
	there.none(pool.Need{}, pool.Cooling)
	w.clock.advance(-8 * time.Hour)
	release(t, here.lease(pool.Need{}), pool.ReceiverFault())
	release(t, there.lease(pool.Need{}), pool.NodeFault("NO_ROUTE"))
	there.none(pool.Need{}, pool.Cooling)
	here.none(pool.Need{}, pool.Cooling)
}

// The rest cannot be written down, so other processes do not know of it. Here the node rests all the same, and whoever released the lease is
// told.
func TestARestThatCannotBeWrittenDownHoldsHere(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	database := &switched{DBTX: w.db}
	s := briefly()
	s.Probe = time.Hour
	p := w.openOn(database, w.locker(lock.Settings{}), s, member{"alice", newNode("a", 1000*sat), 1})
	release(t, p.lease(pool.Need{}), pool.Done(0))
	w.clock.advance(s.Cooldown) // an earlier rest, that was written down, is over
	lease := p.lease(pool.Need{})
	database.off.Store(true)
	if err := lease.Release(t.Context(), pool.NodeFault("NO_ROUTE")); !errors.Is(err, errOff) {
		t.Errorf("the release: %v", err)
	}
	database.off.Store(false)
	if stand := p.health()["alice"]; stand.Reason != pool.Cooling {
		t.Errorf("once the register is read again: %+v", stand)
	}
	p.none(pool.Need{}, pool.Cooling)
}

// Nor does a shorter rest cut it short that another process writes down meanwhile: the node is down for as long as it was.
func TestARestThatCannotBeWrittenDownIsNotCutShort(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	database := &switched{DBTX: w.db}
	alice := member{"alice", newNode("a", 1000*sat), 2}
	s, short := briefly(), briefly()
	s.Probe, short.FailureCooldown = time.Hour, time.Second
	p, hasty := w.openOn(database, w.locker(lock.Settings{}), s, alice), w.open(short, alice)
	long, brief := p.lease(pool.Need{}), hasty.lease(pool.Need{})
	database.off.Store(true)
	if err := long.Release(t.Context(), pool.NodeFault("NO_ROUTE")); !errors.Is(err, errOff) {
		t.Errorf("the release: %v", err)
	}
	database.off.Store(false)
	release(t, brief, pool.NodeFault("INSUFFICIENT_BALANCE"))
	p.health() // reads the register
	w.clock.advance(short.FailureCooldown)
	p.none(pool.Need{}, pool.Cooling)
	w.clock.advance(s.FailureCooldown - short.FailureCooldown)
	release(t, p.lease(pool.Need{}), pool.ReceiverFault())
}

// It is written down also when whoever paid has given up.
func TestARestIsWrittenDownWhenTheContextIsOver(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	alice := member{"alice", newNode("a", 1000*sat), 1}
	p := w.open(briefly(), alice)
	ctx, cancel := context.WithCancel(t.Context())
	lease, err := p.Acquire(ctx, pool.Need{})
	if err != nil {
		t.Fatal(err)
	}
	cancel()
	if err := lease.Release(ctx, pool.NodeFault("NO_ROUTE")); err != nil {
		t.Error(err)
	}
	w.open(briefly(), alice).none(pool.Need{}, pool.Cooling)
}

// Whoever has lost the lock is told so at the release, and the lock is not kept for the next payment. A node at fault
// rests all the same, whoever has the lock by now.
func TestTheReleaseOfALostLease(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		outcome pool.Outcome
		rests   bool
	}{"the node's fault": {pool.NodeFault("NO_ROUTE"), true}, "the receiver's fault": {pool.ReceiverFault(), false}} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := newWorld(t)
			alice := member{"alice", newNode("a", 1000*sat), 1}
			locker := w.locker(lock.Settings{})
			lease := w.openOn(w.db, locker, briefly(), alice).lease(pool.Need{})
			if err := locker.Close(); err != nil {
				t.Fatal(err)
			}
			if err := lease.Release(t.Context(), c.outcome); !errors.Is(err, lock.ErrLost) {
				t.Errorf("the release: %v", err)
			}
			if next := w.open(briefly(), alice); c.rests {
				next.none(pool.Need{}, pool.Cooling)
			} else {
				release(t, next.lease(pool.Need{}), pool.ReceiverFault())
			}
		})
	}
}

// The cooldown is stored before the lock is released: no process that waits for the lock slips in between.
func TestNobodySlipsInBetweenReleaseAndCooldown(t *testing.T) {
	t.Parallel()
	everywhere(t, func(t *testing.T, w *world) {
		alice := member{"alice", newNode("a", 1000*sat), 1}
		s := quick()
		s.Cooldown = 300 * time.Millisecond
		here, there := w.open(s, alice), w.open(s, alice)
		for range 3 {
			lease := here.lease(pool.Need{})
			next := there.leased(pool.Need{})
			locktest.Eventually(t, "the other process waits for the lock", func() bool { return there.QueuedFor("alice") == 1 })
			released := time.Now()
			release(t, lease, pool.Done(0))
			second := got(t, "the next", next)
			if rested := time.Since(released); rested < s.Cooldown {
				t.Errorf("it rested for %v, not for %v", rested, s.Cooldown)
			}
			release(t, second, pool.ReceiverFault())
		}
	})
}

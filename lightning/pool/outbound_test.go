package pool_test

import (
	"errors"
	"testing"
	"time"

	"github.com/a-seed-a7aed72f/holdfast/lightning/pool"
	"github.com/a-seed-a7aed72f/holdfast/lock/locktest"
	"github.com/a-seed-a7aed72f/holdfast/paidaction"
)

// What a node says it can send no longer has in it what payments in flight have taken. So when such a payment ends, nothing
// is added by us: the node may not have it back yet.
func TestWhatTheNodeHasCountedIsNotCountedAgain(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	alice := newNode("a", 2000*sat)
	p := w.open(quick(), member{"alice", alice, 2})
	lease := p.lease(pool.Need{Amount: 1000 * sat})
	alice.set(func(n *node) { n.outbound = 900 * sat })
	p.eventually("the node has counted the payment", "alice", func(s pool.Status) bool { return s.Outbound == 900*sat })
	alice.set(func(n *node) { n.hang = make(chan struct{}) })
	locktest.Eventually(t, "the next look hangs", func() bool { return alice.open() == 1 })
	release(t, lease, pool.ReceiverFault())
	if got := p.health()["alice"].Outbound; got != 900*sat {
		t.Errorf("it can send %d msat, and said %d", got, 900*sat)
	}
}

// A node that is asked before a payment was given to it, and answers after, does not know of the payment.
func TestWhatTheNodeCannotHaveCountedIsCounted(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	s := quick()
	s.Probe = 20 * time.Second // a second after a release, and then long after this test
	alice := newNode("a", 2000*sat)
	p := w.open(s, member{"alice", alice, 2})
	answer := make(chan struct{})
	alice.set(func(n *node) { n.hang = answer })
	release(t, p.lease(pool.Need{}), pool.Done(0))
	locktest.Eventually(t, "the node is asked", func() bool { return alice.open() == 1 })
	lease := p.lease(pool.Need{Amount: 1000 * sat})
	alice.set(func(n *node) { n.hang, n.outbound = nil, 2100*sat })
	close(answer)
	p.eventually("the answer counts, and so does the payment", "alice", func(s pool.Status) bool { return s.Outbound == 1100*sat })
	release(t, lease, pool.ReceiverFault())
}

// A look in which the node does not say what it can send counts nothing, so what was promised before it is given back all the
// same by a payment that did not take it. What a payment may have taken stays promised until the node says what is left.
func TestALookAtWhichTheNodeIsShyCountsNothing(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	s := quick()
	s.Unknowns = 1_000_000
	alice := newNode("a", 2000*sat)
	p := w.open(s, member{"alice", alice, 2})
	alice.set(func(n *node) { n.shy = errors.New("it is shy") })
	alice.lookedAt(t)
	before := 2000 * sat
	for _, c := range []struct {
		what    string
		outcome pool.Outcome
		took    paidaction.Msat
	}{
		{"it failed for its receiver", pool.ReceiverFault(), 0},
		{"it was not made", pool.Outcome{}, 0},
		{"it took some", pool.Done(400 * sat), 400 * sat},
		{"the node is to say", pool.Done(0), 1000 * sat},
	} {
		lease := p.lease(pool.Need{Amount: 1000 * sat})
		alice.lookedAt(t)
		if got := p.health()["alice"].Outbound; got != before-1000*sat {
			t.Errorf("%s: while it is in flight %d msat are left, want %d", c.what, got, before-1000*sat)
		}
		release(t, lease, c.outcome)
		before -= c.took
		if got := p.health()["alice"].Outbound; got != before {
			t.Errorf("%s: %d msat are left, want %d", c.what, got, before)
		}
	}
	alice.set(func(n *node) { n.shy, n.outbound = nil, 1234*sat })
	p.eventually("what the node says counts", "alice", func(s pool.Status) bool { return s.Outbound == 1234*sat })
}

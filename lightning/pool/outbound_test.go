package pool_test

import (
	"testing"
	"time"

	"github.com/a-seed-a7aed72f/holdfast/lightning/pool"
	"github.com/a-seed-a7aed72f/holdfast/lock/locktest"
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

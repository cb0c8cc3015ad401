package simnode

import (
	"slices"
	"sync"
	"time"

	"github.com/a-seed-a7aed72f/holdfast/paidaction"
)

// Network is what simulated nodes and receivers share: one chain, one clock, and a route from each node to everybody.
// It does nothing on its own either.
type Network struct {
	clock func() time.Time

	mu       sync.Mutex // guards everything in the network, including the state of nodes and receivers
	height   uint32
	payees   map[string]payee // by public key
	nodes    []*Node
	underWay []*htlc // including some that have ended
	issued   int     // number of receivers' invoices, so that each has its own preimage
}

// payee is somebody whom an HTLC can pay.
type payee interface {
	// reach returns what a payment of the invoice meets on its way.
	reach(bolt11 string) conditions
	// take is given one HTLC, and resolves it now or later.
	take(h *htlc)
}

// conditions are what a payment meets on its way. The zero value means the sending node's own routes.
type conditions struct {
	fee     Route                    // instead of the sending node's own, unless it is zero
	parts   int                      // 0: one
	failure paidaction.FailureReason // why it cannot arrive; empty if it can
	probes  bool                     // probes are held
	looking bool                     // there is no route yet, and no reason to give up before the timeout
}

// NewNetwork returns an empty network at height 100.
func NewNetwork(clock func() time.Time) *Network {
	return &Network{clock: clock, height: 100, payees: make(map[string]payee)}
}

// join registers somebody under a key. net.mu is held.
func (net *Network) join(key string, p payee) {
	if _, ok := net.payees[key]; ok {
		panic("simnode: two in one network have the same name")
	}
	net.payees[key] = p
}

// Tick ends what has expired by the clock: OPEN invoices, oldest first, plain and hold alike, with the parts that they
// may hold (an ACCEPTED one is never cancelled by the clock, spec 01 §1.5), and payments that found no route in time.
// Payments that still look for a route try again.
func (net *Network) Tick() {
	net.mu.Lock()
	defer net.mu.Unlock()
	for _, n := range net.nodes {
		for _, inv := range n.live {
			n.expire(inv)
		}
		n.forgetFinal()
		n.lookAgain()
	}
}

// Mine adds blocks one by one. At each block every node that is synced cancels its ACCEPTED invoices whose first HTLC
// expires within HoldExpiryDelta blocks: it must not risk its channel for a preimage that may never come. Payments in
// flight fail at the height at which their HTLC expires; until then the receiver can take them.
func (net *Network) Mine(blocks uint32) {
	net.mu.Lock()
	defer net.mu.Unlock()
	for range blocks {
		net.height++
		for _, n := range net.nodes {
			n.catchUp()
		}
		for _, h := range net.underWay {
			if net.height >= h.expiry {
				h.fail("")
			}
		}
		net.underWay = slices.DeleteFunc(net.underWay, func(h *htlc) bool { return h.done })
	}
}

// Height is the height of the chain.
func (net *Network) Height() uint32 {
	net.mu.Lock()
	defer net.mu.Unlock()
	return net.height
}

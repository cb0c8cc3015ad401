package simnode

import (
	"time"

	"github.com/a-seed-a7aed72f/holdfast/paidaction"
)

// Tick lets time have its effects in the node's network: see Network.Tick.
func (n *Node) Tick() { n.net.Tick() }

// Mine adds blocks to the chain of the node's network: see Network.Mine.
func (n *Node) Mine(blocks uint32) { n.net.Mine(blocks) }

// Height is the height of the best block that the node knows.
func (n *Node) Height() uint32 {
	n.mu.Lock()
	defer n.mu.Unlock()
	return n.height
}

// now is the node's own clock. n.mu is held.
func (n *Node) now() time.Time { return n.net.clock().Add(n.faults.ahead) }

// catchUp processes the blocks that the node has not seen, unless the node is behind the chain. n.mu is held.
func (n *Node) catchUp() {
	for !n.faults.unsynced && n.height < n.net.height {
		n.height++
		for _, inv := range n.live {
			if inv.State == paidaction.InvoiceAccepted && n.height+HoldExpiryDelta >= inv.NodeInvoice().ExpiryHeight {
				n.cancel(inv)
			}
		}
		publish(n.blockStreams, n.height, n.faults.repeat)
	}
	n.forgetFinal()
}

// expire cancels an open invoice whose time is up. As in LND it still exists during its last second, in which a payment
// can arrive. n.mu is held.
func (n *Node) expire(inv *invoice) {
	if inv.State == paidaction.InvoiceOpen && inv.Expires().Before(n.now()) {
		n.cancel(inv)
	}
}

// forgetFinal drops what Tick and Mine need not look at again. n.mu is held.
func (n *Node) forgetFinal() {
	kept := n.live[:0]
	for _, inv := range n.live {
		if !inv.final() {
			kept = append(kept, inv)
		}
	}
	clear(n.live[len(kept):])
	n.live = kept
}

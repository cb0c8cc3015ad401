package simnode

import "github.com/a-seed-a7aed72f/holdfast/paidaction"

// Tick cancels, oldest first, every OPEN invoice that has expired by the node's clock: plain and hold alike, with the parts it
// may hold. An ACCEPTED hold invoice is never cancelled by the clock (spec 01 §1.5).
func (n *Node) Tick() {
	n.mu.Lock()
	defer n.mu.Unlock()
	for _, inv := range n.live {
		n.expire(inv)
	}
	n.forgetFinal()
}

// Mine adds blocks one by one. At each, every ACCEPTED invoice whose first HTLC expires within HoldExpiryDelta blocks is
// cancelled by the node itself: it must not risk its channel for a preimage that may never come.
func (n *Node) Mine(blocks uint32) {
	n.mu.Lock()
	defer n.mu.Unlock()
	for range blocks {
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

// Height is the height of the node's best block.
func (n *Node) Height() uint32 {
	n.mu.Lock()
	defer n.mu.Unlock()
	return n.height
}

// expire cancels an open invoice whose time is up. LND keeps it through the last second: a payment can land in it. n.mu is
// held.
func (n *Node) expire(inv *invoice) {
	if inv.State == paidaction.InvoiceOpen && inv.Expires().Before(n.clock()) {
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

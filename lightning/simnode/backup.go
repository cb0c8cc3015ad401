package simnode

import (
	"maps"
	"slices"

	"github.com/a-seed-a7aed72f/holdfast/paidaction"
)

// Backup is what a node knew of invoices and payments at one moment.
type Backup struct {
	added, settled []*invoice
	payments       map[paidaction.Hash]*payment
}

// Backup copies what the node knows.
func (n *Node) Backup() Backup {
	n.mu.Lock()
	defer n.mu.Unlock()
	return Backup{n.added, n.settled, n.payments}.copy()
}

// Wipe makes the node forget every invoice, both indices, every payment and every probe, like one that was restored from
// its seed.
// Its streams end. Payments in flight go on without it.
func (n *Node) Wipe() {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.restore(Backup{payments: map[paidaction.Hash]*payment{}})
}

// Restore makes the node know what it knew at the backup, and nothing since. Its streams end. Of a payment that was in
// flight then it never hears the outcome, and goes on to call it IN_FLIGHT. It knows of no probe.
func (n *Node) Restore(b Backup) {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.restore(b.copy())
}

// Replace puts another node in the place of this one, under the same name: it knows nothing, and has a different public
// key.
func (n *Node) Replace() {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.restore(Backup{payments: map[paidaction.Hash]*payment{}})
	n.key = publicKey(n.key)
	n.net.join(n.key, n)
}

func (n *Node) restore(b Backup) {
	n.drop()
	n.added, n.settled, n.payments = b.added, b.settled, b.payments
	n.live = slices.Clone(b.added)
	n.forgetFinal()
	clear(n.invoices)
	clear(n.probes)
	for _, inv := range b.added {
		n.invoices[inv.Request.Hash] = inv
	}
}

func (b Backup) copy() Backup {
	c := Backup{settled: make([]*invoice, len(b.settled)), payments: maps.Clone(b.payments)}
	for _, inv := range b.added {
		own := &invoice{inv.copy()}
		c.added = append(c.added, own)
		if i := inv.SettleIndex; i > 0 {
			c.settled[i-1] = own
		}
	}
	for h, p := range c.payments {
		c.payments[h] = &payment{id: p.id, inv: p.inv, Sent: p.copy()}
	}
	return c
}

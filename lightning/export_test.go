package lightning

import "time"

// KnownTimeout is how long the database may take to say who a node is.
const KnownTimeout = knownTimeout

// NodeInvoice is an invoice as its node sees it.
var NodeInvoice = nodeInvoice

// StandStill stops the clock by which answers grow old.
func (ns *Nodes) StandStill() {
	now := time.Now()
	ns.now = func() time.Time { return now }
}

// Forget makes every answer old.
func (ns *Nodes) Forget() {
	for _, n := range ns.nodes {
		n.asked = time.Time{}
	}
}

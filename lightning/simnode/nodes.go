package simnode

import (
	"context"

	"github.com/a-seed-a7aed72f/holdfast/paidaction"
)

// Nodes are several simulated nodes by name.
type Nodes []*Node

var _ paidaction.Nodes = Nodes(nil)

var errUnknown = paidaction.Errorf(paidaction.CodeLightningUnavailable, "The Lightning node of this payment is not configured.")

// Node implements paidaction.Nodes.
func (ns Nodes) Node(name string) (paidaction.Node, error) { return ns.Sender(name) }

// Names are the nodes' names in order.
func (ns Nodes) Names() []string {
	names := make([]string, len(ns))
	for i, n := range ns {
		names[i] = n.name
	}
	return names
}

// Ours are the nodes' names in order: each sends.
func (ns Nodes) Ours() []string { return ns.Names() }

// Sender is the node with this name, as a sending node.
func (ns Nodes) Sender(name string) (paidaction.SendingNode, error) {
	for _, n := range ns {
		if n.name == name {
			return n, nil
		}
	}
	return nil, errUnknown
}

// Issuer returns the first node that is neither away nor behind the chain, else LIGHTNING_UNAVAILABLE. This is not
// recorded as a call.
func (ns Nodes) Issuer(ctx context.Context) (string, error) {
	if err := ctx.Err(); err != nil {
		return "", err
	}
	for _, n := range ns {
		if n.up() {
			return n.name, nil
		}
	}
	return "", paidaction.Errorf(paidaction.CodeLightningUnavailable, "No Lightning node can take a payment now. Try again later.")
}

func (n *Node) up() bool {
	n.mu.Lock()
	defer n.mu.Unlock()
	return !n.faults.away && !n.faults.unsynced
}

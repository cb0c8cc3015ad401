package lightning

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/a-seed-a7aed72f/holdfast/paidaction"
)

const (
	// probeAge is how long a node's answer to "can you take a payment" is believed. Issuing is frequent, and an invoice
	// that fails because its node has just gone down harms nobody.
	probeAge = time.Second
	// probeTimeout is how long a node may take to answer before the next one is asked.
	probeTimeout = 2 * time.Second
	// knownTimeout is how long Nodes.Known may take then. It asks the database, whose delays say nothing about the node.
	knownTimeout = 2 * time.Second
)

// Nodes are several nodes by name, in the order in which they are asked to issue. They are safe for concurrent use.
type Nodes struct {
	// Known, if set, is paidaction.ErrAnotherNode where a node is known by another key than the one that it answers with,
	// and any other error where that cannot be told. Set it before the first use.
	Known func(ctx context.Context, name, key string) error

	nodes []*pooled
	now   func() time.Time
}

// pooled is a node and its last answer. The token in turn guards the other fields: of many callers one asks, and the
// others can still give up waiting.
type pooled struct {
	client *Client
	turn   chan struct{}
	asked  time.Time
	err    error  // nil: it can take a payment
	met    string // the key that it was last known by; empty: none, or another node answered since
}

var _ paidaction.Nodes = (*Nodes)(nil)

// NewNodes makes a pool. It refuses two nodes with the same name, since rows could mean either.
func NewNodes(clients ...*Client) (*Nodes, error) {
	ns := &Nodes{now: time.Now}
	for _, c := range clients {
		if _, err := ns.Client(c.Name()); err == nil {
			return nil, fmt.Errorf("two lightning nodes are named %q", c.Name())
		}
		ns.nodes = append(ns.nodes, &pooled{client: c, turn: make(chan struct{}, 1)})
	}
	return ns, nil
}

// Names are the nodes' names in order.
func (ns *Nodes) Names() []string {
	names := make([]string, len(ns.nodes))
	for i, n := range ns.nodes {
		names[i] = n.client.Name()
	}
	return names
}

// Client returns the node with this name; LIGHTNING_UNAVAILABLE if none is configured under it.
func (ns *Nodes) Client(name string) (*Client, error) {
	for _, n := range ns.nodes {
		if n.client.Name() == name {
			return n.client, nil
		}
	}
	return nil, paidaction.Errorf(paidaction.CodeLightningUnavailable, "The Lightning node of this payment is not configured.").
		Because(fmt.Errorf("lightning node %q", name))
}

// Node implements paidaction.Nodes.
func (ns *Nodes) Node(name string) (paidaction.Node, error) {
	c, err := ns.Client(name)
	if err != nil {
		return nil, err // not a nil *Client inside a Node
	}
	return c, nil
}

// Issuer implements paidaction.Nodes: it returns the first node that answers, suits, is synced to the chain (spec 01
// §1.6), and is the one that is known by its name, or LIGHTNING_UNAVAILABLE with each node's answer as the cause.
func (ns *Nodes) Issuer(ctx context.Context) (string, error) {
	var said []error
	for _, n := range ns.nodes {
		err := ns.probe(ctx, n)
		if err == nil {
			return n.client.Name(), nil
		}
		if ctx.Err() != nil {
			return "", ctx.Err()
		}
		said = append(said, err)
	}
	return "", paidaction.Errorf(paidaction.CodeLightningUnavailable, "No Lightning node can take a payment now. Try again later.").
		Because(errors.Join(said...))
}

// probe asks the node, or repeats its answer of a moment ago.
func (ns *Nodes) probe(ctx context.Context, n *pooled) error {
	select {
	case n.turn <- struct{}{}:
		defer func() { <-n.turn }()
	case <-ctx.Done():
		return ctx.Err()
	}
	if ns.now().Sub(n.asked) < probeAge {
		return n.err
	}
	limited, cancel := context.WithTimeout(ctx, probeTimeout)
	defer cancel()
	info, err := n.client.Info(limited)
	if err == nil { // Check has perhaps not come so far yet: coins of a test network would pay for what is done
		err = n.client.suits(info)
	}
	if err == nil && !info.Synced {
		err = fmt.Errorf("lightning node %s is behind the chain, at height %d", n.client.Name(), info.Height)
	}
	if err == nil && ns.Known != nil { // what is paid to a stranger may not be ours, and what was wiped may be wiped again
		err = ns.known(ctx, n, info.PubKey)
	}
	if ctx.Err() != nil {
		return ctx.Err() // the caller gave up: that says nothing about the node
	}
	n.asked, n.err = ns.now(), err
	return err
}

// known is nil if the node is known by the key that it answers with. Where that cannot be told, what was last told of this
// very key counts: a database that is slow or away for a moment does not make a stranger of a node. Called with the node's
// turn.
func (ns *Nodes) known(ctx context.Context, n *pooled, key string) error {
	ctx, cancel := context.WithTimeout(ctx, knownTimeout)
	defer cancel()
	err := ns.Known(ctx, n.client.Name(), key)
	switch {
	case err == nil:
		n.met = key
	case errors.Is(err, paidaction.ErrAnotherNode):
		n.met = ""
	case n.met == key:
		return nil
	}
	return err
}

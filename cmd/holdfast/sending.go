package main

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/a-seed-a7aed72f/holdfast/lightning"
	"github.com/a-seed-a7aed72f/holdfast/lightning/pool"
	"github.com/a-seed-a7aed72f/holdfast/lightning/wrap"
	"github.com/a-seed-a7aed72f/holdfast/paidaction"
	"github.com/a-seed-a7aed72f/holdfast/relay"
	"github.com/a-seed-a7aed72f/holdfast/worker"
)

// senders are the nodes that payments leave through. They implement relay.Nodes.
type senders struct {
	names []string
	nodes *lightning.Nodes
}

// Names implements relay.Nodes.
func (s senders) Names() []string { return s.names }

// Sender implements relay.Nodes. It is any node that is configured: what was sent from one is followed there, also where nothing is sent from it any more.
func (s senders) Sender(name string) (paidaction.SendingNode, error) {
	c, err := s.nodes.Client(name)
	if err != nil {
		return nil, err // not a nil *Client inside a SendingNode
	}
	return c, nil
}

// leases are places at the nodes of the pool. They implement relay.Leases.
type leases struct{ pool *pool.Pool }

// Lease implements relay.Leases.
func (l leases) Lease(ctx context.Context, node string) (relay.Lease, error) {
	got, err := l.pool.Acquire(ctx, pool.Need{Only: node})
	if errors.Is(err, pool.ErrNoNode) {
		err = fmt.Errorf("%w: %w", relay.ErrNoNode, err)
	}
	if err != nil {
		return nil, err
	}
	return lease{got}, nil
}

type lease struct{ *pool.Lease }

// Release implements relay.Lease. What the payment took the pool learns from the node.
func (l lease) Release(ctx context.Context, blame relay.Blame) {
	var outcome pool.Outcome
	switch blame {
	case relay.Nobody:
		outcome = pool.Done(0)
	case relay.TheNode:
		outcome = pool.NodeFault("a payment failed there")
	case relay.ThePayment:
		outcome = pool.ReceiverFault()
	}
	// A lease that was lost, or cannot be given back, runs out by itself.
	_ = l.Lease.Release(ctx, outcome)
}

// senders are the configured nodes that send.
func (s *service) senders() senders {
	all := senders{nodes: s.nodes}
	for _, node := range s.config.Nodes {
		if node.Sends {
			all.names = append(all.names, node.Name)
		}
	}
	return all
}

// sends says whether this process sends payments.
func (s *service) sends() bool { return s.config.Sends() }

// openRelay makes the relay, and the pool of nodes where this process sends. Where none sends any more there may be payments under way yet.
func (s *service) openRelay(conflict func(code string)) (err error) {
	if len(s.clients) == 0 {
		return nil
	}
	settings := s.config.Relay.Settings()
	settings.Lacking = max(s.config.Sending.FailureCooldown, 1) // zero would stand for the default
	c := relay.Config{Pool: s.pool, Nodes: s.senders(), Issuers: s.nodes, Wallets: s.wallets, Log: s.log, Metrics: relay.NewMetrics(s.registry),
		Settings: settings, Conflict: conflict, Trace: worker.TraceRelay(s.traces, s.pool),
		Rules: wrap.Settings{MinOuterCLTV: s.config.HoldExpiryDelta + s.config.SafetyBlocks + 24}}
	if s.sends() {
		members := make([]pool.Member, len(s.clients))
		for i, client := range s.clients {
			members[i] = pool.Member{Name: client.Name(), Node: client, Slots: s.config.Slots(s.config.Nodes[i])}
		}
		s.places, err = pool.New(pool.Config{Nodes: members, Locker: s.locker, Register: pool.NewRegister(s.pool, time.Now),
			Settings: s.config.Sending.Pool(), Log: s.log, Metrics: pool.NewMetrics(s.registry)})
		if err != nil {
			return err
		}
		c.Leases = leases{s.places}
	}
	s.relay, err = relay.New(c)
	return err
}

// outgoing is the relay as the engine takes it: nil, and not a nil *relay.Relay, where there is none.
func (s *service) outgoing() paidaction.Relay {
	if s.relay == nil {
		return nil
	}
	return s.relay
}

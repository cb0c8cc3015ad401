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

// senders are the nodes that send payments. They implement relay.Nodes.
type senders struct {
	names []string
	nodes *lightning.Nodes
}

// Names implements relay.Nodes.
func (s senders) Names() []string { return s.names }

// Ours implements relay.Nodes.
func (s senders) Ours() []string { return s.nodes.Names() }

// Sender implements relay.Nodes. It returns any configured node: a payment is followed at the node that sent it, even
// if that node sends no more.
func (s senders) Sender(name string) (paidaction.SendingNode, error) {
	c, err := s.nodes.Client(name)
	if err != nil {
		return nil, err // not a nil *Client inside a SendingNode
	}
	return c, nil
}

// leases are slots at the nodes of the pool. They implement relay.Leases.
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

// Release implements relay.Lease. The pool learns from the node what the payment used up.
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
	// A lease that was lost, or cannot be released, expires by itself.
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

// openRelay makes the relay, and also the pool of nodes if this process sends. Even if it no longer sends, payments may
// still be in flight.
func (s *service) openRelay(conflict func(code string)) (err error) {
	if len(s.clients) == 0 {
		return nil
	}
	settings := s.config.Relay.Settings()
	settings.Lacking = max(s.config.Sending.FailureCooldown, 1) // zero would mean the default
	settings.MinOutbound = s.config.Sending.Pool().MinOutbound
	c := relay.Config{Pool: s.pool, Nodes: s.senders(), Issuers: s.nodes, Wallets: s.wallets, Log: s.log, Metrics: relay.NewMetrics(s.registry),
		Settings: settings, ConfirmClock: s.clockConfirmed, Doubted: s.timeline.Doubted, Conflict: conflict, Trace: worker.TraceRelay(s.traces, s.pool),
		Rules: wrap.Settings{MinOuterCLTV: s.config.HoldExpiryDelta + s.config.SafetyBlocks + paidaction.SettleBlocks}}
	if s.config.Sends() {
		members := s.members()
		c.Places = make(map[string]int, len(members))
		for _, m := range members {
			c.Places[m.Name] = m.Slots
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

// members are the configured nodes, with the places at each, for the pool.
func (s *service) members() []pool.Member {
	all := make([]pool.Member, len(s.clients))
	for i, client := range s.clients {
		all[i] = pool.Member{Name: client.Name(), Node: client, Slots: s.config.Slots(s.config.Nodes[i])}
	}
	return all
}

// outgoing is the relay for the engine: if there is none, a plain nil and not a nil *relay.Relay.
func (s *service) outgoing() paidaction.Relay {
	if s.relay == nil {
		return nil
	}
	return s.relay
}

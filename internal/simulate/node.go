package simulate

import (
	"context"
	"errors"
	"time"

	"github.com/a-seed-a7aed72f/holdfast/lightning/simnode"
	"github.com/a-seed-a7aed72f/holdfast/paidaction"
)

// remote is a node as one process reaches it: every call parks on its way there and on its way back.
type remote struct {
	world *world
	name  string
	node  *simnode.Node
}

var _ paidaction.SendingNode = remote{}

// nodes are all nodes. Looking one up does not park.
type nodes struct{ world *world }

// Node implements paidaction.Nodes.
func (ns nodes) Node(name string) (paidaction.Node, error) { return ns.Sender(name) }

// Names implements relay.Nodes.
func (ns nodes) Names() []string { return ns.world.nodes.Names() }

// Ours implements relay.Nodes.
func (ns nodes) Ours() []string { return ns.Names() }

// Sender implements relay.Nodes.
func (ns nodes) Sender(name string) (paidaction.SendingNode, error) {
	if _, err := ns.world.nodes.Sender(name); err != nil {
		return nil, err
	}
	for _, n := range ns.world.nodes {
		if n.Name() == name {
			return remote{ns.world, name, n}, nil
		}
	}
	return nil, errors.New("no such node")
}

// Issuer implements paidaction.Nodes: it returns one of the nodes that are reachable.
func (ns nodes) Issuer(ctx context.Context) (string, error) {
	w := ns.world
	first, err := w.nodes.Issuer(ctx)
	if f := fiberOf(ctx); err == nil && f != nil && w.chance.happens(0.5, f.name+" issuer", f.seen) {
		reversed := simnode.Nodes{}
		for i := len(w.nodes) - 1; i >= 0; i-- {
			reversed = append(reversed, w.nodes[i])
		}
		return reversed.Issuer(ctx)
	}
	return first, err
}

// call makes one call. denied is what the node answers when it lies.
func (n remote) call(ctx context.Context, method string, denied error, do func(ctx context.Context) error) error {
	f := fiberOf(ctx)
	if f == nil {
		return do(ctx)
	}
	if f.pg != nil && f.tx != nil {
		n.world.violate("call inside a transaction", "%s calls %s", f.name, method)
	}
	left, bounded := n.world.timeLeft(ctx)
	if bounded && left <= 0 {
		return errOver
	}
	until := n.world.Now().Add(left)
	if method == "Pay" { // the node itself refuses what comes later, by what the process has said of the time
		until = until.Add(f.ahead - n.world.jumped)
	}
	fault := f.yield(beforeCall, method)
	switch fault {
	case died:
		return errDead
	case callFails:
		return simnode.ErrUnavailable
	case arrivesLater:
		n.later(f, method, until, bounded, do)
		return simnode.ErrAnswerLost
	case saysUnknown, saysExists:
		if denied != nil && n.world.mayLie() {
			return denied
		}
	}
	// A request that was on its way while its process stalled may still arrive.
	arrives := fault == stalls && n.world.chance.happens(0.5, f.name+" arrives", f.seen)
	if err := ctx.Err(); err != nil && !arrives {
		return err
	}
	if bounded && n.world.Now().After(until) {
		if method == "Pay" {
			return simnode.ErrTooLate
		}
		return errOver
	}
	err := do(context.WithoutCancel(ctx))
	n.world.look()
	if n.world.talkative(method) {
		n.world.tell(f, "%s at %s: %s", method, n.name, said(err))
	}
	switch f.yield(afterCall, method) {
	case died:
		return errDead
	case answerIsLost:
		return simnode.ErrAnswerLost
	}
	if ctxErr := ctx.Err(); ctxErr != nil {
		return ctxErr
	}
	return err
}

// later has a call reach the node some time after its caller has given up, but within the time that the call was made
// for.
func (n remote) later(f *fiber, method string, until time.Time, bounded bool, do func(ctx context.Context) error) {
	w, name := n.world, f.name
	at := w.tick + w.chance.between(time.Millisecond, 20*time.Second, name+" arrives later", f.seen)
	w.queue.add(at, func() {
		if bounded && w.Now().After(until) {
			return
		}
		err := do(w.ctx)
		w.tell(nil, "%s of %s arrives late at %s: %s", method, name, n.name, said(err))
		w.look()
	})
}

// asked makes one call that has an answer.
func asked[T any](ctx context.Context, n remote, method string, denied error, do func(ctx context.Context) (T, error)) (answer T, err error) {
	err = n.call(ctx, method, denied, func(ctx context.Context) (err error) {
		answer, err = do(ctx)
		return err
	})
	return answer, err
}

// OpenInvoice implements paidaction.Node.
func (n remote) OpenInvoice(ctx context.Context, r paidaction.InvoiceRequest) (string, error) {
	return asked(ctx, n, "OpenInvoice", simnode.ErrDuplicate, func(ctx context.Context) (string, error) { return n.node.OpenInvoice(ctx, r) })
}

// LookupInvoice implements paidaction.Node.
func (n remote) LookupInvoice(ctx context.Context, h paidaction.Hash) (paidaction.NodeInvoice, error) {
	return asked(ctx, n, "LookupInvoice", paidaction.ErrInvoiceNotFound, func(ctx context.Context) (paidaction.NodeInvoice, error) { return n.node.LookupInvoice(ctx, h) })
}

// SettleInvoice implements paidaction.Node.
func (n remote) SettleInvoice(ctx context.Context, p paidaction.Preimage) error {
	return n.call(ctx, "SettleInvoice", nil, func(ctx context.Context) error { return n.node.SettleInvoice(ctx, p) })
}

// CancelInvoice implements paidaction.Node.
func (n remote) CancelInvoice(ctx context.Context, h paidaction.Hash) error {
	return n.call(ctx, "CancelInvoice", paidaction.ErrInvoiceNotFound, func(ctx context.Context) error { return n.node.CancelInvoice(ctx, h) })
}

// Chain implements paidaction.Node.
func (n remote) Chain(ctx context.Context) (paidaction.Chain, error) {
	return asked(ctx, n, "Chain", nil, n.node.Chain)
}

// DecodeInvoice implements paidaction.SendingNode.
func (n remote) DecodeInvoice(ctx context.Context, bolt11 string) (paidaction.Bolt11, error) {
	return asked(ctx, n, "DecodeInvoice", nil, func(ctx context.Context) (paidaction.Bolt11, error) { return n.node.DecodeInvoice(ctx, bolt11) })
}

// EstimateRoute implements paidaction.SendingNode.
func (n remote) EstimateRoute(ctx context.Context, r paidaction.RouteRequest) (paidaction.Route, error) {
	return asked(ctx, n, "EstimateRoute", nil, func(ctx context.Context) (paidaction.Route, error) { return n.node.EstimateRoute(ctx, r) })
}

// Sendable implements paidaction.SendingNode.
func (n remote) Sendable(ctx context.Context) (paidaction.Msat, error) {
	return asked(ctx, n, "Sendable", nil, n.node.Sendable)
}

// Channels implements paidaction.SendingNode.
func (n remote) Channels(ctx context.Context) ([]paidaction.Channel, error) {
	return asked(ctx, n, "Channels", nil, n.node.Channels)
}

// PublicKey implements paidaction.SendingNode.
func (n remote) PublicKey(ctx context.Context) (string, error) {
	return asked(ctx, n, "PublicKey", nil, n.node.PublicKey)
}

// Time implements paidaction.SendingNode.
func (n remote) Time(ctx context.Context) (time.Time, error) {
	return asked(ctx, n, "Time", nil, n.node.Time)
}

// EachSettled implements paidaction.Node.
func (n remote) EachSettled(ctx context.Context, since time.Time, on func(paidaction.NodeInvoice) error) error {
	return n.call(ctx, "EachSettled", nil, func(ctx context.Context) error { return n.node.EachSettled(ctx, since, on) })
}

// EachPayment implements paidaction.SendingNode.
func (n remote) EachPayment(ctx context.Context, since time.Time, on func(u paidaction.PaymentUpdate, created time.Time) error) error {
	return n.call(ctx, "EachPayment", nil, func(ctx context.Context) error { return n.node.EachPayment(ctx, since, on) })
}

// sends makes a node's worker work for the action whose payment it sends next: faults from here on count for that
// action.
func (w *world) sends(f *fiber, node, bolt11 string) {
	action, err := w.database.queries().ActionSending(w.ctx, bolt11)
	if err != nil {
		panic(err)
	}
	w.touch(f.action, f.faults...)
	f.action, f.faults, f.claimed = action, nil, false
	w.mustLeavePlaces(f, node)
}

func never() bool { return false }

// ends returns what says that the time for a call is over: for a payment that hangs, that is when its place at the node
// is given back.
func (w *world) ends(ctx context.Context) (over func() bool) {
	left, bounded := w.timeLeft(ctx)
	if !bounded {
		return never
	}
	end := w.tick + left
	w.queue.add(end, func() {}) // whoever waits is looked at after each event
	return func() bool { return w.tick >= end }
}

var errSeen = errors.New("seen")

// Pay implements paidaction.SendingNode.
func (n remote) Pay(ctx context.Context, r paidaction.PaymentRequest, on func(paidaction.PaymentUpdate) error) error {
	var first paidaction.PaymentUpdate
	over := never
	if f := fiberOf(ctx); f != nil {
		n.world.sends(f, n.name, r.Bolt11)
		over = n.world.ends(ctx)
	}
	err := n.call(ctx, "Pay", paidaction.ErrPaymentExists, func(ctx context.Context) error {
		err := n.node.Pay(ctx, r, func(u paidaction.PaymentUpdate) error { first = u; return errSeen })
		if errors.Is(err, errSeen) {
			err = nil
		}
		if err == nil {
			n.world.mustBeHeld(first.Hash)
			n.world.mustBeAlone(first.Hash, n.name)
			n.world.mustStay(first.Hash, n.name)
		}
		return err
	})
	if err != nil {
		return err
	}
	return n.follow(ctx, first, over, on)
}

// TrackPayment implements paidaction.SendingNode.
func (n remote) TrackPayment(ctx context.Context, h paidaction.Hash, on func(paidaction.PaymentUpdate) error) error {
	now, err := asked(ctx, n, "TrackPayment", n.unknown(h), func(ctx context.Context) (paidaction.PaymentUpdate, error) {
		return paidaction.PresentPayment(ctx, n.node, h)
	})
	if err != nil {
		return err
	}
	return n.follow(ctx, now, never, on)
}

// unknown is what a node may temporarily say of a payment that it has. It must not deny a payment that can no longer be
// sent: only a wiped node says that, never one that merely has not got round to it yet.
func (n remote) unknown(h paidaction.Hash) error {
	if sent, ok := n.node.Sent(h); ok && n.world.Now().After(sent.Until.Add(-sent.Request.Timeout).Add(5*time.Second)) {
		return nil
	}
	return paidaction.ErrPaymentNotFound
}

// follow passes on what the node has said of a payment, and what it says whenever that changes, until the time for that is
// over. What it has said may be old news: whoever was told may have stood still since.
func (n remote) follow(ctx context.Context, now paidaction.PaymentUpdate, over func() bool, on func(paidaction.PaymentUpdate) error) error {
	f, h := fiberOf(ctx), now.Hash
	for {
		now = plain(now)
		if err := on(now); err != nil || now.State != paidaction.PaymentInFlight {
			return err
		}
		if f == nil {
			return simnode.ErrStreamLost
		}
		switch f.yield(following, "TrackPayment") {
		case died:
			return errDead
		case streamEnds:
			return simnode.ErrStreamLost
		}
		n.world.wait(ctx, f, func() bool {
			sent, ok := n.node.Sent(h)
			return ok && plain(sent.Present) == now && !n.world.away[n.name] && !over()
		})
		switch {
		case f.dead():
			return errDead
		case ctx.Err() != nil:
			return ctx.Err()
		case n.world.away[n.name]:
			return simnode.ErrStreamLost
		case over():
			return errOver
		}
		sent, ok := n.node.Sent(h)
		if !ok {
			return simnode.ErrStreamLost
		}
		now = sent.Present
	}
}

// plain is what a node says of a payment: only one that has ended has a reason.
func plain(u paidaction.PaymentUpdate) paidaction.PaymentUpdate {
	if u.State == paidaction.PaymentInFlight {
		u.Failure = ""
	}
	return u
}

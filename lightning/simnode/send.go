package simnode

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/a-seed-a7aed72f/holdfast/paidaction"
)

// maxTotalTimelock is the largest CLTV limit that LND accepts, and the limit of payments that name none.
const maxTotalTimelock = 2016

// Why the node refuses to send. Nothing has been sent then, but a caller that does not know these errors cannot tell.
var (
	ErrExpired     = errors.New("invoice expired")
	ErrSelfPayment = errors.New("self-payments not allowed")
	ErrBadPayment  = errors.New("not a payment the node can make")
	ErrTooLate     = fmt.Errorf("simnode: %w", paidaction.ErrPaymentTooLate)
)

// Route is what a node's routes cost.
type Route struct {
	Fee    paidaction.Msat // per payment, whatever its amount
	Blocks uint32          // blocks for which the money is locked, in addition to what the receiver asks for
}

// standardRoute is one hop through an LND with default settings.
var standardRoute = Route{Fee: 1000, Blocks: 80}

// SetRoute changes what the node's routes cost, except to receivers whose invoices say otherwise.
func (n *Node) SetRoute(r Route) {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.route = r
}

// SetSendable sets what the node's channels can send.
func (n *Node) SetSendable(m paidaction.Msat) {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.balance = m
}

// SetReserved sets how much of what the node says it can send it cannot: reserves, and channels whose peers are away.
func (n *Node) SetReserved(m paidaction.Msat) {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.reserved = m
}

// maxAcceptedHTLCs is how many HTLCs a channel can carry in one direction (BOLT 2).
const maxAcceptedHTLCs = 483

// SetSlots sets how many parts of payments the node's channel lets leave at a time. It is told to those who ask for the
// channels; the node sends more all the same.
func (n *Node) SetSlots(slots int64) {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.slots = slots
}

// Sent shows a payment to a test. It is not a call: it is not recorded, and works while the node is away.
func (n *Node) Sent(h paidaction.Hash) (Sent, bool) {
	n.mu.Lock()
	defer n.mu.Unlock()
	p, ok := n.payments[h]
	if !ok {
		return Sent{}, false
	}
	return p.copy(), true
}

// Payments shows a test all payments that the node knows, in the order in which they were given.
func (n *Node) Payments() []Sent {
	n.mu.Lock()
	defer n.mu.Unlock()
	var all []Sent
	for _, p := range n.sentInOrder() {
		all = append(all, p.copy())
	}
	return all
}

// Pay implements paidaction.SendingNode. What the payment meets on its way is decided before Pay returns the first
// update.
func (n *Node) Pay(ctx context.Context, r paidaction.PaymentRequest, on func(paidaction.PaymentUpdate) error) error {
	inv, unreadable := decode(r.Bolt11)
	deadline := n.deadline(ctx)
	return n.followPayment(ctx, MethodPay, inv.Hash, on, func(*stream[paidaction.PaymentUpdate]) error {
		if unreadable != nil {
			return unreadable
		}
		if !deadline.IsZero() && n.now().After(deadline) {
			return ErrTooLate
		}
		if err := n.mayPay(inv, r); err != nil {
			return err
		}
		n.given++
		p := &payment{id: n.given, inv: inv, Sent: Sent{Request: r, Until: n.now().Add(r.Timeout)}}
		p.Present = paidaction.PaymentUpdate{Hash: inv.Hash, Created: int64(p.id), State: paidaction.PaymentInFlight, Amount: inv.Amount + r.Amount}
		n.payments[inv.Hash] = p
		n.tell(p)
		n.attempt(p)
		return nil
	})
}

// deadline is when ctx ends, by the caller's clock, which is the network's. The node refuses what reaches it later, as
// LND refuses an expired macaroon: so a caller that was stopped on the way to the node and goes on an hour later sends
// nothing.
func (n *Node) deadline(ctx context.Context) time.Time {
	end, ok := ctx.Deadline()
	if !ok {
		return time.Time{}
	}
	n.mu.Lock()
	defer n.mu.Unlock()
	return n.now().Add(time.Until(end) - n.faults.ahead)
}

// mayPay refuses what LND refuses, in LND's order. n.mu is held.
func (n *Node) mayPay(inv signed, r paidaction.PaymentRequest) error {
	limit := r.CLTVLimit
	if limit == 0 {
		limit = maxTotalTimelock
	}
	switch {
	case r.Timeout < time.Second || r.Timeout%time.Second != 0:
		return fmt.Errorf("%w: a timeout of %v", ErrBadPayment, r.Timeout)
	case r.Amount < 0 || r.FeeLimit < 0:
		return fmt.Errorf("%w: a negative amount", ErrBadPayment)
	case (r.Amount == 0) == (inv.Amount == 0):
		return fmt.Errorf("%w: %d msat for an invoice over %d", ErrBadPayment, r.Amount, inv.Amount)
	case n.now().After(inv.Expires):
		return fmt.Errorf("%w. Valid until %v", ErrExpired, inv.Expires)
	case limit > maxTotalTimelock || limit <= inv.CLTVDelta+senderPadding:
		return fmt.Errorf("%w: a limit of %d blocks for a final CLTV of %d", ErrBadPayment, limit, inv.CLTVDelta)
	case inv.Secretless:
		return fmt.Errorf("%w: no payment secret", ErrBadPayment)
	case inv.Destination == n.key:
		return ErrSelfPayment
	}
	if old, ok := n.payments[inv.Hash]; ok && old.Present.State != paidaction.PaymentFailed {
		return paidaction.ErrPaymentExists
	}
	return nil
}

// TrackPayment implements paidaction.SendingNode.
func (n *Node) TrackPayment(ctx context.Context, h paidaction.Hash, on func(paidaction.PaymentUpdate) error) error {
	return n.followPayment(ctx, MethodTrack, h, on, func(s *stream[paidaction.PaymentUpdate]) error {
		view, ok := n.probes[h]
		if p, sent := n.payments[h]; sent {
			view, ok = p.view(), true
		}
		if !ok {
			return paidaction.ErrPaymentNotFound
		}
		publish([]*stream[paidaction.PaymentUpdate]{s}, view, n.faults.repeat)
		return nil
	})
}

// ProbesComeBack has all probes that are out come back, refused on their ways.
func (n *Node) ProbesComeBack() {
	n.mu.Lock()
	defer n.mu.Unlock()
	for h, p := range n.probes {
		if p.State == paidaction.PaymentInFlight {
			p.State, p.Failure = paidaction.PaymentFailed, noRoute
			n.probes[h] = p
			publish(n.paymentStreams, p, n.faults.repeat)
		}
	}
}

// followPayment does the work of a call, and passes on what happens to the payment during and after it.
func (n *Node) followPayment(ctx context.Context, m Method, h paidaction.Hash, on func(paidaction.PaymentUpdate) error,
	work func(*stream[paidaction.PaymentUpdate]) error) error {
	s := newStream(func(u paidaction.PaymentUpdate) bool { return u.Hash == h })
	err := n.call(ctx, m, h, func() error {
		n.paymentStreams = append(n.paymentStreams, s)
		return work(s)
	})
	defer n.leave(func() { n.paymentStreams = without(n.paymentStreams, s) })
	if err != nil {
		return err
	}
	return follow(ctx, n, s, func(u paidaction.PaymentUpdate) (bool, error) {
		return u.State != paidaction.PaymentInFlight, on(u)
	})
}

// DecodeInvoice implements paidaction.SendingNode.
func (n *Node) DecodeInvoice(ctx context.Context, bolt11 string) (paidaction.Bolt11, error) {
	inv, unreadable := decode(bolt11)
	err := n.call(ctx, MethodDecode, inv.Hash, func() error { return unreadable })
	if err != nil {
		return paidaction.Bolt11{}, err
	}
	return inv.Bolt11, nil
}

// EstimateRoute implements paidaction.SendingNode. Like LND it does not probe blinded paths.
func (n *Node) EstimateRoute(ctx context.Context, r paidaction.RouteRequest) (found paidaction.Route, err error) {
	inv, unreadable := decode(r.Bolt11)
	deadline := n.deadline(ctx)
	err = n.call(ctx, MethodEstimate, inv.Hash, func() error {
		switch {
		case unreadable != nil:
			return unreadable
		case inv.Amount == 0:
			return fmt.Errorf("%w: the invoice names no amount", ErrBadPayment)
		case r.Probe == paidaction.Hash{}:
			return fmt.Errorf("%w: a probe without a hash", ErrBadPayment)
		case n.probes[r.Probe].State == paidaction.PaymentInFlight:
			return paidaction.ErrPaymentExists
		case !deadline.IsZero() && n.now().After(deadline):
			return ErrTooLate
		}
		w, failure := n.find(inv, r.Bolt11, inv.Amount)
		if failure == "" && !w.within(inv, r.FeeLimit, r.CLTVLimit) {
			failure = noRoute
		}
		n.given++
		probe := paidaction.PaymentUpdate{Hash: r.Probe, Created: int64(n.given), State: paidaction.PaymentFailed, Amount: inv.Amount, Failure: failure}
		if failure == "" {
			probe.Failure = incorrectDetails
		}
		if failure == "" && w.probes {
			probe.State, probe.Failure = paidaction.PaymentInFlight, ""
		}
		n.probes[r.Probe] = probe
		if failure != "" || w.looking {
			return fmt.Errorf("%w: %s", paidaction.ErrNoRoute, failure)
		}
		if w.probes {
			return paidaction.ErrProbeOpen
		}
		found = paidaction.Route{Fee: w.Fee, Height: n.height + w.locked(inv)}
		return nil
	})
	return found, err
}

// Sendable implements paidaction.SendingNode.
func (n *Node) Sendable(ctx context.Context) (m paidaction.Msat, err error) {
	err = n.call(ctx, MethodSendable, paidaction.Hash{}, func() error { m = n.balance; return nil })
	return m, err
}

// Channels implements paidaction.SendingNode. The node has one channel.
func (n *Node) Channels(ctx context.Context) (channels []paidaction.Channel, err error) {
	err = n.call(ctx, MethodChannels, paidaction.Hash{}, func() error {
		c := paidaction.Channel{Local: n.balance, MostLeaving: n.slots}
		for _, h := range n.net.underWay {
			if h.from == n && !h.done {
				c.Leaving++
				c.Locked += h.msat + h.fee
			}
		}
		c.MostLocked = c.Local + c.Locked
		channels = []paidaction.Channel{c}
		return nil
	})
	return channels, err
}

// EachPayment implements paidaction.SendingNode.
func (n *Node) EachPayment(ctx context.Context, since time.Time, on func(u paidaction.PaymentUpdate, created time.Time) error) error {
	var all []Sent
	err := n.call(ctx, MethodEachPayment, paidaction.Hash{}, func() error {
		for _, p := range n.sentInOrder() {
			all = append(all, p.copy())
		}
		return nil
	})
	if err != nil {
		return err
	}
	for _, p := range all {
		created := p.Until.Add(-p.Request.Timeout)
		if created.Before(since) || p.Present.State == paidaction.PaymentFailed {
			continue
		}
		u := p.view()
		u.Paid, u.Fee = 0, 0
		if err := on(u, created); err != nil {
			return err
		}
	}
	return nil
}

// PublicKey implements paidaction.SendingNode.
func (n *Node) PublicKey(ctx context.Context) (key string, err error) {
	err = n.call(ctx, MethodPublicKey, paidaction.Hash{}, func() error { key = n.key; return nil })
	return key, err
}

// Time implements paidaction.SendingNode.
func (n *Node) Time(ctx context.Context) (t time.Time, err error) {
	err = n.call(ctx, MethodTime, paidaction.Hash{}, func() error { t = n.now(); return nil })
	return t, err
}

// reach returns what a payment of one of the node's own invoices meets.
func (n *Node) reach(string) conditions {
	if n.faults.away {
		return conditions{failure: noRoute}
	}
	return conditions{}
}

// take is given an HTLC by another node.
func (n *Node) take(h *htlc) {
	inv, err := n.payable(h.hash)
	if err != nil || inv.Bolt11 != h.bolt11 {
		h.fail(incorrectDetails)
		return
	}
	if _, err := n.accept(inv, Part{Msat: h.msat, Total: h.total, ExpiryHeight: h.final, AcceptHeight: n.height, from: h}); err != nil {
		h.fail(incorrectDetails)
	}
}

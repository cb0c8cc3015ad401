package simnode

import (
	"slices"
	"time"

	"github.com/a-seed-a7aed72f/holdfast/paidaction"
)

// Why payments fail.
const (
	noRoute          = paidaction.ReasonNoRoute
	incorrectDetails = paidaction.ReasonIncorrectDetails
	tooPoor          = paidaction.ReasonInsufficientBalance
	timedOut         = paidaction.ReasonTimeout
)

// Sent is everything that the node knows of a payment it was given.
type Sent struct {
	Request paidaction.PaymentRequest
	Until   time.Time                // after it no new attempt is made
	Present paidaction.PaymentUpdate // what TrackPayment says now
	Parts   []SentPart
}

// SentPart is one HTLC of a payment that the node sends.
type SentPart struct {
	Msat         paidaction.Msat // what the receiver gets
	Fee          paidaction.Msat
	ExpiryHeight uint32 // height until which the node's money can be locked
	State        paidaction.PaymentState
}

// payment is the node's own copy of a Sent.
type payment struct {
	Sent
	id  uint64 // the node's running number; a failed payment that is tried again gets a new one
	inv signed
}

func (p *payment) copy() Sent {
	c := p.Sent
	c.Parts = slices.Clone(p.Parts)
	return c
}

// htlc is one HTLC on its way. It outlives what the sending node knows of it.
type htlc struct {
	from    *Node
	hash    paidaction.Hash
	payment uint64
	index   int // the part's index
	bolt11  string
	msat    paidaction.Msat // what the receiver gets
	fee     paidaction.Msat
	total   paidaction.Msat // the whole payment
	expiry  uint32          // expiry at the sending node
	final   uint32          // expiry at the receiver
	done    bool
}

// settle pays out the HTLC, and reports whether it could: it cannot once the HTLC has expired. net.mu is held, here and
// in everything below.
func (h *htlc) settle(p paidaction.Preimage) bool {
	if h.done {
		return false
	}
	h.done = true
	h.from.learn(h, func(sent *payment) {
		sent.Parts[h.index].State = paidaction.PaymentSucceeded
		sent.Present.Preimage = &p
		sent.Present.Paid += h.msat
		sent.Present.Fee += h.fee
	})
	return true
}

// fail gives the HTLC back. An empty reason: it has expired.
func (h *htlc) fail(reason paidaction.FailureReason) {
	if h.done {
		return
	}
	h.done = true
	h.from.balance += h.msat + h.fee
	h.from.learn(h, func(sent *payment) {
		sent.Parts[h.index].State = paidaction.PaymentFailed
		if reason == "" {
			reason = noRoute
			if h.from.now().After(sent.Until) {
				reason = timedOut
			}
		}
		sent.Present.Failure = reason
	})
}

// learn changes what the node knows of a payment, if it still knows it, and tells those who follow it. As in LND, a
// payment is over when none of its parts is in flight, and has succeeded if one was settled, even if others came back.
func (n *Node) learn(h *htlc, change func(*payment)) {
	p, ok := n.payments[h.hash]
	if !ok || p.id != h.payment {
		return
	}
	change(p)
	if slices.ContainsFunc(p.Parts, func(part SentPart) bool { return part.State == paidaction.PaymentInFlight }) {
		n.tell(p)
		return
	}
	n.end(p, p.Present.Failure)
}

// end brings a payment to its end.
func (n *Node) end(p *payment, failure paidaction.FailureReason) {
	p.Present.State, p.Present.Failure = paidaction.PaymentFailed, failure
	if p.Present.Preimage != nil {
		p.Present.State, p.Present.Failure = paidaction.PaymentSucceeded, ""
	}
	n.tell(p)
}

func (n *Node) tell(p *payment) { publish(n.paymentStreams, p.view(), n.faults.repeat) }

// view is what the node says of a payment: only one that has ended has a reason.
func (s Sent) view() paidaction.PaymentUpdate {
	u := s.Present
	if u.State == paidaction.PaymentInFlight {
		u.Failure = ""
	}
	return u
}

// way is how a payment reaches its receiver.
type way struct {
	Route
	parts   int
	probes  bool
	looking bool
	to      payee
}

// find looks for a way to the receiver of an invoice. failure is empty if there is one, or may be later.
func (n *Node) find(inv signed, bolt11 string, amount paidaction.Msat) (w way, failure paidaction.FailureReason) {
	to, ok := n.net.payees[inv.To]
	if !ok || n.faults.isolated {
		return w, noRoute
	}
	met := to.reach(bolt11)
	w = way{Route: n.route, parts: max(met.parts, 1), probes: met.probes, looking: met.looking, to: to}
	if met.fee != (Route{}) {
		w.Route = met.fee
	}
	switch {
	case met.failure != "":
		return w, met.failure
	case amount+w.Fee > n.balance-n.reserved:
		return w, tooPoor
	}
	return w, ""
}

// locked is for how many blocks a payment of the invoice locks the money.
func (w way) locked(inv signed) uint32 { return inv.CLTVDelta + senderPadding + w.Blocks }

// within reports whether the way respects the payer's limits; 0 blocks means no limit.
func (w way) within(inv signed, fee paidaction.Msat, blocks uint32) bool {
	return w.Fee <= fee && (blocks == 0 || w.locked(inv) <= blocks)
}

// attempt sends the parts of a payment, or ends it, or leaves it for the next Tick.
func (n *Node) attempt(p *payment) {
	w, failure := n.find(p.inv, p.Request.Bolt11, p.Present.Amount)
	switch {
	case failure != "":
	case !w.within(p.inv, p.Request.FeeLimit, p.Request.CLTVLimit):
		failure = noRoute
	case w.looking && !n.now().After(p.Until):
		return
	case w.looking:
		failure = timedOut
	}
	if failure != "" {
		n.end(p, failure)
		return
	}
	for _, part := range n.send(p, w) {
		w.to.take(part)
	}
}

// send puts the parts of a payment on their way.
func (n *Node) send(p *payment, w way) []*htlc {
	amounts, fees := split(p.Present.Amount, w.parts), split(w.Fee, w.parts)
	sent := make([]*htlc, w.parts)
	for i := range sent {
		h := &htlc{
			from: n, hash: p.inv.Hash, payment: p.id, index: i, bolt11: p.Request.Bolt11, msat: amounts[i], fee: fees[i],
			total: p.Present.Amount, final: n.height + p.inv.CLTVDelta + senderPadding, expiry: n.height + w.locked(p.inv),
		}
		sent[i] = h
		p.Parts = append(p.Parts, SentPart{Msat: h.msat, Fee: h.fee, ExpiryHeight: h.expiry, State: paidaction.PaymentInFlight})
		n.balance -= h.msat + h.fee
	}
	n.net.underWay = append(n.net.underWay, sent...)
	n.tell(p)
	return sent
}

// split makes equal parts; the last one also gets the remainder.
func split(total paidaction.Msat, count int) []paidaction.Msat {
	parts := slices.Repeat([]paidaction.Msat{total / paidaction.Msat(count)}, count)
	parts[count-1] += total % paidaction.Msat(count)
	return parts
}

// lookAgain tries again the payments that had no route yet, in the order in which they were given.
func (n *Node) lookAgain() {
	for _, p := range n.sentInOrder() {
		if p.Present.State == paidaction.PaymentInFlight && len(p.Parts) == 0 {
			n.attempt(p)
		}
	}
}

func (n *Node) sentInOrder() []*payment {
	all := make([]*payment, 0, len(n.payments))
	for _, p := range n.payments {
		all = append(all, p)
	}
	slices.SortFunc(all, func(a, b *payment) int { return int(a.id) - int(b.id) })
	return all
}

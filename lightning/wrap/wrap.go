// Package wrap holds the rules for payments that pass through us to a receiver's own wallet (spec 03 §3.2). The
// receiver's invoice is the inner one. We offer the payer the outer one, with the same hash and a larger amount. The
// outer is held until we have paid the inner, whose preimage settles it. The rules make sure that we never pay without
// being paid: in amounts, in time and in blocks.
//
// Nothing here asks a node or a clock. The caller gathers the facts; the answer is yes, with figures, or a *Violation.
// The rules are one table (rules.go).
package wrap

import (
	"math"
	"time"

	"github.com/a-seed-a7aed72f/holdfast/paidaction"
)

// Terms are what the outer invoice is made with, besides the amount that the payer owes.
type Terms struct {
	Expires   time.Time       // a moment and no duration, so that it stays right however long making the outer takes
	CLTVDelta uint32          // final CLTV in blocks
	Budget    paidaction.Msat // for routing. The outer minus inner and Budget is to be shared, and is never negative
}

// CheckInner checks whether an invoice of the receiver's wallet may be wrapped. Chain, Route, Held and Budget are not
// needed yet.
func (s Settings) CheckInner(f Facts) error { return s.check(Asked, f) }

// CheckAlone checks whether an invoice may be paid without an outer.
func (s Settings) CheckAlone(inner paidaction.Bolt11, now time.Time) error {
	return s.check(Alone, Facts{Inner: inner, Now: now})
}

// Probe is the request for a route to the receiver, to be made after CheckInner. bolt11 is the receiver's invoice. What
// a probe locks keeps to the same limits as the route itself.
func (s Settings) Probe(bolt11 string, f Facts) paidaction.RouteRequest {
	return paidaction.RouteRequest{Bolt11: bolt11, FeeLimit: budget(f.Outer, f.Inner.Amount), CLTVLimit: above(MaxOuterCLTV, s.cltvMargin())}
}

// Wrap returns the terms of the outer, for a route that the node estimated a moment ago. Held and Budget are not needed
// yet.
func (s Settings) Wrap(f Facts) (Terms, error) {
	if err := s.check(Routed, f); err != nil {
		return Terms{}, err
	}
	return Terms{
		Expires: f.Now.Add(outerExpiry(f.Inner.Expires, f.Now)), CLTVDelta: s.OuterCLTV(f.Route, f.Chain.Height),
		Budget: budget(f.Outer, f.Inner.Amount),
	}, nil
}

// Forward returns the payment of the inner; bolt11 is its invoice. Call it right before sending the payment, with the
// outer looked up after FORWARDING was committed. Route is no longer needed: the limits bind the node.
func (s Settings) Forward(bolt11 string, f Facts) (paidaction.PaymentRequest, error) {
	if err := s.check(Held, f); err != nil {
		return paidaction.PaymentRequest{}, err
	}
	return paidaction.PaymentRequest{Bolt11: bolt11, FeeLimit: f.Budget, Timeout: attemptTimeout, CLTVLimit: s.innerCLTV(f)}, nil
}

// budget is what routing may cost: a share of the outer, but at least minBudget, and never more than the outer minus
// the inner.
func budget(outer, inner paidaction.Msat) paidaction.Msat {
	share := outer/100*budgetPct + outer%100*budgetPct/100
	return max(min(max(share, minBudget), outer-inner), 0)
}

// outerExpiry is how long the payer has, in whole seconds: the inner outlives the outer by expiryMargin. It is zero or
// less if the inner expires too soon.
func outerExpiry(innerExpires, now time.Time) time.Duration {
	return (min(innerExpires.Sub(now), maxOuterLife) - expiryMargin).Truncate(time.Second)
}

// OuterCLTV is the final CLTV of the outer: the blocks for which the route locks our money, counted from the present
// height, plus the margin.
func (s Settings) OuterCLTV(r paidaction.Route, height uint32) uint32 {
	return min(above(r.Height, height), math.MaxUint32-s.cltvMargin()) + s.cltvMargin()
}

// innerCLTV is for how many blocks our money may be locked while the outer is held: the margin less than the payer's
// money is. For the payer's money we count the blocks that the parts of the outer have left, but no more than they were
// required to have.
//
// What the parts show is no limit: a payer may lock a part for longer, and the receiver's route would have all of that. To
// what is held by keysend, parts with fewer blocks could be added (rule KEYSEND). paddingCLTV is included because senders
// add it to what they are asked for.
func (s Settings) innerCLTV(f Facts) uint32 {
	return above(min(above(f.Held.ExpiryHeight, f.Chain.Height), f.OuterCLTV+paddingCLTV), s.cltvMargin())
}

// Late reports whether too few blocks are left to pay the inner while the outer is held. Of Inner only its final CLTV
// is needed.
func (s Settings) Late(f Facts) bool {
	return above(s.innerCLTV(f), paddingCLTV) <= f.Inner.CLTVDelta
}

// above is a - b, or 0 if b is larger.
func above(a, b uint32) uint32 { return max(a, b) - b }

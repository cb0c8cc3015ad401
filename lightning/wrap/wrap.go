// Package wrap holds the rules of payments that pass through us to a receiver's own wallet (spec 03 §3.2). The receiver's
// invoice is the inner one. We offer the payer the outer one, with the same hash and for more: it is held until we have paid
// the inner, whose preimage takes it. The rules keep us from paying without being paid: in amounts, in time and in blocks.
//
// Nothing here asks a node or a clock. The caller gathers the facts; the answer is yes with figures, or a *Violation.
package wrap

import (
	"math"
	"time"

	"github.com/a-seed-a7aed72f/holdfast/paidaction"
)

// Terms are what the outer invoice is made with, for the amount that the payer owes.
type Terms struct {
	Expiry    time.Duration   // whole seconds
	CLTVDelta uint32          // final CLTV in blocks
	Budget    paidaction.Msat // for routing. What the outer has above inner and budget is to be shared, and never negative
}

// CheckInner says whether an invoice of the receiver's wallet is fit to be wrapped. Chain, Route, Held and Budget are not
// needed yet.
func (s Settings) CheckInner(f Facts) error { return s.withDefaults().check(Asked, f) }

// CheckAlone says whether an invoice is fit to be paid without an outer around it.
func (s Settings) CheckAlone(inner paidaction.Bolt11) error {
	return s.withDefaults().check(Alone, Facts{Inner: inner})
}

// Probe asks for a way to the receiver, whose bolt11 is handed in, after CheckInner. What is locked while it is tried keeps to the limits that the way has to keep to.
func (s Settings) Probe(bolt11 string, f Facts) paidaction.RouteRequest {
	s = s.withDefaults()
	return paidaction.RouteRequest{Bolt11: bolt11, FeeLimit: s.Budget(f.Outer, f.Inner.Amount), CLTVLimit: above(s.MaxOuterCLTV, s.CLTVMargin)}
}

// Wrap gives the terms of the outer. Held and Budget are not needed yet. It is for a route that the node estimated a moment ago.
func (s Settings) Wrap(f Facts) (Terms, error) {
	s = s.withDefaults()
	if err := s.check(Routed, f); err != nil {
		return Terms{}, err
	}
	return Terms{
		Expiry: s.OuterExpiry(f.Inner.Expires, f.Now), CLTVDelta: s.OuterCLTV(f.Route, f.Chain.Height),
		Budget: s.Budget(f.Outer, f.Inner.Amount),
	}, nil
}

// Forward gives the payment of the inner, whose bolt11 is handed in. It is to be called right before the payment is sent, with
// the outer looked up after FORWARDING was committed. Route is not needed any more: the limits bind the node.
func (s Settings) Forward(bolt11 string, f Facts) (paidaction.PaymentRequest, error) {
	s = s.withDefaults()
	if err := s.check(Held, f); err != nil {
		return paidaction.PaymentRequest{}, err
	}
	return paidaction.PaymentRequest{
		Bolt11: bolt11, FeeLimit: f.Budget, Timeout: s.AttemptTimeout, MaxParts: s.MaxParts,
		CLTVLimit: s.InnerCLTV(f),
	}, nil
}

// Budget is what routing may cost: a share of the outer, but at least a sat, and never more than the outer has above the inner.
func (s Settings) Budget(outer, inner paidaction.Msat) paidaction.Msat {
	s = s.withDefaults()
	pct := paidaction.Msat(s.BudgetPct)
	share := outer/100*pct + outer%100*pct/100
	return max(min(max(share, s.MinBudget), outer-inner), 0)
}

// OuterExpiry is how long the payer has, in whole seconds: the inner outlives the outer by ExpiryMargin. Zero or less where the
// inner expires too soon.
func (s Settings) OuterExpiry(innerExpires, now time.Time) time.Duration {
	s = s.withDefaults()
	return (min(innerExpires.Sub(now), s.MaxOuterLife) - s.ExpiryMargin).Truncate(time.Second)
}

// OuterCLTV is the final CLTV of the outer: what the route locks our money for, from the present height on, and CLTVMargin.
func (s Settings) OuterCLTV(r paidaction.Route, height uint32) uint32 {
	s = s.withDefaults()
	blocks := min(above(r.Height, height), math.MaxUint32-s.CLTVMargin)
	return max(blocks+s.CLTVMargin, s.MinOuterCLTV)
}

// InnerCLTV is how many blocks our money may be locked for while the outer is held: CLTVMargin less than the payer's is, which is what its parts have left, but no
// more than what they had to have. A payer may lock a part for longer, and whoever knows the preimage, as the receiver does, can add parts to an outer that is
// held (keysend; LND's updateLegacy asks for no payment address then), each for as few blocks as the outer asks for. LND gives the whole outer back for the first
// of them, and after one that has gone back on chain it calls the outer settled all the same: what the first look at the parts says is no bound.
// Senders put PaddingCLTV on top of what they are asked for.
func (s Settings) InnerCLTV(f Facts) uint32 {
	s = s.withDefaults()
	return above(min(above(f.Held.ExpiryHeight, f.Chain.Height), f.OuterCLTV+s.PaddingCLTV), s.CLTVMargin)
}

// Late says whether too few blocks are left to pay the inner while the outer is held. Of Inner only its final CLTV is needed.
func (s Settings) Late(f Facts) bool {
	s = s.withDefaults()
	return above(s.InnerCLTV(f), s.PaddingCLTV) <= f.Inner.CLTVDelta
}

// above is a - b, or 0 where b is the larger.
func above(a, b uint32) uint32 { return max(a, b) - b }

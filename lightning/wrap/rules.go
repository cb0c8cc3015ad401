package wrap

import (
	"slices"
	"time"

	"github.com/a-seed-a7aed72f/holdfast/paidaction"
)

// Facts are what is known of a wrapped payment at the moment of a check. All but the amounts, OuterCLTV and Budget are
// looked up again for each check: what was true when the outer was made may no longer be true when the inner is about
// to be paid (spec 05.2).
type Facts struct {
	Inner     paidaction.Bolt11 // as decoded by the node that would pay it
	Requested paidaction.Msat   // what the receiver's wallet was asked for
	Outer     paidaction.Msat   // what the payer owes
	Own       bool              // a node of ours issued the inner: the key is ours, or one knows the hash other than by this outer
	HashUsed  bool              // another payment of ours was wrapped with this hash, at any time and on any node
	Now       time.Time

	Chain paidaction.Chain // of the node that would pay the inner
	Route paidaction.Route // from that node to the receiver

	Held      paidaction.NodeInvoice // the outer
	OuterCLTV uint32                 // its final CLTV in blocks, as it was made
	Budget    paidaction.Msat        // for routing, as set when the outer was made
}

// Stage says when a rule is checked.
type Stage uint8

// The stages of a wrapped payment.
const (
	Asked  Stage = 1 << iota // the receiver's wallet has issued the inner
	Routed                   // a route to the receiver is known, and the outer can be made
	Held                     // the outer is held, and the inner is about to be paid

	always = Asked | Routed | Held

	// Alone is for an invoice that is paid without an outer, as a withdrawal does; it is no stage of a wrapped payment.
	Alone Stage = 1 << 3
)

// Code names a rule by the way in which it is broken. Codes never change their meaning.
type Code string

// The codes of rules that concern the payer's payment rather than the invoice.
const (
	NotHeld     Code = "NOT_HELD"
	BlocksShort Code = "BLOCKS_SHORT"
	ByKeysend   Code = "KEYSEND"
)

// Expired is the code of the only rule of stage Held that depends on the clock.
const Expired Code = "EXPIRED"

// Rule must hold before we offer an outer for an invoice, or pay the invoice.
type Rule struct {
	Code  Code
	At    Stage
	Holds func(Settings, Facts) bool
	Why   string // what is wrong if it is broken
}

// Rules are all rules of spec 03 §3.2 that can be checked from facts, in the order in which they are checked. The
// network and the signature are the node's to check: it decodes no invoice with a wrong one.
var Rules = []Rule{
	{"NO_AMOUNT", always, func(_ Settings, f Facts) bool { return f.Inner.Amount > 0 },
		"the receiver's invoice names no amount"},
	{"AMP", always | Alone, func(_ Settings, f Facts) bool { return !asks(f.Inner, ampRequired) && !asks(f.Inner, ampOptional) },
		"an AMP invoice can be paid many times, each time with another hash"},
	// On a blinded path, LND applies no limit to the blocks for which it locks money: the receiver chooses them, and
	// could take the inner long after the outer was given back. If the invoice also has a payment secret, LND (0.21.3)
	// leaves the payment under way until it is restarted.
	{"BLINDED", always | Alone, func(_ Settings, f Facts) bool { return !f.Inner.Blinded },
		"it hides the receiver behind blinded paths, for which our node keeps to no limit of blocks"},
	{"NO_SECRET", always | Alone, func(_ Settings, f Facts) bool { return !f.Inner.Secretless },
		"it has no payment secret: our node refuses to pay it, and says so of no payment that could be looked up"},
	// LND (0.21.3) cannot make an onion for such a route. It leaves the payment under way, though nothing was sent,
	// until it is restarted.
	{"HINT_NOWHERE", always | Alone, func(_ Settings, f Facts) bool { return !f.Inner.HintsNowhere },
		"one of its hints names no channel: our node would never say that the payment failed"},
	// LND shows this preimage where it knows none, so a payment of this invoice would stay without one for ever. LND
	// refuses a hold invoice with its hash.
	{"ZERO_PREIMAGE", always | Alone, func(_ Settings, f Facts) bool { return f.Inner.Hash != paidaction.Preimage{}.Hash() },
		"its preimage is all zeroes, which everybody knows"},
	{"LOCKS_BEYOND_LND", Alone, func(_ Settings, f Facts) bool { return f.Inner.Locks()+3 < maxTotalTimelock },
		"it locks money for more blocks than our node allows"},
	// If the node loses its data, or the call is lost on its way there, the payment may arrive until the invoice has
	// expired, and whoever pays it waits for that. Who is paid chooses when: it could be in a century. Wallets choose an
	// hour to a week.
	{"EXPIRES_LATE", Alone, func(_ Settings, f Facts) bool { return f.Inner.Expires.Sub(f.Now) <= maxExpiryLeft },
		"it expires in more than 90 days: as long could the money be on its way, if our node loses its data"},
	{"UNKNOWN_FEATURE", always, func(_ Settings, f Facts) bool { return !slices.ContainsFunc(f.Inner.Features, unknown) },
		"the invoice asks for a feature that our node does not know"},
	// LND would refuse a probe as wrong, as if our node were to blame, and fail the payment that somebody is held for.
	{"FEATURES_INCOMPLETE", always, func(_ Settings, f Facts) bool { return !f.Inner.Incomplete },
		"it does not offer payment secrets, or all that its features build on: our node finds no route to it"},
	{"TOO_SMALL", always, func(_ Settings, f Facts) bool { return f.Inner.Amount == 0 || f.Inner.Amount >= minAmount },
		"the amount is too small to be worth a route"},
	{"TOO_LARGE", always, func(_ Settings, f Facts) bool { return f.Inner.Amount <= maxAmount },
		"the amount is larger than what we let one payment bind"},
	{Code(paidaction.CodeAboveRequest), always, func(_ Settings, f Facts) bool { return f.Inner.Amount <= f.Requested },
		"the receiver asks for more than they are to get"},
	{"BELOW_REQUEST", always, func(_ Settings, f Facts) bool { return f.Requested-f.Inner.Amount < sat },
		"the invoice is short by more than the part of a sat that a wallet may truncate"},
	{"ABOVE_OUTER", Asked | Routed, func(_ Settings, f Facts) bool { return f.Inner.Amount <= f.Outer },
		"we would pay more than we are paid"},
	{"OURS", always, func(_ Settings, f Facts) bool { return !f.Own },
		"one of our own nodes issued the invoice: its node has one invoice for a hash, and we would pay ourselves"},
	{"HASH_USED", always, func(_ Settings, f Facts) bool { return !f.HashUsed },
		"a payment with this hash exists: its preimage may be known, and would take the outer without paying the receiver"},

	{"LOCKS_TOO_LONG", Asked, func(s Settings, f Facts) bool { return f.Inner.Locks()+uint64(s.cltvMargin()) <= MaxOuterCLTV },
		"every route to it locks money for too many blocks; a probe would already"},
	{"HINTS_TOO_DEAR", Asked, func(_ Settings, f Facts) bool { return f.Inner.HintsFee <= budget(f.Outer, f.Inner.Amount) },
		"what its hints charge is more than the budget; a probe would already lock it"},
	{"EXPIRES_SOON", Asked, func(_ Settings, f Facts) bool { return f.Inner.Expires.Sub(f.Now) >= minExpiryLeft },
		"the invoice expires too soon to find a route, be paid and be forwarded"},
	{"OUTER_TOO_SHORT", Routed, func(_ Settings, f Facts) bool { return outerExpiry(f.Inner.Expires, f.Now) >= minOuterLife },
		"too little time is left for the payer; and LND reads 0 as a day"},

	{"NODE_BEHIND", Routed | Held, func(_ Settings, f Facts) bool { return f.Chain.Synced },
		"the node is behind the chain: it counts blocks from the wrong height, and is given nothing new"},
	{"ROUTE_IMPOSSIBLE", Routed, func(_ Settings, f Facts) bool {
		return f.Route.Fee >= 0 && above(f.Route.Height, f.Chain.Height) >= f.Inner.CLTVDelta
	}, "the route ends before the invoice allows it to: a failed probe returns zeros"},
	{"ROUTE_TOO_DEAR", Routed, func(_ Settings, f Facts) bool { return f.Route.Fee <= budget(f.Outer, f.Inner.Amount) },
		"the route costs more than the budget: a receiver could drain us through a node of theirs"},
	{"LOCKED_TOO_LONG", Routed, func(s Settings, f Facts) bool { return s.OuterCLTV(f.Route, f.Chain.Height) <= MaxOuterCLTV },
		"the payer's money would be locked for too many blocks"},

	{NotHeld, Held, func(_ Settings, f Facts) bool { return f.Held.State == paidaction.InvoiceAccepted },
		"the outer is not held now: nobody would pay us back"},
	{"ANOTHER_HASH", Held, func(_ Settings, f Facts) bool { return f.Held.Hash == f.Inner.Hash },
		"the preimage that is paid for would not take the outer"},
	{"UNDERPAID", Held, func(_ Settings, f Facts) bool { return f.Held.Received >= f.Outer },
		"less is held than the payer owes"},
	// LND (0.21.3) adds further keysend parts to what is held by one, but none to what is held by parts that were paid with
	// the invoice. From a channel that was closed by force such a part may have hardly a block left, or none: LND takes it
	// all the same, counts it as received, and after a restart gives everything back for it.
	{ByKeysend, Held, func(_ Settings, f Facts) bool { return f.Held.Keysend == 0 },
		"it was paid by somebody who knows the preimage, and can add to it what never arrives"},
	{"BUDGET_TOO_LARGE", Held, func(_ Settings, f Facts) bool { return f.Budget >= 0 && f.Budget <= f.Outer-f.Inner.Amount },
		"routing could cost more than the outer has above the inner"},
	{BlocksShort, Held, func(s Settings, f Facts) bool { return !s.Late(f) },
		"too few blocks are left: the receiver could take the inner after we have lost the outer"},
	{Expired, Held, func(_ Settings, f Facts) bool { return f.Inner.Expires.Sub(f.Now) > attemptTimeout },
		"the invoice expires before the last attempt to pay it"},
}

// maxTotalTimelock is LND's max-cltv-expiry. LND refuses to send what could be locked for longer, and then knows of no
// such payment.
const maxTotalTimelock = 2016

// Feature bits (BOLT 9).
const (
	ampRequired = 30
	ampOptional = 31
)

// offers are optional features that LND does not know, but we do: the receiver's node offers to find the route for its
// payer, and can be paid without it. Phoenix sets them in every invoice.
var offers = []uint32{
	57,  // trampoline_payment
	149, // the same, before it was given its number
}

// unknown reports whether neither our node nor we know the meaning of a feature. BOLT 9 lets a payer ignore an odd one,
// but we stand between two parties: what we do not understand, we do not wrap.
func unknown(f paidaction.Feature) bool { return !f.Known && !slices.Contains(offers, f.Bit) }

func asks(inner paidaction.Bolt11, bit uint32) bool {
	return slices.ContainsFunc(inner.Features, func(f paidaction.Feature) bool { return f.Bit == bit })
}

// Violation is the error for a broken rule.
type Violation struct {
	Code Code
	Why  string
}

func (v *Violation) Error() string { return string(v.Code) + ": " + v.Why }

// check returns the first broken rule of a stage, as an error.
func (s Settings) check(stage Stage, f Facts) error {
	for _, r := range Rules {
		if r.At&stage != 0 && !r.Holds(s, f) {
			return &Violation{r.Code, r.Why}
		}
	}
	return nil
}

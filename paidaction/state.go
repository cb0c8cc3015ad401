package paidaction

import (
	"slices"

	"github.com/a-seed-a7aed72f/holdfast/ledger"
)

// State says who has to move next. The names are part of the public contract: the GraphQL enum, the Postgres enum, logs
// and metrics use them unchanged (spec 01 §1.1).
type State string

// The states. Beginning stands for an action that has no row yet; it is never stored.
const (
	Beginning     State = ""
	Pending       State = "PENDING"        // performed, visible only to the payer, invoice open: the payer moves
	PendingHeld   State = "PENDING_HELD"   // hold invoice open: the payer moves
	Held          State = "HELD"           // payment held, action performed, settle under way: we move
	Forwarding    State = "FORWARDING"     // outgoing payment sent or about to be: the outgoing node moves
	Forwarded     State = "FORWARDED"      // outgoing payment succeeded: we have to settle the incoming one
	FailedForward State = "FAILED_FORWARD" // outgoing payment failed for good: we give the money back
	Canceling     State = "CANCELING"      // cancelling the incoming invoice is under way: we move
	Paid          State = "PAID"           // settled; OnPaid has run
	Failed        State = "FAILED"         // not paid; OnFail has run; the payer may retry
	Retrying      State = "RETRYING"       // a successor attempt exists
)

// States are all states a row can have, in the order of the Postgres enum.
var States = []State{Pending, PendingHeld, Held, Forwarding, Forwarded, FailedForward, Canceling, Paid, Failed, Retrying}

// Terminal reports whether nobody has to move any more (a payer may still retry a FAILED action).
func (s State) Terminal() bool { return s == Paid || s == Failed || s == Retrying }

// Ours reports whether the next move is ours. Entering such a state always stores a job that makes it (see Owed).
func (s State) Ours() bool {
	return slices.Contains([]State{Held, Forwarding, Forwarded, FailedForward, Canceling}, s)
}

// Driven reports whether Drive makes the next move at once, right after the step: a job stands by, and it needs no news
// of the invoice. FORWARDING waits for the relay.
func (s State) Driven() bool { return s.Ours() && s != Forwarding }

// Flow is the path of an action through the machine. It follows from the payment method and never changes.
type Flow string

// The flows of spec 01 §1.2.
const (
	FlowBalance     Flow = "BALANCE"     // zero cost, credits or sats: one transaction
	FlowOptimistic  Flow = "OPTIMISTIC"  // performed now, plain invoice
	FlowPessimistic Flow = "PESSIMISTIC" // hold invoice, performed once the payment is held
	FlowWrapped     Flow = "WRAPPED"     // hold invoice around a receiver's invoice
	FlowOutgoing    Flow = "OUTGOING"    // a withdrawal
)

// Flows are all flows, in the order of the Postgres enum.
var Flows = []Flow{FlowBalance, FlowOptimistic, FlowPessimistic, FlowWrapped, FlowOutgoing}

// Method is how an action is paid (spec 02 §2.1).
type Method string

// The payment methods.
const (
	ZeroCost    Method = "ZERO_COST"
	P2P         Method = "P2P"
	FeeCredit   Method = "FEE_CREDIT"
	RewardSats  Method = "REWARD_SATS"
	Optimistic  Method = "OPTIMISTIC"
	Pessimistic Method = "PESSIMISTIC"
	Outgoing    Method = "OUTGOING"
)

// Methods are all payment methods, in the order of the Postgres enum.
var Methods = []Method{ZeroCost, P2P, FeeCredit, RewardSats, Optimistic, Pessimistic, Outgoing}

// Flow returns the flow that this method takes.
func (m Method) Flow() Flow {
	switch m {
	case Optimistic:
		return FlowOptimistic
	case Pessimistic:
		return FlowPessimistic
	case P2P:
		return FlowWrapped
	case Outgoing:
		return FlowOutgoing
	default:
		return FlowBalance
	}
}

// hasInvoice reports whether the payer is given an invoice of ours. The other methods pay from a balance or cost
// nothing.
func (m Method) hasInvoice() bool { return m.Flow() != FlowBalance && m != Outgoing }

// open reports whether a payer may use this method at all. Whether the balance suffices shows when it is debited.
func (m Method) open(payer *int64) bool {
	switch m {
	case FeeCredit, RewardSats, Optimistic, Outgoing:
		return payer != nil
	default:
		return true
	}
}

// source is the account that this method takes the money from.
func (m Method) source(payer *int64) ledger.Account {
	switch m {
	case FeeCredit:
		return ledger.UserCredits(*payer)
	case RewardSats, Outgoing:
		return ledger.UserSats(*payer)
	default:
		return ledger.Lightning
	}
}

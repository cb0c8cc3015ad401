package paidaction

import "slices"

// State says who has to move next. The names are part of the public contract: the GraphQL enum, the Postgres enum, logs
// and metrics use them as they are (spec 01 §1.1).
type State string

// The states. Beginning is the time before there is a row; it is never stored.
const (
	Beginning     State = ""
	Pending       State = "PENDING"        // performed, seen by the payer alone, invoice open: the payer moves
	PendingHeld   State = "PENDING_HELD"   // hold invoice open: the payer moves
	Held          State = "HELD"           // payment held, action performed, settle under way: we move
	Forwarding    State = "FORWARDING"     // outgoing payment dispatched or about to be: the outgoing node moves
	Forwarded     State = "FORWARDED"      // outgoing succeeded: we owe ourselves the settling of the incoming
	FailedForward State = "FAILED_FORWARD" // outgoing failed for good: we give the money back
	Canceling     State = "CANCELING"      // cancel of the incoming invoice under way: we move
	Paid          State = "PAID"           // settled; OnPaid has run
	Failed        State = "FAILED"         // not paid; OnFail has run; the payer may retry
	Retrying      State = "RETRYING"       // a successor attempt exists
)

// States are all states a row can have, in the order of the Postgres enum.
var States = []State{Pending, PendingHeld, Held, Forwarding, Forwarded, FailedForward, Canceling, Paid, Failed, Retrying}

// Terminal is true where nobody has to move any more (the payer may still retry what FAILED).
func (s State) Terminal() bool { return s == Paid || s == Failed || s == Retrying }

// OwesCall is true where the next move is a call of ours to the node: entering such a state always leaves a job behind
// that makes it.
func (s State) OwesCall() bool {
	return slices.Contains([]State{Held, Forwarding, Forwarded, FailedForward, Canceling}, s)
}

// Driven says whether the state owes a call that whoever brought the action here makes at once: a job stands by, and no news of the invoice
// is needed. FORWARDING waits for the relay.
func (s State) Driven() bool { return s.OwesCall() && s != Forwarding }

// Flow is the way an action takes through the machine; it follows from the payment method and never changes.
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

// Flow is the flow this method takes.
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

// hasInvoice says whether the payer is given an invoice of ours. All others pay from a balance, or nothing.
func (m Method) hasInvoice() bool { return m.Flow() != FlowBalance && m != Outgoing }

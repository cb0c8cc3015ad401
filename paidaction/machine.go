package paidaction

// Fact is something that has happened: the node reported it, the clock or the chain shows it, or a person asked for it.
// A fact is established before the transaction that acts on it (spec 01 §1.3).
type Fact string

// The facts that move an action.
const (
	Requested         Fact = "REQUESTED"        // a person asked for the action
	InvoiceIsPaid     Fact = "INVOICE_SETTLED"  // the node says SETTLED, and the payment has arrived (Awaits)
	InvoiceIsHeld     Fact = "INVOICE_ACCEPTED" // the node says ACCEPTED, with enough blocks left
	InvoiceIsGone     Fact = "INVOICE_CANCELED" // the node says CANCELED
	NeverIssued       Fact = "NEVER_ISSUED"     // no invoice was issued in time, and nobody was given one
	DeadlinePassed    Fact = "DEADLINE_PASSED"  // the clock: the payer did not pay in time
	CancelRequested   Fact = "CANCEL_REQUESTED" // the payer gave up
	PerformRefused    Fact = "PERFORM_REFUSED"  // the payment is held, but the action cannot be performed
	TooFewBlocks      Fact = "TOO_FEW_BLOCKS"   // the HTLC safety height is reached, and no settle has been permitted
	RetryRequested    Fact = "RETRY_REQUESTED"  // the payer tries again
	OutgoingPaid      Fact = "OUTGOING_PAID"    // the outgoing payment's preimage is known
	OutgoingRefused   Fact = "OUTGOING_REFUSED" // the outgoing payment failed for good (spec 01 §1.6)
	IncomingLost      Fact = "INCOMING_LOST"    // the node gave the held payment back before we settled it
	IncomingSettled   Fact = "INCOMING_SETTLED" // the wrapped invoice is settled with the receiver's preimage
	BalanceWasDebited Fact = "BALANCE_DEBITED"  // there is no incoming invoice: the payer's balance was debited
	WrittenOff        Fact = "WRITTEN_OFF"      // an operator: it was done, or its receiver paid, and the node that could tell more has lost its data
	GivenUp           Fact = "GIVEN_UP"         // an operator: the node that issued the invoice has lost its data, and the invoice has expired; or the payment never arrived (onchain.go)
	PaidInside        Fact = "PAID_INSIDE"      // a withdrawal from here pays this invoice: no node may take a payment for it
)

// Effect is what the transaction of a step does besides moving the state.
type Effect string

// The effects. The first group is implemented in begin.go, effect.go and retry.go; the effects of the wrapped and the
// outgoing flow are in forward.go, outgoing.go and writeoff.go.
const (
	Nothing       Effect = ""
	PerformAndPay Effect = "perform, debit, onPaid" // all at once, from a balance
	PerformAction Effect = "perform"                // as pending: it counts only once it is paid
	BookAndFinish Effect = "book the money, onPaid" // hand what was received to its recipients
	UndoIfDone    Effect = "onFail if performed"    // nothing was booked yet, so there is no money to move
	HandOver      Effect = "begin the successor"    // in the same transaction as the successor's first step

	ClaimForward  Effect = "claim the outgoing payment, perform for the anonymous"
	StorePreimage Effect = "store the preimage"
	DebitAndClaim Effect = "debit, claim the outgoing payment"
	BookLoss      Effect = "book the loss, onPaid"
	Refund        Effect = "give the debit back, onFail"
)

// Call is what has to be asked of a node once a step has committed, until the action moves on. It is made outside any
// transaction and may be repeated.
type Call string

// The calls.
const (
	NoCall        Call = ""
	IssueInvoice  Call = "issue the invoice"
	SettleInvoice Call = "settle the invoice"
	CancelInvoice Call = "cancel the invoice"
	SendPayment   Call = "send, then track the outgoing payment"
	AskCost       Call = "ask what the outgoing payment has cost"
	LookUpInvoice Call = "look the invoice up"
)

// Step is one row of the machine: in this flow, from this state, this fact leads to that state.
type Step struct {
	Flow   Flow
	From   State
	When   Fact
	To     State
	Effect Effect // in the transaction that moves the state
	Then   Call   // owed after the commit: the same for all steps into a state, see Owed
	// What brings the action on after a crash, whether the process died before or after this step.
	Recovery string
}

const (
	again   = "nothing is stored: the caller asks again with the same key"
	event   = "the node's stream resumes at its cursor; the sweep looks the invoice up"
	timer   = "the job at the deadline; the sweep"
	owed    = "the job stored with the state makes the call again; the sweep"
	watched = "the watchdog looks the hash up at the node, and fails what was never issued"
	asked   = "the caller asks again"
	blocks  = "the block watcher starts with the present height; the sweep"
)

// Machine is the paid-action state machine: the complete set of steps (spec 01 §1.2). The code obeys it, the database
// refuses to move an action between any other states (migration 4), and the diagram in docs/ is drawn from it. Tests
// hold these against each other.
//
// Three things look like mistakes but are not:
//
//   - CANCELING → PAID: a plain invoice can be paid between our decision to cancel and the node's answer. The money has
//     arrived, so the action counts. The same holds where a withdrawal from here pays the invoice.
//   - FAILED → RETRYING for pessimistic actions: they may be retried, too.
//   - FORWARDING can be left only through FORWARDED or FAILED_FORWARD: nobody can cancel while our money may be on its
//     way.
var Machine = []Step{
	// From a balance, or for nothing: one transaction.
	{FlowBalance, Beginning, Requested, Paid, PerformAndPay, NoCall, again},

	// Optimistic: performed now, paid later.
	{FlowOptimistic, Beginning, Requested, Pending, PerformAction, IssueInvoice, watched},
	{FlowOptimistic, Pending, InvoiceIsPaid, Paid, BookAndFinish, NoCall, event},
	{FlowOptimistic, Pending, InvoiceIsGone, Failed, UndoIfDone, NoCall, timer},
	{FlowOptimistic, Pending, NeverIssued, Failed, UndoIfDone, NoCall, watched},
	{FlowOptimistic, Pending, DeadlinePassed, Canceling, Nothing, CancelInvoice, timer},
	{FlowOptimistic, Pending, CancelRequested, Canceling, Nothing, CancelInvoice, asked},
	{FlowOptimistic, Pending, PaidInside, Canceling, Nothing, CancelInvoice, owed},
	{FlowOptimistic, Canceling, PaidInside, Paid, BookAndFinish, NoCall, owed},
	{FlowOptimistic, Canceling, InvoiceIsGone, Failed, UndoIfDone, NoCall, owed},
	{FlowOptimistic, Canceling, NeverIssued, Failed, UndoIfDone, NoCall, owed},
	{FlowOptimistic, Canceling, InvoiceIsPaid, Paid, BookAndFinish, NoCall, owed},
	{FlowOptimistic, Pending, GivenUp, Failed, UndoIfDone, NoCall, asked},
	{FlowOptimistic, Canceling, GivenUp, Failed, UndoIfDone, NoCall, asked},
	{FlowOptimistic, Failed, RetryRequested, Retrying, HandOver, NoCall, asked},

	// Pessimistic: held first, performed before the preimage is revealed (spec 01 §1.5).
	{FlowPessimistic, Beginning, Requested, PendingHeld, Nothing, IssueInvoice, watched},
	{FlowPessimistic, PendingHeld, InvoiceIsHeld, Held, PerformAction, SettleInvoice, event},
	{FlowPessimistic, PendingHeld, InvoiceIsGone, Failed, UndoIfDone, NoCall, timer},
	{FlowPessimistic, PendingHeld, NeverIssued, Failed, UndoIfDone, NoCall, watched},
	{FlowPessimistic, PendingHeld, DeadlinePassed, Canceling, Nothing, CancelInvoice, timer},
	{FlowPessimistic, PendingHeld, CancelRequested, Canceling, Nothing, CancelInvoice, asked},
	{FlowPessimistic, PendingHeld, PerformRefused, Canceling, Nothing, CancelInvoice, event},
	{FlowPessimistic, PendingHeld, TooFewBlocks, Canceling, Nothing, CancelInvoice, blocks},
	{FlowPessimistic, Held, InvoiceIsPaid, Paid, BookAndFinish, NoCall, owed},
	{FlowPessimistic, Held, TooFewBlocks, Canceling, Nothing, CancelInvoice, blocks},
	{FlowPessimistic, Held, InvoiceIsGone, Failed, UndoIfDone, NoCall, owed},
	{FlowPessimistic, Held, WrittenOff, Paid, BookLoss, NoCall, asked},
	{FlowPessimistic, Canceling, InvoiceIsGone, Failed, UndoIfDone, NoCall, owed},
	{FlowPessimistic, Canceling, NeverIssued, Failed, UndoIfDone, NoCall, owed},
	{FlowPessimistic, PendingHeld, GivenUp, Failed, UndoIfDone, NoCall, asked},
	{FlowPessimistic, Canceling, GivenUp, Failed, UndoIfDone, NoCall, asked},
	{FlowPessimistic, Failed, RetryRequested, Retrying, HandOver, NoCall, asked},

	// Wrapped: the payer's payment is held while we pay the receiver with the same hash (spec 03).
	{FlowWrapped, Beginning, Requested, PendingHeld, PerformAction, IssueInvoice, watched},
	{FlowWrapped, PendingHeld, InvoiceIsHeld, Forwarding, ClaimForward, SendPayment, event},
	{FlowWrapped, PendingHeld, InvoiceIsGone, Failed, UndoIfDone, NoCall, timer},
	{FlowWrapped, PendingHeld, NeverIssued, Failed, UndoIfDone, NoCall, watched},
	{FlowWrapped, PendingHeld, DeadlinePassed, Canceling, Nothing, CancelInvoice, timer},
	{FlowWrapped, PendingHeld, CancelRequested, Canceling, Nothing, CancelInvoice, asked},
	{FlowWrapped, PendingHeld, PerformRefused, Canceling, Nothing, CancelInvoice, event},
	{FlowWrapped, PendingHeld, TooFewBlocks, Canceling, Nothing, CancelInvoice, blocks},
	{FlowWrapped, Forwarding, OutgoingPaid, Forwarded, StorePreimage, SettleInvoice, owed},
	{FlowWrapped, Forwarding, OutgoingRefused, FailedForward, Nothing, LookUpInvoice, owed},
	{FlowWrapped, Forwarded, IncomingSettled, Paid, BookAndFinish, NoCall, owed},
	{FlowWrapped, Forwarded, IncomingLost, Paid, BookLoss, NoCall, owed},
	{FlowWrapped, Forwarded, WrittenOff, Paid, BookLoss, NoCall, asked},
	{FlowWrapped, FailedForward, InvoiceIsHeld, Canceling, Nothing, CancelInvoice, owed},
	{FlowWrapped, FailedForward, InvoiceIsGone, Failed, UndoIfDone, NoCall, owed},
	{FlowWrapped, Canceling, InvoiceIsGone, Failed, UndoIfDone, NoCall, owed},
	{FlowWrapped, Canceling, NeverIssued, Failed, UndoIfDone, NoCall, owed},
	{FlowWrapped, PendingHeld, GivenUp, Failed, UndoIfDone, NoCall, asked},
	{FlowWrapped, FailedForward, GivenUp, Failed, UndoIfDone, NoCall, asked},
	{FlowWrapped, Canceling, GivenUp, Failed, UndoIfDone, NoCall, asked},
	{FlowWrapped, Failed, RetryRequested, Retrying, HandOver, NoCall, asked},

	// Outgoing only: a withdrawal.
	{FlowOutgoing, Beginning, Requested, Forwarding, DebitAndClaim, SendPayment, again},
	{FlowOutgoing, Forwarding, OutgoingPaid, Forwarded, StorePreimage, AskCost, owed},
	{FlowOutgoing, Forwarding, OutgoingRefused, FailedForward, Nothing, NoCall, owed},
	{FlowOutgoing, Forwarded, BalanceWasDebited, Paid, BookAndFinish, NoCall, owed},
	{FlowOutgoing, Forwarded, WrittenOff, Paid, BookLoss, NoCall, asked},
	{FlowOutgoing, FailedForward, BalanceWasDebited, Failed, Refund, NoCall, owed},
}

// FindStep returns the step that fact causes in this flow and state, if there is one.
func FindStep(flow Flow, from State, fact Fact) (Step, bool) {
	for _, s := range Machine {
		if s.Flow == flow && s.From == from && s.When == fact {
			return s, true
		}
	}
	return Step{}, false
}

// Owed returns what an action of this flow and in this state has to ask of a node. An action that waits for its payer
// owes its invoice, until it is issued.
func Owed(flow Flow, s State) Call {
	for _, step := range Machine {
		if step.Flow == flow && step.To == s {
			return step.Then
		}
	}
	return NoCall
}

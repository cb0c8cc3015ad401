package paidaction

import (
	"context"
	"slices"
)

// Action is one kind of thing a person can do that costs money. A holds its arguments and R its result; both are stored
// as JSON for pessimistic execution and retries, and later versions of the program read them. A hash of A is stored
// with the idempotency key, so a field added later must be omitted from the JSON while it is not set: otherwise the
// same request, repeated after an upgrade, would count as another one. Embed Base for the methods that an action does
// not need.
//
// Every method runs inside a READ COMMITTED transaction that commits together with the money. Lock whatever you read in
// order to write it, rows in the order user, item, anything else, each by ascending id; move counters by relative
// updates (spec 01 §1.4). A refusal (an *Error) is told to the payer as it is. Any other error is a fault: it is
// logged, and nobody is told of it. Both undo everything.
type Action[A, R any] interface {
	// Spec says what the action is and how it may be paid.
	Spec() Spec
	// Check refuses arguments that can be refused without looking at the database.
	Check(args A) error
	// Cost is the price in msat, zero or more, computed under the locks that keep it true until the commit.
	Cost(ctx context.Context, tx *Tx, args A) (Msat, error)
	// Perform does the action as pending: visible only to the payer. It posts nothing spendable and nothing
	// irrevocable.
	Perform(ctx context.Context, tx *Tx, args A) (R, error)
	// OnPaid makes the action count, and hands out all of tx.Cost through tx.Pay.
	OnPaid(ctx context.Context, tx *Tx, args A, result R) error
	// OnFail undoes Perform: what it made is no longer pending, and others have never seen it.
	OnFail(ctx context.Context, tx *Tx, args A, result R) error
	// Retry points what an earlier attempt (tx.Previous) made to the new one (tx.Action), and marks it pending again.
	// Where no method of the action performs it before payment, the engine calls Perform again instead.
	Retry(ctx context.Context, tx *Tx, args A, result R) (R, error)
	// Describe is what the payer's wallet shows: its first MaxMemo bytes, cut at a whole character.
	Describe(args A) string
}

// AfterPaid is implemented by actions that have something to do once the payment is committed and final, such as
// notifying people. It runs as a job at least once, so it must be repeatable; it can neither delay nor fail the
// payment. Actions that are paid together have Grouped.AfterPaidTogether instead.
type AfterPaid[A, R any] interface {
	AfterPaid(ctx context.Context, tx *Tx, args A, result R) error
}

// Hashed is implemented by actions whose invoices can carry the SHA-256 of a longer description instead of what
// Describe returns (BOLT 11, field h). Zero means that this invoice does not. A receiver's wallet that is paid directly
// is given what Describe returns in any case.
type Hashed[A any] interface {
	DescriptionHash(args A) [32]byte
}

// Peer is a person whom a payer can pay directly, rather than out of what Holdfast received.
type Peer struct {
	Receiver int64
	Share    Msat // of the price
	Fee      Msat // of the price, for those who are no peers: no routing fee is paid from it
}

// Peered is implemented by actions whose price belongs, at least in part, to people (spec 02 §2.1, P2P). The engine
// tries the peers in order; one is paid directly, and OnPaid pays the others their share. The routing budget comes out
// of what remains of the price after tx.Forward: OnPaid takes it from the part that belongs to nobody in particular.
type Peered[A any] interface {
	Peers(ctx context.Context, tx *Tx, args A) ([]Peer, error)
}

// Outbound is implemented by actions that pay somebody outside (method Outgoing). Their cost is tx.Payout, which is
// debited when they begin: OnPaid hands out nothing more.
type Outbound[A any] interface {
	Payee(args A) Payee
}

// Spec is what an action is and how it may be paid.
type Spec struct {
	Kind     string   // stable name, for example "ZAP": stored, and shown to clients
	Methods  []Method // in the order in which they are tried (spec 02 §2.1)
	Anonable bool     // may be done without signing in
	Free     bool     // may cost nothing
	// Again: if the receiver could not be paid, the next attempt is prepared without being asked for, and the payer's
	// client pays it. Spec 01 §1.7 names five kinds. It has an effect on those with P2P alone, so far ZAP; the others
	// have no such receiver, and follow if they get P2P.
	Again bool
	// Together: several of these may take a step in one transaction. The action is Grouped.
	Together bool
}

// keeps reports whether the next attempt takes over what an earlier one performed (Retry), whatever methods the two
// use. That is so where the action can be performed before it is paid: its payer sees the result as failed, with a way
// to try again. One thing that somebody does stays one thing, however many attempts it takes.
func (s Spec) keeps() bool {
	return slices.ContainsFunc(s.Methods, func(m Method) bool { return m == Optimistic || m == P2P })
}

// Base is embedded by actions that have no use for some of the methods.
type Base[A, R any] struct{}

// Check accepts everything.
func (Base[A, R]) Check(A) error { return nil }

// OnFail does nothing.
func (Base[A, R]) OnFail(context.Context, *Tx, A, R) error { return nil }

// Retry keeps the result.
func (Base[A, R]) Retry(_ context.Context, _ *Tx, _ A, result R) (R, error) { return result, nil }

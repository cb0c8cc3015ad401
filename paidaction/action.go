package paidaction

import (
	"context"
	"slices"
)

// Action is one kind of thing a person can do that costs money. A is what they say, R what comes of it; both are stored as
// JSON, for pessimistic execution and for retries, and read by later programs. An idempotency key goes with a hash of A: a field that is added later is
// omitted while it is not given, or a request that is repeated after an upgrade would be another one. Embed Base for what an action does not need.
//
// Every method runs inside a READ COMMITTED transaction that commits together with the money. What is read in order to be
// written must be locked first, rows in the order user, item, anything else, each by ascending id; counters move by
// relative updates (spec 01 §1.4). A refusal (an *Error) is told to the payer as it is; any other error is a fault, is
// logged, and reaches nobody. Both undo everything.
type Action[A, R any] interface {
	// Spec says what the action is and how it may be paid.
	Spec() Spec
	// Check refuses arguments that can be refused without a look at the database.
	Check(args A) error
	// Cost is the price in msat, at or above zero, computed under whatever locks make it true until the commit.
	Cost(ctx context.Context, tx *Tx, args A) (Msat, error)
	// Perform does the action as pending: seen by the payer alone. It posts nothing spendable and nothing irrevocable.
	Perform(ctx context.Context, tx *Tx, args A) (R, error)
	// OnPaid makes the action count, and hands out all of tx.Cost through tx.Pay.
	OnPaid(ctx context.Context, tx *Tx, args A, result R) error
	// OnFail undoes Perform: what it made is no longer pending, and was never seen by others.
	OnFail(ctx context.Context, tx *Tx, args A, result R) error
	// Retry points what an earlier attempt (tx.Previous) made to the new one (tx.Action), and marks it pending again. An action that no method performs before it
	// is paid is performed afresh in place of it.
	Retry(ctx context.Context, tx *Tx, args A, result R) (R, error)
	// Describe is what the payer's wallet shows: the first MaxMemo bytes of it, in whole characters.
	Describe(args A) string
}

// AfterPaid is implemented by actions that have something to do once the payment is final and committed, such as telling
// people. It runs as a job, at least once, and so must be repeatable; it can neither delay nor fail the payment. Those that are paid together have
// Grouped.AfterPaidTogether.
type AfterPaid[A, R any] interface {
	AfterPaid(ctx context.Context, tx *Tx, args A, result R) error
}

// Hashed is implemented by actions whose invoices can carry the SHA-256 of a longer description in place of what Describe says (BOLT 11,
// field h). Zero: this one does not. A receiver's wallet that is paid directly is told what Describe says all the same.
type Hashed[A any] interface {
	DescriptionHash(args A) [32]byte
}

// Peer is a person who can be paid directly by a payer, instead of from what Holdfast received.
type Peer struct {
	Receiver int64
	Share    Msat // of the price
}

// Peered is implemented by actions whose price belongs, at least in part, to people (spec 02 §2.1, P2P). The engine tries the peers in
// their order; one is paid directly, and OnPaid hands the others their share. What is left of the price after tx.Forward is less by
// the routing budget: OnPaid takes that from what is nobody's in particular.
type Peered[A any] interface {
	Peers(ctx context.Context, tx *Tx, args A) ([]Peer, error)
}

// Outbound is implemented by actions that pay somebody outside (method Outgoing). Their cost is tx.Payout.
type Outbound[A any] interface {
	Payee(args A) Payee
}

// Spec is what an action is and how it may be paid.
type Spec struct {
	Kind     string   // stable name, for example "ZAP": stored, and shown to clients
	Methods  []Method // in the order in which they are tried (spec 02 §2.1)
	Anonable bool     // may be done without signing in
	Free     bool     // may cost nothing
	// Again: where its receiver could not be paid, the next attempt is prepared without being asked for, and its payer's client pays
	// it (spec 01 §1.7).
	Again bool
	// Together: several of it may take a step in one transaction. The action is Grouped.
	Together bool
}

// keeps says whether what one attempt has performed is pointed to the next one (Retry), by whatever methods the two are: there it can be performed before
// it is paid, and its payer sees what they made as failed, with a way to try again. One thing that somebody does is one thing, however many attempts it takes.
func (s Spec) keeps() bool {
	return slices.ContainsFunc(s.Methods, func(m Method) bool { return m == Optimistic || m == P2P })
}

// Base is embedded by actions that have no use for some of the methods.
type Base[A, R any] struct{}

// Check accepts everything.
func (Base[A, R]) Check(A) error { return nil }

// OnPaid does nothing.
func (Base[A, R]) OnPaid(context.Context, *Tx, A, R) error { return nil }

// OnFail does nothing.
func (Base[A, R]) OnFail(context.Context, *Tx, A, R) error { return nil }

// Retry keeps the result.
func (Base[A, R]) Retry(_ context.Context, _ *Tx, _ A, result R) (R, error) { return result, nil }

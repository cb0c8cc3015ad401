// Package paidaction is the heart of Holdfast: an engine that lets any action of an application cost money, so that data
// and money always agree. The action happens exactly once if it was paid, and the money returns if it did not happen.
//
// An application implements Action, once per kind of thing that costs money, and hands the implementations to New. The
// engine walks the payment methods (pay.go, begin.go), keeps every action on the paths of one table (machine.go), and is driven by
// facts: what a node says, what the clock shows, what a person asks for (observe.go, advance.go). It imports no edge: what it needs of
// Lightning and of a job queue it names in small interfaces of its own.
package paidaction

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"time"
	"unicode/utf8"

	"github.com/a-seed-a7aed72f/holdfast/internal/db"
	"github.com/a-seed-a7aed72f/holdfast/ledger"
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

// Tx is the transaction an action's code runs in, and what it may know about itself.
type Tx struct {
	DB       *db.Queries
	Action   int64     // the attempt; 0 while its price is computed for the first time
	Previous int64     // an earlier attempt: in Retry the one whose work is kept, else the one before; 0 in the first
	Payer    *int64    // nil is the anonymous payer
	Method   Method    // how it is paid
	Cost     Msat      // what it costs; 0 while the price is computed
	Now      time.Time // the injected clock; the database's is never asked
	Forward  *Forward  // whom the payer pays directly (method P2P); nil while the price is computed
	Payout   *Payout   // what leaves (method Outgoing)

	source    ledger.Account
	proof     proof
	invoice   *Invoice // that was written for it; nil where there is none
	transfers []ledger.Transfer
	spent     []ledger.Transfer // what left with a forward, out of what is set aside for it
	given     Msat
}

// Asset is what the payer pays with: credits, or sats (from the balance or over Lightning).
func (tx *Tx) Asset() ledger.Asset { return tx.source.Asset() }

// Pay hands amount of what was paid to an account; the engine books it in the same transaction. Sats handed to an account
// of credits are converted, one to one. The other way round does not exist: credits never become sats.
func (tx *Tx) Pay(to ledger.Account, amount Msat, reason string) error {
	if amount < 0 {
		return fmt.Errorf("pay %d msat to %s", amount, to)
	}
	if amount == 0 {
		return nil
	}
	tx.given += amount
	transfers, err := route(tx.source, to, amount, reason)
	tx.transfers = append(tx.transfers, transfers...)
	return err
}

// PayFee hands the part of the price that goes to nobody in particular: founder's share of it to the founder of the
// territory if there is one, the rest to the rewards pool, in the asset it was paid in (spec 02 §2.4).
func (tx *Tx) PayFee(fee Msat, founder *int64, rewardsPct int) error {
	if founder != nil {
		share := fee.Percent(100 - rewardsPct)
		if err := tx.Pay(ledger.User(*founder, tx.Asset()), share, "territory revenue"); err != nil {
			return err
		}
		fee -= share
	}
	return tx.Pay(ledger.Rewards(tx.Asset()), fee, "rewards")
}

// route is the way money takes from one account to another.
func route(from, to ledger.Account, amount Msat, reason string) ([]ledger.Transfer, error) {
	msat := int64(amount)
	switch {
	case from == to:
		// Who pays themselves (a founder in their own territory) still pays: the books show both halves.
		through := ledger.Clearing(from.Asset())
		return []ledger.Transfer{{From: from, To: through, Msat: msat, Reason: reason}, {From: through, To: to, Msat: msat, Reason: reason}}, nil
	case from.Asset() == to.Asset():
		return []ledger.Transfer{{From: from, To: to, Msat: msat, Reason: reason}}, nil
	case from.Asset() == ledger.Sats:
		return []ledger.Transfer{
			{From: from, To: ledger.BackingSats, Msat: msat, Reason: reason},
			{From: ledger.IssuedCredits, To: to, Msat: msat, Reason: reason},
		}, nil
	default:
		return nil, fmt.Errorf("credits of %s cannot become sats of %s", from, to)
	}
}

// Definition is an Action with its types hidden, as the engine keeps it. Define makes one.
type Definition interface {
	Spec() Spec
	// SideEffects says whether something follows the payment (AfterPaid, Grouped.AfterPaidTogether).
	SideEffects() bool
	// PaysPeers says whether it names people whom its payer can pay directly (Peered).
	PaysPeers() bool

	normalize(args json.RawMessage) (json.RawMessage, error)
	cost(ctx context.Context, tx *Tx, args json.RawMessage) (Msat, error)
	perform(ctx context.Context, tx *Tx, args json.RawMessage) (json.RawMessage, error)
	onPaid(ctx context.Context, tx *Tx, args, result json.RawMessage) error
	onFail(ctx context.Context, tx *Tx, args, result json.RawMessage) error
	retry(ctx context.Context, tx *Tx, args, result json.RawMessage) (json.RawMessage, error)
	describe(args json.RawMessage) (string, error)
	descriptionHash(args json.RawMessage) ([32]byte, error)
	peers(ctx context.Context, tx *Tx, args json.RawMessage) ([]Peer, error)
	payee(args json.RawMessage) (Payee, error)
	afterPaid(ctx context.Context, tx *Tx, args, result json.RawMessage) error

	agrees() error // what the action says of itself is what it can
	grouped() bool // whether several can be paid together (Grouped)
	costTogether(ctx context.Context, q *db.Queries, members []*member) error
	payTogether(ctx context.Context, q *db.Queries, at time.Time, members []*member) error
	performTogether(ctx context.Context, q *db.Queries, at time.Time, members []*member) error
	onPaidTogether(ctx context.Context, q *db.Queries, at time.Time, members []*member) error
	afterPaidTogether(ctx context.Context, q *db.Queries, at time.Time, actions []int64) error
}

// Define makes an Action known to the engine.
func Define[A, R any](a Action[A, R]) Definition { return definition[A, R]{a} }

type definition[A, R any] struct{ action Action[A, R] }

func (d definition[A, R]) Spec() Spec { return d.action.Spec() }

func (d definition[A, R]) SideEffects() bool {
	_, ok := d.action.(AfterPaid[A, R])
	return ok || d.grouped()
}

func (d definition[A, R]) PaysPeers() bool {
	_, ok := d.action.(Peered[A])
	return ok
}

func decode[T any](raw json.RawMessage) (T, error) {
	var v T
	if err := json.Unmarshal(raw, &v); err != nil {
		return v, fmt.Errorf("read stored %T: %w", v, err)
	}
	return v, nil
}

// normalize checks the arguments and writes them in the one form that is stored and hashed.
func (d definition[A, R]) normalize(raw json.RawMessage) (json.RawMessage, error) {
	args, err := decode[A](raw)
	if err != nil {
		return nil, Errorf(CodeInvalidInput, "The arguments cannot be read.").Because(err)
	}
	if err := d.action.Check(args); err != nil {
		return nil, err
	}
	return json.Marshal(args)
}

func (d definition[A, R]) cost(ctx context.Context, tx *Tx, raw json.RawMessage) (Msat, error) {
	args, err := decode[A](raw)
	if err != nil {
		return 0, err
	}
	cost, err := d.action.Cost(ctx, tx, args)
	if err != nil {
		return 0, err
	}
	return cost, d.checkCost(cost)
}

// checkCost: whatever an action computes, a negative price must not pay anybody (spec 05.7, 05.8).
func (d definition[A, R]) checkCost(cost Msat) error {
	if cost < 0 || cost > MaxMsat || (cost == 0 && !d.Spec().Free) {
		return Errorf(CodeInvalidAmount, "This cannot be bought at that price.").
			Because(fmt.Errorf("%s computed a cost of %d msat", d.Spec().Kind, cost))
	}
	return nil
}

func (d definition[A, R]) perform(ctx context.Context, tx *Tx, raw json.RawMessage) (json.RawMessage, error) {
	args, err := decode[A](raw)
	if err != nil {
		return nil, err
	}
	result, err := d.action.Perform(ctx, tx, args)
	if err != nil {
		return nil, err
	}
	return json.Marshal(result)
}

func (d definition[A, R]) decodeBoth(rawArgs, rawResult json.RawMessage) (args A, result R, err error) {
	if args, err = decode[A](rawArgs); err == nil {
		result, err = decode[R](rawResult)
	}
	return args, result, err
}

func (d definition[A, R]) onPaid(ctx context.Context, tx *Tx, rawArgs, rawResult json.RawMessage) error {
	args, result, err := d.decodeBoth(rawArgs, rawResult)
	if err != nil {
		return err
	}
	if err := d.action.OnPaid(ctx, tx, args, result); err != nil {
		return err
	}
	// Splits sum exactly, for every action there will ever be: what is not handed out, or handed out twice, is a fault.
	if tx.given != tx.Cost {
		return fmt.Errorf("%s handed out %d msat of %d", d.Spec().Kind, tx.given, tx.Cost)
	}
	return nil
}

func (d definition[A, R]) onFail(ctx context.Context, tx *Tx, rawArgs, rawResult json.RawMessage) error {
	args, result, err := d.decodeBoth(rawArgs, rawResult)
	if err != nil {
		return err
	}
	return d.action.OnFail(ctx, tx, args, result)
}

func (d definition[A, R]) retry(ctx context.Context, tx *Tx, rawArgs, rawResult json.RawMessage) (json.RawMessage, error) {
	args, result, err := d.decodeBoth(rawArgs, rawResult)
	if err != nil {
		return nil, err
	}
	if result, err = d.action.Retry(ctx, tx, args, result); err != nil {
		return nil, err
	}
	return json.Marshal(result)
}

func (d definition[A, R]) describe(raw json.RawMessage) (string, error) {
	args, err := decode[A](raw)
	if err != nil {
		return "", err
	}
	memo := d.action.Describe(args)
	if len(memo) <= MaxMemo {
		return memo, nil
	}
	end := MaxMemo
	for !utf8.RuneStart(memo[end]) {
		end--
	}
	return memo[:end], nil
}

// descriptionHash is zero for all but some of the actions that are Hashed.
func (d definition[A, R]) descriptionHash(raw json.RawMessage) (hash [32]byte, err error) {
	hashed, ok := d.action.(Hashed[A])
	if !ok {
		return hash, nil
	}
	args, err := decode[A](raw)
	if err != nil {
		return hash, err
	}
	return hashed.DescriptionHash(args), nil
}

// peers are those who can be paid directly, none if the action has no such people.
func (d definition[A, R]) peers(ctx context.Context, tx *Tx, raw json.RawMessage) ([]Peer, error) {
	peered, ok := d.action.(Peered[A])
	if !ok {
		return nil, nil
	}
	args, err := decode[A](raw)
	if err != nil {
		return nil, err
	}
	return peered.Peers(ctx, tx, args)
}

func (d definition[A, R]) payee(raw json.RawMessage) (Payee, error) {
	outbound, ok := d.action.(Outbound[A])
	if !ok {
		return Payee{}, fmt.Errorf("%s pays nobody outside", d.Spec().Kind)
	}
	args, err := decode[A](raw)
	if err != nil {
		return Payee{}, err
	}
	return outbound.Payee(args), nil
}

func (d definition[A, R]) afterPaid(ctx context.Context, tx *Tx, rawArgs, rawResult json.RawMessage) error {
	args, result, err := d.decodeBoth(rawArgs, rawResult)
	if err != nil {
		return err
	}
	return d.action.(AfterPaid[A, R]).AfterPaid(ctx, tx, args, result)
}

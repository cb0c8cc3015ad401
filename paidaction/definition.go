package paidaction

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"time"
	"unicode/utf8"

	"github.com/a-seed-a7aed72f/holdfast/internal/db"
)

// Definition is an Action with its types hidden, as the engine keeps it. Define makes one.
type Definition interface {
	Spec() Spec
	// SideEffects reports whether something follows the payment (AfterPaid, Grouped.AfterPaidTogether).
	SideEffects() bool

	normalize(args json.RawMessage) (stored json.RawMessage, refused, err error)
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

	agrees() error // checks that what the action says of itself matches what it implements
	grouped() bool // whether several can be paid together (Grouped)
	costTogether(ctx context.Context, q *db.Queries, members []*member) error
	payTogether(ctx context.Context, q *db.Queries, at time.Time, members []*member) error
	performTogether(ctx context.Context, q *db.Queries, at time.Time, members []*member) error
	onPaidTogether(ctx context.Context, q *db.Queries, at time.Time, members []*member) error
	afterPaidTogether(ctx context.Context, q *db.Queries, at time.Time, actions []int64) error
}

// errUnknownKind says that this process does not know what an action does. Another one may: while processes are
// replaced one by one, some have a newer program than the others.
var errUnknownKind = errors.New("this process knows no such kind of action")

// errUnknownField says that an action has arguments or a result with more in them than this process knows of, so a newer
// program has written them: to do only the part that is known would be to do something else than what is paid for.
var errUnknownField = errors.New("this process does not know all that is stored of the action")

// definition is what actions of a kind do.
func (e *Engine) definition(kind string) (Definition, error) {
	def, ok := e.actions[kind]
	if !ok {
		return nil, fmt.Errorf("%w: %s", errUnknownKind, kind)
	}
	return def, nil
}

// Define makes an Action known to the engine.
func Define[A, R any](a Action[A, R]) Definition { return definition[A, R]{a} }

type definition[A, R any] struct{ action Action[A, R] }

func (d definition[A, R]) Spec() Spec { return d.action.Spec() }

func (d definition[A, R]) SideEffects() bool {
	_, ok := d.action.(AfterPaid[A, R])
	return ok || d.grouped()
}

// decode reads what is stored of an action. What T does not know is left out of what is stored while nobody gave it, so
// it means something wherever it is there: the error is errUnknownField.
func decode[T any](raw json.RawMessage) (T, error) {
	var v, known T
	strict := json.NewDecoder(bytes.NewReader(raw))
	strict.DisallowUnknownFields()
	err := strict.Decode(&v)
	if err == nil {
		return v, nil
	}
	if malformed := json.Unmarshal(raw, &known); malformed != nil {
		err = malformed // a decoder says io.EOF where nothing is stored, which would count as passing
	} else {
		err = fmt.Errorf("%w: %w", errUnknownField, err)
	}
	return v, fmt.Errorf("read stored %T: %w", v, err)
}

// normalize encodes the arguments in the one form that is stored and hashed. refused is what the action has against them.
func (d definition[A, R]) normalize(raw json.RawMessage) (stored json.RawMessage, refused, err error) {
	var args A
	if err := json.Unmarshal(raw, &args); err != nil {
		return nil, nil, Errorf(CodeInvalidInput, "The arguments cannot be read.").Because(err)
	}
	stored, err = json.Marshal(args)
	return stored, d.action.Check(args), err
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

// checkCost refuses a cost that is negative or too high, whatever the action computed: a negative price must not pay
// anybody (spec 05.7, 05.8).
func (d definition[A, R]) checkCost(cost Msat) error {
	refusal := Errorf(CodeInvalidAmount, "This cannot be bought at that price.")
	switch {
	case cost > MaxMsat: // the payer asked for too much: no fault of the action
		return refusal
	case cost < 0 || cost == 0 && !d.Spec().Free:
		return refusal.Because(fmt.Errorf("%s computed a cost of %d msat", d.Spec().Kind, cost))
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
	return tx.handedOut(d.Spec().Kind)
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

// descriptionHash is zero unless the action is Hashed and has a longer description for these arguments.
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

// peers are the people who can be paid directly; none if the action has no such people.
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

// grouped goes by what the action says of itself: an action that embeds another one gets its methods unasked.
func (d definition[A, R]) grouped() bool { return d.action.Spec().Together }

// agrees reports an error if an action lacks the methods for what it says of itself, or does in two ways what follows
// its payment.
func (d definition[A, R]) agrees() error {
	spec := d.Spec()
	_, peered := d.action.(Peered[A])
	_, outbound := d.action.(Outbound[A])
	_, together := d.action.(Grouped[A, R])
	_, apart := d.action.(AfterPaid[A, R])
	switch {
	case slices.Contains(spec.Methods, P2P) && !peered:
		return fmt.Errorf("paidaction: %s is to be paid to people directly, and is not Peered", spec.Kind)
	case slices.Contains(spec.Methods, Outgoing) && !outbound:
		return fmt.Errorf("paidaction: %s is to pay somebody outside, and is not Outbound", spec.Kind)
	case spec.Together && !together:
		return fmt.Errorf("paidaction: %s is to be paid together, and is not Grouped", spec.Kind)
	case spec.Together && apart:
		return fmt.Errorf("paidaction: %s is Grouped and has an AfterPaid, which nobody would call", spec.Kind)
	}
	return nil
}

func (d definition[A, R]) costTogether(ctx context.Context, q *db.Queries, members []*member) error {
	typed := make([]*Member[A, R], len(members))
	for i, m := range members {
		args, err := decode[A](m.args)
		if err != nil {
			return err
		}
		typed[i] = &Member[A, R]{Tx: m.tx, Args: args}
	}
	if err := d.action.(Grouped[A, R]).CostTogether(ctx, q, typed); err != nil {
		return err
	}
	for i, t := range typed {
		m := members[i]
		m.typed = t
		if m.err = d.inTheWay(m.attempt, t); m.err != nil {
			continue
		}
		var err error
		if m.result, err = json.Marshal(t.Result); err != nil {
			return err
		}
	}
	return nil
}

// inTheWay is what is in the way of a member whose price is known, or nil.
func (d definition[A, R]) inTheWay(a *attempt, m *Member[A, R]) error {
	if m.Err != nil {
		return m.Err
	}
	if err := d.checkCost(m.Tx.Cost); err != nil {
		return err
	}
	if m.Tx.Cost == 0 {
		return errApart // what costs nothing is begun in another way
	}
	return a.agreed(m.Tx.Cost)
}

func (d definition[A, R]) payTogether(ctx context.Context, q *db.Queries, at time.Time, members []*member) error {
	typed, err := d.typed(members)
	if err != nil {
		return err
	}
	return d.action.(Grouped[A, R]).PayTogether(ctx, q, at, typed)
}

func (d definition[A, R]) performTogether(ctx context.Context, q *db.Queries, at time.Time, members []*member) error {
	typed, err := d.typed(members)
	if err != nil {
		return err
	}
	return d.action.(Grouped[A, R]).PerformTogether(ctx, q, at, typed)
}

func (d definition[A, R]) onPaidTogether(ctx context.Context, q *db.Queries, at time.Time, members []*member) error {
	typed, err := d.typed(members)
	if err != nil {
		return err
	}
	return d.action.(Grouped[A, R]).OnPaidTogether(ctx, q, at, typed)
}

func (d definition[A, R]) afterPaidTogether(ctx context.Context, q *db.Queries, at time.Time, actions []int64) error {
	return d.action.(Grouped[A, R]).AfterPaidTogether(ctx, q, at, actions)
}

func (d definition[A, R]) typed(members []*member) ([]*Member[A, R], error) {
	typed := make([]*Member[A, R], len(members))
	for i, m := range members {
		if known, ok := m.typed.(*Member[A, R]); ok {
			typed[i] = known
			continue
		}
		args, result, err := d.decodeBoth(m.args, m.result)
		if err != nil {
			return nil, err
		}
		typed[i] = &Member[A, R]{Tx: m.tx, Args: args, Result: result}
	}
	return typed, nil
}

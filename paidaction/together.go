package paidaction

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/a-seed-a7aed72f/holdfast/internal/db"
	"github.com/a-seed-a7aed72f/holdfast/ledger"
)

// Grouped is implemented by actions (Spec.Together) of which several, of any payers, can take a step in one
// transaction: paid from balances, or once their invoices are held or paid. They share its statements and its commit.
// An obstacle of one member does not harm the others: it is left out, or all are done again, each by itself.
//
// The methods write what Perform and OnPaid would write for each member. Rows that others may change are touched in one
// order, as everywhere. Tx.Proves is not available to such an action.
type Grouped[A, R any] interface {
	// CostTogether is Cost: it sets the members' Tx.Cost and Result, or the Err of those it refuses. It writes nothing.
	CostTogether(ctx context.Context, q *db.Queries, members []*Member[A, R]) error
	// PayTogether is Perform and OnPaid of the members without Err.
	PayTogether(ctx context.Context, q *db.Queries, at time.Time, members []*Member[A, R]) error
	// PerformTogether is Perform of members whose payments are held; CostTogether ran before in the same transaction.
	PerformTogether(ctx context.Context, q *db.Queries, at time.Time, members []*Member[A, R]) error
	// OnPaidTogether is OnPaid of members that were performed in an earlier transaction.
	OnPaidTogether(ctx context.Context, q *db.Queries, at time.Time, members []*Member[A, R]) error
	// AfterPaidTogether is AfterPaid of these actions, in the order of their ids. All are PAID. There may be only one.
	AfterPaidTogether(ctx context.Context, q *db.Queries, at time.Time, actions []int64) error
}

// Member is one of several actions that are paid together.
type Member[A, R any] struct {
	Tx     *Tx
	Args   A
	Result R
	Err    error // this member is refused; the others go on
	Kept   any   // what CostTogether keeps for PayTogether
}

// member is a Member with its types hidden. While err is errApart, nothing has become of it yet.
type member struct {
	*attempt
	tx     *Tx
	result json.RawMessage
	err    error
	typed  any // the Member that costTogether made of it

	// For an action that takes a step (stride.go):
	found finding
	due   Msat // what it costs
	moved bool // false: another worker was faster
}

// errApart says that a member of a group has to be done by itself.
var errApart = errors.New("this one is to be done by itself")

// lookFor is how long groups check balances and keys before they write, once one has met a balance that did not suffice
// or a key that was used before.
const lookFor = time.Second

// beginTogether pays for actions of one kind from their payers' balances, in one transaction. If it returns nil, the
// members' own errors say what became of each; otherwise nothing was done.
//
// Usually every balance suffices and every key is new, so a group does not check. If that is wrong, a statement fails,
// and with it the group, which is then done again with a check. For lookFor after that, other groups check first. So
// somebody who keeps asking for what they cannot pay or already have costs others only one failed group a second.
// Somebody who sends the same new key to two processes at the same moment still costs one group each time.
func (e *Engine) beginTogether(ctx context.Context, def Definition, method Method, members []*member) error {
	look := e.now().UnixNano() < e.lookUntil.Load()
	err := e.tryTogether(ctx, def, method, members, look)
	// The check finds insufficient balances. Another transaction can use a key after the check; then the next check
	// finds it.
	if ledger.IsShort(err) || db.Violates(err, "paid_action_key") {
		e.lookUntil.Store(e.now().Add(lookFor).UnixNano())
		err = e.tryTogether(ctx, def, method, members, true)
	}
	return err
}

// tryTogether is one try of beginTogether; look says whether it checks balances and keys before it writes.
func (e *Engine) tryTogether(ctx context.Context, def Definition, method Method, members []*member, look bool) error {
	first := firstStep(method)
	post := ledger.PostUnseen
	if look {
		post = ledger.PostAll
	}
	// Take payers and keys in one order in all transactions, so that no two deadlock.
	slices.SortFunc(members, func(x, y *member) int {
		return cmp.Or(cmp.Compare(*x.payer, *y.payer), cmp.Compare(x.keyOf(), y.keyOf()))
	})
	return e.inTx(ctx, func(q *db.Queries, pg *db.Transaction) error {
		if err := e.MayBegin(); err != nil {
			return err
		}
		now := e.now()
		for _, m := range members {
			m.result, m.err, m.typed = nil, nil, nil
			m.tx = &Tx{DB: q, Payer: m.payer, Method: method, Now: now, source: method.source(m.payer)}
		}
		numbers := pg.NextActions(len(members)) // the numbers of refused members remain unused
		if err := def.costTogether(ctx, q, members); err != nil {
			return err
		}
		if look {
			if err := lookTogether(ctx, q, standing(members)); err != nil {
				return err
			}
		}
		paid := firstOfTheirKeys(members)
		if len(paid) == 0 {
			return nil
		}
		if err := insertTogether(ctx, q, def, first, now, numbers, paid); err != nil {
			return err
		}
		if err := def.payTogether(ctx, q, now, paid); err != nil {
			return err
		}
		return e.bookTogether(ctx, q, pg, def, now, paid, post)
	})
}

func (m *member) keyOf() string {
	if m.key == nil {
		return ""
	}
	return *m.key
}

// standing returns the members without an error.
func standing(members []*member) []*member {
	return slices.DeleteFunc(slices.Clone(members), func(m *member) bool { return m.err != nil })
}

// firstOfTheirKeys returns the members without an error, but of several with one key only the first: the others get its
// result.
func firstOfTheirKeys(members []*member) []*member {
	var first []*member
	for _, m := range standing(members) {
		if n := len(first); n > 0 && m.key != nil && *first[n-1].payer == *m.payer && first[n-1].keyOf() == *m.key {
			m.err = errKeyUsed
			continue
		}
		first = append(first, m)
	}
	return first
}

// lookTogether refuses members whose key was used before or whose payer's balance is too low.
func lookTogether(ctx context.Context, q *db.Queries, members []*member) error {
	keys := db.KeysUsedParams{}
	for i, m := range members {
		if m.key != nil {
			keys.Places, keys.Payers = append(keys.Places, int32(i)), append(keys.Payers, *m.payer)
			keys.IdempotencyKeys = append(keys.IdempotencyKeys, *m.key)
		}
	}
	if len(keys.Places) > 0 {
		used, err := q.KeysUsed(ctx, keys)
		if err != nil {
			return fmt.Errorf("look for the keys: %w", err)
		}
		for _, place := range used {
			members[place].err = errKeyUsed
		}
	}
	return cover(ctx, q, standing(members))
}

// cover refuses members whose payer's balance is too low. It locks nothing: the debit decides.
func cover(ctx context.Context, q *db.Queries, members []*member) error {
	if len(members) == 0 {
		return nil
	}
	asked := map[ledger.Account]int64{}
	for _, m := range members {
		asked[m.tx.source] = ledger.Sum(asked[m.tx.source], int64(m.tx.Cost))
	}
	held, err := ledger.Cover(ctx, q, asked)
	if err != nil {
		return err
	}
	taken := map[ledger.Account]Msat{}
	for _, m := range members {
		before := taken[m.tx.source]
		switch {
		case Msat(held[m.tx.source]) >= before+m.tx.Cost:
			taken[m.tx.source] += m.tx.Cost
		case before == 0:
			m.err = ledger.ErrInsufficient
		default:
			m.err = errApart // the member that takes the rest may still fail
		}
	}
	return nil
}

// insertTogether makes the rows of all members, in their last state, with their history.
func insertTogether(ctx context.Context, q *db.Queries, def Definition, first Step, now time.Time, numbers func(context.Context) ([]int64, error),
	members []*member) error {
	ids, err := numbers(ctx)
	if err != nil {
		return fmt.Errorf("number the actions: %w", err)
	}
	rows := db.InsertActionsParams{Ids: ids[:len(members)], Kind: def.Spec().Kind, Flow: string(first.Flow), Method: string(members[0].tx.Method),
		State: string(first.To), At: now, Fact: string(first.When)}
	for i, m := range members {
		m.tx.Action = ids[i]
		rows.Payers, rows.Costs = append(rows.Payers, *m.payer), append(rows.Costs, int64(m.tx.Cost))
		rows.Arguments, rows.Results = append(rows.Arguments, m.args), append(rows.Results, m.result)
		rows.IdempotencyKeys, rows.ArgsHashes = append(rows.IdempotencyKeys, m.keyOf()), append(rows.ArgsHashes, append([]byte{}, m.argsHash...))
	}
	if err := q.InsertActions(ctx, rows); err != nil {
		return fmt.Errorf("insert the actions: %w", err)
	}
	return nil
}

// bookTogether stores the job for after the payments, and books them.
func (e *Engine) bookTogether(ctx context.Context, q *db.Queries, pg pgx.Tx, def Definition, now time.Time, members []*member,
	post func(context.Context, *db.Queries, time.Time, []ledger.Entry) error) error {
	var entries []ledger.Entry
	for _, m := range members {
		if err := m.tx.handedOut(def.Spec().Kind); err != nil {
			return err
		}
		if err := m.tx.payExcess(m.found.received - m.tx.Cost); err != nil {
			return err
		}
		entries = append(entries, ledger.Entry{Action: &m.tx.Action, Transfers: append(m.tx.transfers, m.tx.spent...)})
	}
	if def.SideEffects() {
		ids := actionsOf(members)
		if err := e.Jobs.Insert(ctx, pg, Job{Kind: JobAfterPaid, Action: ids[0], With: ids[1:]}); err != nil {
			return fmt.Errorf("store the job for after the payments: %w", err)
		}
	}
	return post(ctx, q, now, entries)
}

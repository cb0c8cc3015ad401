package paidaction

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/a-seed-a7aed72f/holdfast/internal/db"
	"github.com/a-seed-a7aed72f/holdfast/ledger"
)

// inStride reports whether actions of one kind (Grouped) that take this step at the same time share a transaction.
// These are the steps of every payment by an invoice of ours that goes smoothly. None of them has a condition in
// stillTrue, stores a failure or ends in FAILED, since moveTogether does nothing of the kind.
func (s Step) inStride() bool {
	switch s.When {
	case InvoiceIsPaid:
		return s.Effect == BookAndFinish
	case InvoiceIsHeld:
		return s.Effect == PerformAction || s.Effect == ClaimForward
	case OutgoingPaid:
		return s.Flow == FlowWrapped
	}
	return s.When == IncomingSettled
}

// take takes one step of an action, together with others of its kind that take the same step now, where that is
// possible.
func (e *Engine) take(ctx context.Context, pa *PaidAction, step Step, found finding) (moved bool, err error) {
	gathered := e.gathered[gatheringKey{kind: pa.Kind, step: step}]
	if gathered == nil || !found.driven || e.Settings.MaxGroup <= 1 {
		return e.move(ctx, pa.ID, step, found)
	}
	m := &member{tx: &Tx{Action: pa.ID}, found: found, err: errApart}
	if err := gathered.Do(ctx, m); err != nil {
		return false, err
	}
	if errors.Is(m.err, errApart) {
		return e.move(ctx, pa.ID, step, found)
	}
	return m.moved, m.err
}

// moveTogether takes one step of several actions of one kind in one transaction. It is move for each of them. If it
// returns nil, the members say what became of each; otherwise nothing was done.
func (e *Engine) moveTogether(ctx context.Context, def Definition, step Step, members []*member) error {
	slices.SortFunc(members, func(x, y *member) int { return cmp.Compare(x.tx.Action, y.tx.Action) })
	var moved []*member
	err := e.inTx(ctx, func(q *db.Queries, pg *db.Transaction) error {
		now := e.now()
		rows := pg.LockActions(actionsOf(members))
		var forwards asking[db.ForwardsToClaimRow]
		var inners asking[db.InnerInvoice]
		var err error
		switch { // what the step needs comes with the rows
		case step.Effect == ClaimForward:
			if forwards, err = askForwards(ctx, q, pg, now, actionsOf(members)...); err != nil {
				return err
			}
		case step.Effect == BookAndFinish && step.Flow == FlowWrapped:
			inners = pg.GetInners(actionsOf(members))
		}
		if moved, err = lockTogether(ctx, q, rows, step, members, now); err != nil || len(moved) == 0 {
			return err
		}
		switch step.Effect {
		case PerformAction:
			moved, err = performTogether(ctx, q, def, now, moved)
		case ClaimForward:
			moved, err = e.claimTogether(ctx, q, forwards, now, moved)
		case StorePreimage:
			err = storePreimagesTogether(ctx, q, now, moved)
		}
		if err != nil || len(moved) == 0 {
			return err
		}
		if err := e.setTogether(ctx, q, step, now, moved); err != nil {
			return err
		}
		if step.Effect != BookAndFinish {
			return e.storeCalls(ctx, pg, step, true, now, actionsOf(moved)...)
		}
		spent := func(context.Context) error { return nil }
		if step.Flow == FlowWrapped {
			spent = completeForwards(pg, now, forwardsOf(moved)...)
			if err := setAside(ctx, inners, forwardsOf(moved)...); err != nil {
				return err
			}
		}
		if err := def.onPaidTogether(ctx, q, now, moved); err != nil {
			return err
		}
		if err := spent(ctx); err != nil {
			return err
		}
		return e.bookTogether(ctx, q, pg, def, now, moved, ledger.PostAll)
	})
	if err != nil {
		return err
	}
	for _, m := range moved {
		m.moved = true
		e.announce(ctx, m.tx.Action, step, m.found)
	}
	return nil
}

func actionsOf(members []*member) []int64 {
	ids := make([]int64, len(members))
	for i, m := range members {
		ids[i] = m.tx.Action
	}
	return ids
}

// lockTogether waits until the rows of all members are locked, which is done in the order of their ids, so that no two
// groups deadlock. It returns the members that are still in the step's first state.
func lockTogether(ctx context.Context, q *db.Queries, locked asking[db.PaidAction], step Step, members []*member, now time.Time) (still []*member, err error) {
	rows, err := locked(ctx)
	if err != nil {
		return nil, fmt.Errorf("lock the actions: %w", err)
	}
	byID := make(map[int64]db.PaidAction, len(rows))
	for _, row := range rows {
		byID[row.ID] = row
	}
	for _, m := range members {
		row := byID[m.tx.Action]
		delete(byID, m.tx.Action) // if two workers heard of one payment, the second is too late, as it would be alone
		m.moved, m.err, m.typed = false, nil, nil
		if State(row.State) != step.From {
			continue
		}
		if m.due = Msat(row.CostMsat); m.found.received < m.due && step.When != OutgoingPaid {
			m.err = errApart // there the error is reported
			continue
		}
		m.attempt, m.result = &attempt{args: row.Args, genesis: row.GenesisID}, row.Result
		m.tx = txOf(q, row, now)
		still = append(still, m)
	}
	return still, nil
}

// performTogether performs actions whose payments are held, as performHeld does. A refused action, one whose price has
// changed, and every retry are done by themselves: an earlier attempt may have performed the retried action.
func performTogether(ctx context.Context, q *db.Queries, def Definition, now time.Time, members []*member) ([]*member, error) {
	for _, m := range members {
		m.tx.Cost = 0
	}
	if err := def.costTogether(ctx, q, members); err != nil {
		return nil, err
	}
	for _, m := range members {
		if m.err != nil || m.tx.Cost != m.due || m.genesis != nil {
			m.err = errApart
		}
	}
	members = standing(members)
	if len(members) == 0 {
		return nil, nil
	}
	return members, def.performTogether(ctx, q, now, members)
}

// setTogether writes the new state of all members, what came with it, and their history.
func (e *Engine) setTogether(ctx context.Context, q *db.Queries, step Step, now time.Time, members []*member) error {
	set := db.MoveActionsParams{FromState: string(step.From), ToState: string(step.To), Fact: string(step.When), At: now,
		Deadline: e.deadlineAfter(step.To, now), SettlePermittedAt: permitted(step, true, now)}
	for _, m := range members {
		set.Ids, set.Received = append(set.Ids, m.tx.Action), append(set.Received, int64(m.found.received))
		set.Heights, set.Results = append(set.Heights, int32(m.found.safety)), append(set.Results, m.result)
	}
	if err := q.MoveActions(ctx, set); err != nil {
		return fmt.Errorf("move the states: %w", err)
	}
	return nil
}

// claimTogether is the step to FORWARDING. Actions that are not performed yet, or whose receiver has too much under
// way, are done by themselves.
func (e *Engine) claimTogether(ctx context.Context, q *db.Queries, asked asking[db.ForwardsToClaimRow], now time.Time, members []*member) ([]*member, error) {
	for _, m := range members {
		if m.result == nil {
			m.err = errApart
		}
	}
	if members = standing(members); len(members) == 0 {
		return nil, nil
	}
	crowded, err := e.claimForwards(ctx, q, asked, now, actionsOf(members)...)
	if err != nil {
		return nil, err
	}
	for _, m := range members {
		if slices.Contains(crowded, m.tx.Action) {
			m.err = errApart
		}
	}
	return standing(members), nil
}

// storePreimagesTogether is the step to FORWARDED.
func storePreimagesTogether(ctx context.Context, q *db.Queries, now time.Time, members []*member) error {
	all := make([]known, len(members))
	for i, m := range members {
		all[i] = known{m.tx.Action, m.found.outcome.Preimage}
	}
	return storePreimages(ctx, q, now, all...)
}

// forwardsOf returns the forwards of these actions.
func forwardsOf(members []*member) []forwarded {
	all := make([]forwarded, len(members))
	for i, m := range members {
		all[i] = forwarded{m.tx, m.found.outcome}
	}
	return all
}

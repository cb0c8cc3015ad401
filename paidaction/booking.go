package paidaction

import (
	"cmp"
	"context"
	"fmt"
	"slices"

	"github.com/jackc/pgx/v5"

	"github.com/a-seed-a7aed72f/holdfast/internal/db"
)

// booksInvoice says whether a step does nothing but book an invoice of ours that was paid. What a bookkeeping of several needs is then in
// their rows, and nothing else can have changed under it.
func (s Step) booksInvoice() bool { return s.When == InvoiceIsPaid && s.Effect == BookAndFinish }

// bookInvoices takes one step of actions of one kind whose invoices are paid, in one transaction: it is the move of each. Where it returns nil the
// members say what became of each; else nothing was done.
func (e *Engine) bookInvoices(ctx context.Context, def Definition, step Step, members []*member) error {
	ids := make([]int64, len(members))
	for i, m := range members {
		ids[i] = m.tx.Action
	}
	var paid []*member
	err := e.inTx(ctx, func(q *db.Queries, pg pgx.Tx) error {
		now := e.now()
		rows, err := q.LockActions(ctx, ids) // in the order of their numbers: no two groups wait for each other
		if err != nil {
			return fmt.Errorf("lock the actions: %w", err)
		}
		byID := make(map[int64]db.PaidAction, len(rows))
		for _, row := range rows {
			byID[row.ID] = row
		}
		taken := map[int64]bool{}
		paid = paid[:0]
		for _, m := range members {
			row := byID[m.tx.Action]
			m.moved, m.err, m.kept = false, nil, nil
			// Two that were told of one payment at the same time: the second one is too late, as it would be by itself.
			if State(row.State) != step.From || taken[row.ID] {
				continue
			}
			if m.received < Msat(row.CostMsat) {
				m.err = errApart // what is wrong with it is said there
				continue
			}
			taken[row.ID] = true
			m.attempt, m.result = &attempt{args: row.Args}, row.Result
			m.tx = &Tx{DB: q, Action: row.ID, Payer: row.PayerID, Method: Method(row.Method), Cost: Msat(row.CostMsat), Now: now,
				source: source(Method(row.Method), row.PayerID)}
			paid = append(paid, m)
		}
		if len(paid) == 0 {
			return nil
		}
		slices.SortFunc(paid, func(x, y *member) int { return cmp.Compare(x.tx.Action, y.tx.Action) })
		set := db.BookActionsParams{FromState: string(step.From), ToState: string(step.To), Fact: string(step.When), At: now}
		for _, m := range paid {
			set.Ids, set.Received = append(set.Ids, m.tx.Action), append(set.Received, int64(m.received))
		}
		if n, err := q.BookActions(ctx, set); err != nil || n != int64(len(paid)) {
			return fmt.Errorf("move %d of %d states: %w", n, len(paid), cmp.Or(err, errApart))
		}
		if err := def.onPaidTogether(ctx, q, now, paid); err != nil {
			return err
		}
		return e.bookTogether(ctx, q, pg, def, now, paid)
	})
	if err != nil {
		return err
	}
	for _, m := range paid {
		m.moved = true
		e.Log.DebugContext(ctx, "an action moved", "action", m.tx.Action, "flow", step.Flow, "from", step.From, "to", step.To, "fact", step.When,
			"together", len(paid))
		e.moved(step)
		e.changed(m.tx.Action)
	}
	return nil
}

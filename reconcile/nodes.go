package reconcile

import (
	"context"
	"errors"
	"fmt"

	"github.com/jackc/pgx/v5"

	"github.com/a-seed-a7aed72f/holdfast/internal/db"
	"github.com/a-seed-a7aed72f/holdfast/paidaction"
)

// page is how many invoices are read at a time.
const page = 500

// compareNodes holds invoices against the nodes that issued them (invariant 9): settled ⇔ PAID, cancelled ⇔ FAILED, and what
// was received equal to the millisatoshi.
func compareNodes(ctx context.Context, c Config) (Invariant, error) {
	found := Invariant{ID: 9, Name: "the nodes and we agree"}
	now := c.Now()
	next := db.InvoicesToCompareParams{Since: now.Add(-c.Since), Page: page}
	for {
		rows, err := db.New(c.Pool).InvoicesToCompare(ctx, next)
		if err != nil {
			return found, fmt.Errorf("read invoices: %w", err)
		}
		for _, r := range rows {
			found.Checked++
			if err := compare(ctx, c, r, &found); err != nil {
				return found, err
			}
			next.After = r.ActionID
		}
		if len(rows) < page {
			return found, comparePayments(ctx, c, &found)
		}
	}
}

// compare asks the node first and reads the row afterwards: our row is then the newer of the two, and only a row that should
// have moved long ago is a difference.
func compare(ctx context.Context, c Config, r db.InvoicesToCompareRow, found *Invariant) error {
	node, err := c.Nodes.Node(r.Node)
	if err != nil {
		found.broke("action %d: its node %s is not configured", r.ActionID, r.Node)
		return nil
	}
	there, err := node.LookupInvoice(ctx, paidaction.Hash(r.PaymentHash))
	absent := errors.Is(err, paidaction.ErrInvoiceNotFound)
	if err != nil && !absent {
		return fmt.Errorf("ask node %s: %w", r.Node, err)
	}
	q := db.New(c.Pool)
	row, err := q.GetAction(ctx, r.ActionID)
	if errors.Is(err, pgx.ErrNoRows) {
		found.broke("action %d: the row is gone", r.ActionID)
		return nil
	}
	if err != nil {
		return fmt.Errorf("read action %d: %w", r.ActionID, err)
	}
	state := paidaction.State(row.PaidAction.State)
	if !state.Terminal() && c.Now().Before(row.PaidAction.Deadline.Add(c.Grace)) {
		return nil // under way
	}
	issued := r.Issued || row.Bolt11 != nil // its text may have been dropped since
	unpaid := state == paidaction.Failed || state == paidaction.Retrying
	if (absent || there.State == paidaction.InvoiceCanceled) && state == paidaction.Paid {
		// A loss that is booked, or an invoice that was paid without the node, is none.
		known, err := q.LossOf(ctx, &r.ActionID)
		if err != nil {
			return fmt.Errorf("read the losses of action %d: %w", r.ActionID, err)
		}
		if known.Booked || (known.PaidInside && !absent) {
			return nil
		}
	}
	switch {
	case absent && (issued || state == paidaction.Paid):
		found.broke("action %d is %s: node %s does not know its invoice", r.ActionID, state, r.Node)
	case absent:
	case there.State == paidaction.InvoiceSettled && state != paidaction.Paid:
		found.broke("action %d is %s: node %s has settled its invoice with %d msat", r.ActionID, state, r.Node, there.Received)
	case there.State == paidaction.InvoiceCanceled && !unpaid:
		found.broke("action %d is %s: node %s has cancelled its invoice", r.ActionID, state, r.Node)
	case there.State == paidaction.InvoiceAccepted:
		found.broke("action %d is %s: node %s still holds the payment", r.ActionID, state, r.Node)
	case there.State == paidaction.InvoiceOpen && (state == paidaction.Paid || unpaid && issued):
		found.broke("action %d is %s: the invoice is still open at node %s", r.ActionID, state, r.Node)
	case state == paidaction.Paid:
		booked, err := q.BookedForInvoice(ctx, &r.ActionID)
		if err != nil {
			return fmt.Errorf("read the postings of action %d: %w", r.ActionID, err)
		}
		if booked != int64(there.Received) {
			found.broke("action %d: node %s received %d msat, %d msat are booked", r.ActionID, r.Node, there.Received, booked)
		}
	}
	return nil
}

package reconcile

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/a-seed-a7aed72f/holdfast/internal/db"
	"github.com/a-seed-a7aed72f/holdfast/paidaction"
)

// nodeTimeout is how long one question to a node may take.
const nodeTimeout = 10 * time.Second

// atNodes compares a page of actions with the nodes (invariant 9): settled ⇔ PAID, cancelled ⇔ FAILED, paid out ⇔
// booked, and every amount equal to the millisatoshi.
func (r *run) atNodes(ctx context.Context, ids []int64) error {
	since := r.Now().Add(-r.Since)
	var invoices []db.InvoicesToCompareRow
	var payments []db.PaymentsToCompareRow
	err := r.snapshot(ctx, statementTimeout, func(q *db.Queries, _ pgx.Tx) (err error) {
		if invoices, err = q.InvoicesToCompare(ctx, db.InvoicesToCompareParams{Actions: ids, Since: since}); err != nil {
			return err
		}
		payments, err = q.PaymentsToCompare(ctx, db.PaymentsToCompareParams{Actions: ids, Since: since})
		return err
	})
	if err != nil {
		return fmt.Errorf("read what to ask the nodes: %w", err)
	}
	for _, row := range invoices {
		if err := r.ask(ctx, row.Node, row.ActionID, row.Open, func(ctx context.Context, node paidaction.Node) error { return r.compareInvoice(ctx, node, row) }); err != nil {
			return err
		}
	}
	for _, row := range payments {
		if err := r.ask(ctx, row.Node, row.ActionID, mayMove(row), func(ctx context.Context, node paidaction.Node) error { return r.comparePayment(ctx, node, row) }); err != nil {
			return err
		}
	}
	return nil
}

// errSilent is the error for a node that cannot be asked.
type errSilent struct{ error }

// ask compares something with a node, within nodeTimeout. A node that does not answer is not asked again: what it holds
// is unknown. A node that is not configured may be gone for good once nothing of it is open, so this is a break only
// for an open action. If no node is configured at all, the settings are missing instead.
func (r *run) ask(ctx context.Context, name string, action int64, open bool, compare func(context.Context, paidaction.Node) error) error {
	if r.silent[name] != nil {
		return nil
	}
	node, err := r.Nodes.Node(name)
	if err != nil && !open {
		r.nodeless = r.nodeless || len(r.Issuers) == 0 && len(r.Senders) == 0
		return nil
	}
	r.look(9, 1)
	if err != nil {
		r.found(nodeGone.broken(at{actions: []int64{action}, node: name}, "action %d: its node %s is not configured", action, name))
		return nil
	}
	if r.over(3) {
		r.silent[name] = errNoTime
		return nil
	}
	limited, cancel := context.WithTimeout(paidaction.About(ctx, action), nodeTimeout)
	defer cancel()
	err = compare(limited, node)
	var silent errSilent
	if errors.As(err, &silent) && ctx.Err() == nil {
		r.silent[name] = silent.error
		return nil
	}
	return err
}

// compareInvoice asks the node first and reads the row afterwards. So our row is the newer of the two, and only a row
// that should have moved long ago is a difference.
func (r *run) compareInvoice(ctx context.Context, node paidaction.Node, row db.InvoicesToCompareRow) error {
	there, err := node.LookupInvoice(ctx, paidaction.Hash(row.PaymentHash))
	absent := errors.Is(err, paidaction.ErrInvoiceNotFound)
	if err != nil && !absent {
		return errSilent{err}
	}
	q := db.New(r.Pool)
	now, err := q.GetAction(ctx, row.ActionID)
	if err != nil {
		return fmt.Errorf("read action %d: %w", row.ActionID, err)
	}
	state := paidaction.State(now.PaidAction.State)
	if !absent && now.Bolt11 != nil && *now.Bolt11 != there.Bolt11 {
		r.found(otherText.broken(at{actions: []int64{row.ActionID}, node: row.Node, hash: paidaction.Hash(row.PaymentHash).String()},
			"action %d is %s: node %s has another text of its invoice", row.ActionID, state, row.Node))
	}
	awaits := paidaction.Flow(now.PaidAction.Flow) == paidaction.FlowOptimistic && there.Awaits(paidaction.Msat(now.PaidAction.CostMsat))
	if deadline := now.PaidAction.Deadline; !state.Terminal() && !awaits && deadline != nil && r.Now().Before(deadline.Add(r.Grace)) {
		return nil // under way; of what waits for the chain the deadline is put off
	}
	var booked int64
	var known db.LossOfRow
	if state == paidaction.Paid || absent || awaits {
		if known, err = q.LossOf(ctx, &row.ActionID); err != nil {
			return fmt.Errorf("read the losses of action %d: %w", row.ActionID, err)
		}
	}
	if state == paidaction.Paid {
		if booked, err = q.BookedForInvoice(ctx, &row.ActionID); err != nil {
			return fmt.Errorf("read the postings of action %d: %w", row.ActionID, err)
		}
	}
	issued := row.Issued || now.Bolt11 != nil // its text may have been dropped since
	if k, what := judge(state, there, absent, issued, awaits, known, booked); k != nil {
		r.found(k.broken(at{actions: []int64{row.ActionID}, node: row.Node, hash: paidaction.Hash(row.PaymentHash).String()},
			"action %d is %s: node %s %s", row.ActionID, state, row.Node, what))
	}
	return nil
}

// judge says how an action that should be at rest disagrees with its invoice at the node; nil if it does not.
func judge(state paidaction.State, there paidaction.NodeInvoice, absent, issued, awaits bool, known db.LossOfRow, booked int64) (k *Kind, what string) {
	paid, unpaid := state == paidaction.Paid, state == paidaction.Failed || state == paidaction.Retrying
	gone := absent || there.State == paidaction.InvoiceCanceled
	switch {
	case paid && gone && (known.Booked || (known.PaidInside && !absent)):
		return nil, "" // a loss that is booked, or an invoice that was paid without the node
	case awaits && unpaid && known.GivenUp && there.Received > there.OnChain: // the payer took only the rest of it back
		return settledUnpaid, fmt.Sprintf("has %d msat of its invoice from channels that were open", there.Received-there.OnChain)
	case (absent || awaits) && unpaid && known.GivenUp:
		return nil, "" // somebody has looked at it
	case absent && (issued || paid):
		return invoiceLost, "does not know its invoice"
	case absent:
		return nil, ""
	case awaits && !paid:
		return onChain, fmt.Sprintf("counts %d msat of its invoice that came from a channel which was closed by force", there.OnChain)
	case there.State == paidaction.InvoiceSettled && !paid:
		return settledUnpaid, fmt.Sprintf("has settled its invoice with %d msat", there.Received)
	case there.State == paidaction.InvoiceCanceled && !unpaid:
		return canceledUnfailed, "has cancelled its invoice"
	case there.State == paidaction.InvoiceAccepted && state.Terminal():
		return stillHeld, "still holds the payment"
	case there.State == paidaction.InvoiceOpen && (paid || unpaid && issued):
		return stillOpen, "still has the invoice open"
	// Payments by keysend after the invoice was settled are not for the action: nobody asked for them, and we are not
	// told of them. They belong to the node, as does what arrives from the chain besides.
	case paid && (booked > int64(there.Received) || booked < int64(there.Received-there.Keysend-there.OnChain)):
		return receivedDiffers, fmt.Sprintf("received %d msat, %d msat are booked", there.Received, booked)
	}
	return nil, ""
}

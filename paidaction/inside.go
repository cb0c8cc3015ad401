package paidaction

import (
	"context"
	"errors"
	"fmt"

	"github.com/jackc/pgx/v5"

	"github.com/a-seed-a7aed72f/holdfast/internal/db"
	"github.com/a-seed-a7aed72f/holdfast/ledger"
)

// A withdrawal to a plain invoice of our own pays the action that the invoice belongs to, without a Lightning payment.
// The invoice is still open at the node, and somebody outside could pay it at this very moment. So we tell the node to
// cancel it first, and book money only once the node says CANCELED (spec 02 §2.4). If it says SETTLED instead, the
// other payment counts and the withdrawal fails.

// debitAndPayInside debits the price of the other action from the balance, and has that action's invoice cancelled.
func (e *Engine) debitAndPayInside(ctx context.Context, pg pgx.Tx, tx *Tx) error {
	other, err := tx.DB.LockAction(ctx, tx.Payout.Inside) // once more (lockForPayout), to read it
	if err != nil {
		return fmt.Errorf("read the action to pay for: %w", err)
	}
	step, ok := FindStep(Flow(other.Flow), State(other.State), PaidInside)
	if !ok || State(other.State) != Pending || Msat(other.CostMsat) != tx.Payout.Amount {
		return Errorf(CodeDuplicate, "This invoice can no longer be paid.")
	}
	inv, err := tx.DB.GetInvoice(ctx, other.ID)
	if err != nil {
		return fmt.Errorf("read the invoice to pay: %w", err)
	}
	n, err := tx.DB.AcceptInside(ctx, db.AcceptInsideParams{ActionID: tx.Action, InsideID: &other.ID, Node: &inv.Node,
		PaymentHash: inv.PaymentHash, Bolt11: tx.Payout.Bolt11, AmountMsat: other.CostMsat, ExpiresAt: tx.Payout.Expires, At: tx.Now})
	if err != nil {
		return fmt.Errorf("note who pays: %w", err)
	}
	if n == 0 {
		return Errorf(CodeDuplicate, "This invoice is being paid, or was already paid.")
	}
	moved, err := writeStep(ctx, tx.DB, db.MoveActionParams{ID: other.ID, FromState: other.State, ToState: string(step.To), At: tx.Now,
		Deadline: e.deadlineAfter(step.To, tx.Now)}, step.When)
	if err != nil {
		return fmt.Errorf("action %d, which is to be paid for: %w", other.ID, err)
	}
	if !moved {
		return fmt.Errorf("action %d, which is to be paid for, has moved on though it is locked", other.ID)
	}
	tx.others = append(tx.others, otherStep{other.ID, step})
	if err := e.Jobs.Insert(ctx, pg, Job{Kind: JobAdvance, Action: other.ID}); err != nil {
		return fmt.Errorf("store its job: %w", err)
	}
	return e.debit(ctx, pg, tx)
}

// paidInside is the withdrawal that pays for an action whose invoice is being cancelled, if there is one.
func (e *Engine) paidInside(ctx context.Context, pa *PaidAction) (*db.PayerInsideRow, error) {
	if pa.Flow != FlowOptimistic || pa.State != Canceling {
		return nil, nil
	}
	by, err := db.New(e.Pool).PayerInside(ctx, &pa.ID)
	if errors.Is(err, pgx.ErrNoRows) {
		return nil, nil
	}
	if err != nil {
		return nil, fmt.Errorf("look for a withdrawal that pays: %w", err)
	}
	return &by, nil
}

// bookInside makes the action count with the money that the withdrawal has set aside, and lets the withdrawal go on:
// the withdrawal gets the preimage, as every payment does.
func (e *Engine) bookInside(ctx context.Context, pg pgx.Tx, def Definition, tx *Tx, row db.PaidAction) error {
	by, err := tx.DB.PayerInside(ctx, &row.ID)
	if err != nil {
		return fmt.Errorf("read the withdrawal that pays: %w", err)
	}
	inv, err := tx.DB.GetInvoice(ctx, row.ID)
	if err != nil {
		return fmt.Errorf("read the invoice: %w", err)
	}
	tx.source = ledger.RoutingSats
	if err := e.book(ctx, pg, def, tx, row.Args, row.Result, Msat(by.AmountMsat)); err != nil {
		return err
	}
	preimage := Preimage(inv.Preimage)
	if err := storePreimages(ctx, tx.DB, tx.Now, known{by.ActionID, &preimage}); err != nil {
		return err
	}
	return e.Jobs.Insert(ctx, pg, Job{Kind: JobAdvance, Action: by.ActionID})
}

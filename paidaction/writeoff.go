package paidaction

import (
	"context"
	"errors"
	"fmt"
	"strings"

	"github.com/a-seed-a7aed72f/holdfast/internal/db"
	"github.com/a-seed-a7aed72f/holdfast/ledger"
)

// ErrNotLost says that nothing can be written off: the action is neither HELD nor is its receiver's preimage known, or
// the node can still tell, or it cannot be asked at the moment.
var ErrNotLost = errors.New("only what a node that has lost its data will never tell can be written off, of an action that is HELD or whose receiver's preimage is known")

// WriteOff ends an action whose outcome nobody will ever know: it was done, or its receiver has given the preimage, and
// the only node that could tell the rest has lost its data. If that node held the payer's payment (HELD or FORWARDED
// for ever), the payment counts as lost, and the action as paid. If it paid the receiver, all but the fee is known, and
// the highest possible fee is booked as the loss. Only an operator can decide this: that a node does not know something
// proves nothing (spec 01 §1.6).
//
// ErrNotLost where it is none of these; ErrNoAction is wrapped where there is no such action.
func (e *Engine) WriteOff(ctx context.Context, id int64, reason string) error {
	pa, err := e.get(ctx, id)
	switch {
	case err != nil:
		return err
	case e.Relay == nil && pa.Flow != FlowPessimistic:
		return fmt.Errorf("no node is configured that could be asked: %w", ErrNotLost)
	case strings.TrimSpace(reason) == "":
		return fmt.Errorf("%w, and with a reason", ErrNotLost)
	case pa.Flow == FlowWrapped && pa.State == Paid:
		return e.writeOffFee(ctx, pa, reason)
	}
	step, ok := FindStep(pa.Flow, pa.State, WrittenOff)
	if !ok {
		return fmt.Errorf("action %d is %s: %w", id, pa.State, ErrNotLost)
	}
	found := finding{fact: WrittenOff, reason: reason}
	if pa.Flow == FlowOutgoing {
		if err := e.outgoingUnknown(ctx, pa); err != nil {
			return err
		}
	} else if err := e.incomingUnknown(ctx, pa); err != nil {
		return fmt.Errorf("%w: %w", ErrNotLost, err)
	}
	switch pa.Flow {
	case FlowWrapped:
		if found.outcome, err = e.Relay.Proceed(ctx, id); err != nil {
			e.Log.WarnContext(ctx, "what the outgoing payment cost is not known yet", "action", id, "error", err)
		}
	case FlowPessimistic: // it has no outgoing payment that the reason could be stored with
		found.failure = &Error{Code: Code(WrittenOff), Message: reason}
	}
	moved, err := e.move(ctx, id, step, found)
	if err == nil && !moved {
		err = fmt.Errorf("action %d has moved on: %w", id, ErrNotLost)
	}
	return err
}

// incomingUnknown is nil if the node that issued the invoice says that it does not know it.
func (e *Engine) incomingUnknown(ctx context.Context, pa *PaidAction) error {
	node, err := e.Nodes.Node(pa.Invoice.Node)
	if err != nil {
		return err
	}
	inv, err := node.LookupInvoice(ctx, pa.Invoice.Hash)
	switch {
	case errors.Is(err, ErrInvoiceNotFound):
		return nil
	case err != nil:
		return fmt.Errorf("node %s: %w", pa.Invoice.Node, err)
	}
	return fmt.Errorf("node %s knows its invoice, which is %s", pa.Invoice.Node, inv.State)
}

// outgoingUnknown is nil if the node that paid says that it does not know the payment.
func (e *Engine) outgoingUnknown(ctx context.Context, pa *PaidAction) error {
	_, err := e.Relay.Proceed(ctx, pa.ID)
	switch {
	case errors.Is(err, ErrPaymentNotFound):
		return nil
	case err != nil:
		return fmt.Errorf("%w: %w", ErrNotLost, err)
	}
	return fmt.Errorf("%w: the payment of action %d is known to its node, or booked", ErrNotLost, pa.ID)
}

// writeOffFee books the outgoing payment of a forward that is PAID.
func (e *Engine) writeOffFee(ctx context.Context, pa *PaidAction, reason string) error {
	if err := e.outgoingUnknown(ctx, pa); err != nil {
		return err
	}
	return e.inTx(ctx, func(q *db.Queries, _ *db.Transaction) error {
		if _, err := q.LockAction(ctx, pa.ID); err != nil {
			return fmt.Errorf("lock the action: %w", err)
		}
		row, err := lostPayment(ctx, q, pa.ID)
		if err != nil {
			return err
		}
		tx := &Tx{DB: q, Action: pa.ID, Now: e.now()}
		if err := noteWriteOff(ctx, tx, reason); err != nil {
			return err
		}
		return payOutUnknown(ctx, tx, row, ledger.RewardSats)
	})
}

// lostPayment locks an outgoing payment that can be written off: its preimage is known, and its cost is not booked.
func lostPayment(ctx context.Context, q *db.Queries, action int64) (db.RelayPayment, error) {
	row, err := q.LockRelay(ctx, action)
	if err != nil {
		return row, fmt.Errorf("lock the outgoing payment: %w", err)
	}
	if Stage(row.Stage) != StagePendingConfirmation || len(row.Preimage) == 0 {
		return row, fmt.Errorf("the payment of action %d is %s: %w", action, row.Stage, ErrNotLost)
	}
	return row, nil
}

// noteWriteOff stores the operator's reason with the payment.
func noteWriteOff(ctx context.Context, tx *Tx, reason string) error {
	if err := tx.DB.WriteOffRelay(ctx, db.WriteOffRelayParams{ActionID: tx.Action, FailureMessage: &reason}); err != nil {
		return fmt.Errorf("note why it is written off: %w", err)
	}
	return nil
}

// payOutUnknown books a payment whose fee nobody knows. The amount has left. The whole budget goes to rest, the account
// that would have got the unused part of it: its owner must not pay for our loss, which is the highest possible fee.
func payOutUnknown(ctx context.Context, tx *Tx, row db.RelayPayment, rest ledger.Account) error {
	if err := payOut(ctx, tx, Outcome{Paid: Msat(row.AmountMsat)}, rest); err != nil || row.BudgetMsat == 0 {
		return err
	}
	return ledger.Post(ctx, tx.DB, &tx.Action, tx.Now, []ledger.Transfer{
		{From: ledger.LossSats, To: ledger.Lightning, Msat: row.BudgetMsat, Reason: "routing fee that nobody knows"}})
}

package paidaction

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/a-seed-a7aed72f/holdfast/internal/db"
	"github.com/a-seed-a7aed72f/holdfast/ledger"
)

// apply does a step's effect inside the transaction that moves the state.
func (e *Engine) apply(ctx context.Context, q *db.Queries, pg *db.Transaction, row db.PaidAction, step Step, found finding, now time.Time) error {
	if step.Effect == Nothing {
		return nil
	}
	def, err := e.definition(row.Kind)
	if err != nil {
		return err
	}
	tx := txOf(q, row, now)
	if step.When == InvoiceIsHeld && found.received < tx.Cost {
		return fmt.Errorf("%d msat of %d are held", found.received, tx.Cost) // not by the invoice that we asked for
	}
	switch step.Effect {
	case PerformAction:
		return e.performHeld(ctx, def, tx, row, found)
	case ClaimForward:
		return e.performAndClaim(ctx, pg, def, tx, row, found)
	case StorePreimage:
		return storePreimages(ctx, q, now, known{row.ID, found.outcome.Preimage})
	case BookAndFinish, BookLoss:
		return e.finish(ctx, pg, def, tx, row, step, found)
	case Refund:
		return e.refund(ctx, def, tx, row)
	case UndoIfDone:
		if row.Result == nil {
			return nil
		}
		return def.onFail(ctx, tx, row.Args, row.Result)
	default:
		return fmt.Errorf("effect %q is applied where an attempt begins", step.Effect)
	}
}

// finish books the money of a paid action, in the way of its flow.
func (e *Engine) finish(ctx context.Context, pg *db.Transaction, def Definition, tx *Tx, row db.PaidAction, step Step, found finding) error {
	if step.When == WrittenOff && step.From == Forwarded {
		if err := noteWriteOff(ctx, tx, found.reason); err != nil {
			return err
		}
	}
	if step.Effect == BookLoss && step.Flow != FlowOutgoing {
		// The payer's payment was lost, and what was done for it stays: the receiver and others get theirs from us (spec
		// 01 §1.8, 3).
		tx.source, found.received = ledger.LossSats, tx.Cost
	}
	switch {
	case step.Flow == FlowWrapped:
		return e.bookForward(ctx, pg, def, tx, row, found)
	case step.Flow == FlowOutgoing:
		return e.bookPayout(ctx, pg, def, tx, row, step, found)
	case step.When == PaidInside:
		return e.bookInside(ctx, pg, def, tx, row)
	}
	return e.book(ctx, pg, def, tx, row.Args, row.Result, found.received)
}

// performHeld performs an action whose payment is held. It computes the price again under the locks of this
// transaction. If the price has changed, the action is refused, never silently charged otherwise (spec 02 §2.2). If we
// have taken the payment already, the old price stands: it was right when we took it.
func (e *Engine) performHeld(ctx context.Context, def Definition, tx *Tx, row db.PaidAction, found finding) error {
	cost, err := def.cost(ctx, tx, row.Args)
	if err != nil {
		return err
	}
	if cost != tx.Cost && !found.taken {
		return Errorf(CodePriceChanged, "The price has changed to %d sats since the invoice was made. Your payment goes back to you.", cost.CeilSats())
	}
	if _, err := perform(ctx, def, tx, row.GenesisID, row.Args); err != nil {
		return err
	}
	return tx.DB.SetReceived(ctx, db.SetReceivedParams{ActionID: row.ID, ReceivedMsat: new(int64(found.received))})
}

// perform does what an attempt is for and stores the result. If the action keeps the work of earlier attempts (keeps),
// it takes that over instead.
func perform(ctx context.Context, def Definition, tx *Tx, genesis *int64, args json.RawMessage) (result json.RawMessage, err error) {
	var before db.PerformedBeforeRow
	if genesis != nil && def.Spec().keeps() {
		before, err = tx.DB.PerformedBefore(ctx, db.PerformedBeforeParams{Genesis: *genesis, ActionID: tx.Action})
		if err != nil && !errors.Is(err, pgx.ErrNoRows) {
			return nil, fmt.Errorf("look for what was performed before: %w", err)
		}
	}
	if before.Result != nil {
		tx.Previous = before.ID
		result, err = def.retry(ctx, tx, args, before.Result)
	} else {
		result, err = def.perform(ctx, tx, args)
	}
	if err != nil {
		return nil, err
	}
	if err := tx.DB.SetResult(ctx, db.SetResultParams{ID: tx.Action, Result: result}); err != nil {
		return nil, fmt.Errorf("store the result: %w", err)
	}
	return result, nil
}

// book makes a paid action count: onPaid, the ledger, and what follows. received is what actually arrived.
func (e *Engine) book(ctx context.Context, pg pgx.Tx, def Definition, tx *Tx, args, result json.RawMessage, received Msat) error {
	if received < tx.Cost {
		return fmt.Errorf("received %d msat of %d", received, tx.Cost)
	}
	if err := def.onPaid(ctx, tx, args, result); err != nil {
		return err
	}
	if err := tx.payExcess(received - tx.Cost); err != nil {
		return err
	}
	if tx.Method.Flow() != FlowBalance {
		if err := tx.DB.SetReceived(ctx, db.SetReceivedParams{ActionID: tx.Action, ReceivedMsat: new(int64(received))}); err != nil {
			return fmt.Errorf("store what was received: %w", err)
		}
	}
	if def.SideEffects() {
		if err := e.Jobs.Insert(ctx, pg, Job{Kind: JobAfterPaid, Action: tx.Action}); err != nil {
			return fmt.Errorf("store the job for after the payment: %w", err)
		}
	}
	return ledger.Post(ctx, tx.DB, &tx.Action, tx.Now, append(tx.transfers, tx.spent...))
}

// payExcess books what arrived beyond the price, if anything: the node sets no upper limit. The payer gets it as
// credits; an anonymous payer's excess goes to the rewards (spec 01 §1.5).
func (tx *Tx) payExcess(excess Msat) error {
	if excess <= 0 {
		return nil
	}
	to := ledger.RewardSats
	if tx.Payer != nil {
		to = ledger.UserCredits(*tx.Payer)
	}
	return tx.Pay(to, excess, "overpaid")
}

package paidaction

import (
	"context"
	"fmt"

	"github.com/a-seed-a7aed72f/holdfast/internal/db"
)

// Cancel gives up an action whose invoice is not paid, and waits for the node's answer. The action may come back PAID:
// a plain invoice can be paid before the node hears of the cancel. Cancel waits for no turn, because money may have to
// go back. Where a receiver could not be paid, it is the payer's no to the attempt that Again would prepare, which might
// take their balance; Retry stays open to them.
//
// Errors: NOT_FOUND where the action is not the caller's, NOT_CANCELABLE where the payment has gone too far or the next
// attempt was begun; TRY_AGAIN where nothing was changed, UNKNOWN_OUTCOME where it may have been: asking again is
// harmless.
func (e *Engine) Cancel(ctx context.Context, c Caller, id int64) (*PaidAction, error) {
	ctx = About(ctx, id)
	doubt, err := LatestDoubt(ctx, db.New(e.Pool)) // before anything that this database may have forgotten
	if err != nil {
		return nil, forCaller(err)
	}
	pa, err := e.Get(ctx, c, id)
	if err != nil {
		return nil, err
	}
	moved := false
	if step, ok := FindStep(pa.Flow, pa.State, CancelRequested); ok {
		if sent, err := e.sentOn(ctx, pa, step); err != nil {
			return nil, Errorf(CodeTryAgain, "We cannot find out right now whether this may be cancelled. Nothing was changed. Try again later.").Because(err)
		} else if sent {
			return nil, notCancelable()
		}
		reason := Errorf(CodeCanceled, "You cancelled the payment.")
		if moved, err = e.move(ctx, id, step, finding{fact: CancelRequested, failure: reason, doubt: doubt}); err != nil {
			return nil, forCaller(err)
		}
	} else if pa.State != Canceling && pa.State != Failed {
		return nil, notCancelable()
	}
	if !moved && pa.Flow == FlowWrapped && !pa.againRefused { // also where the payment failed since we looked
		if err := e.refuseAgain(ctx, id); err != nil {
			return nil, forCaller(err)
		}
	}
	// The job stored with the step sees to the cancel; doing it now spares the caller a wait.
	if _, err := e.Advance(ctx, id); err != nil {
		e.Log.WarnContext(ctx, "the node has not confirmed the cancel yet", "action", id, "error", err)
	}
	if pa, err = e.get(ctx, id); err != nil { // after a step that was committed
		return nil, forCaller(fmt.Errorf("%w: %w", errUnknownCommit, err))
	}
	if pa.State == Retrying { // since we looked
		return nil, notCancelable()
	}
	return e.withSecret(pa), nil
}

func notCancelable() *Error {
	return Errorf(CodeNotCancelable, "This can no longer be cancelled.")
}

package paidaction

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/a-seed-a7aed72f/holdfast/internal/db"
)

// Retry tries a FAILED action again as a new row, its successor: with a new price, and from the balance if that suffices
// now, unless the terms say otherwise. Of two retries at once one wins (spec 01 §1.7). A key makes it repeatable, as that of Request does: asked again with the
// same key it answers with the attempt that it began.
//
// Errors: NOT_FOUND where the action is not the caller's, NOT_RETRYABLE where it is not FAILED, failed too long ago or was
// tried too often, ALREADY_RETRIED where a successor exists, and those of Pay.
func (e *Engine) Retry(ctx context.Context, c Caller, id int64, key string, t Terms) (*PaidAction, error) {
	turn := e.queue(c.User)
	defer turn.Leave()
	pa, err := e.Get(ctx, c, id)
	if err != nil {
		return nil, err
	}
	def, ok := e.actions[pa.Kind]
	if !ok {
		return nil, e.refuseRetry(pa, e.now())
	}
	genesis := pa.Genesis
	a := &attempt{def: def, args: pa.Args, payer: pa.Payer, most: t.MaxCost, number: int16(pa.Attempt) + 1, previous: id, genesis: &genesis, turn: turn, proof: proof{proved: pa.proved}}
	if a.payer == nil {
		a.client = e.ClientHash(c.Client)
	}
	if err := a.repeatable(key, t.Method, fmt.Appendf(nil, "again after %d", id)); err != nil {
		return nil, err
	}
	return e.answer(ctx, a, t.Method)
}

// WillRetry says whether the next attempt of a failed action is prepared without being asked for.
func (e *Engine) WillRetry(pa *PaidAction) bool {
	def, ok := e.actions[pa.Kind]
	return ok && def.Spec().Again && pa.State == Failed && pa.Flow == FlowWrapped && pa.Failure != nil && pa.Failure.Code == CodePaymentFailed &&
		pa.Attempt < e.Settings.MaxPrepared && !pa.againRefused && e.now().Sub(pa.ChangedAt) < e.Settings.RetryWindow
}

// Again prepares the next attempt of an action whose receiver could not be paid: through their next wallet, or, where none is left,
// by another method. A new attempt is a new invoice, so its payer still has to pay it, unless their balance suffices and they did not choose
// to pay otherwise (spec 02 §2.1); where there can be none, its payer is told. It is a job, and may be repeated; ErrNoAction is wrapped where there is no such action.
func (e *Engine) Again(ctx context.Context, id int64) error {
	ctx = About(ctx, id)
	pa, err := e.get(ctx, id)
	if err != nil {
		return err
	}
	if !e.WillRetry(pa) {
		return e.AfterFailed(ctx, id)
	}
	inv, err := db.New(e.Pool).GetInvoice(ctx, id)
	if err != nil {
		return fmt.Errorf("read the invoice of action %d: %w", id, err)
	}
	a := &attempt{def: e.actions[pa.Kind], args: pa.Args, payer: pa.Payer, client: inv.ClientHash, number: int16(pa.Attempt) + 1,
		previous: id, genesis: &pa.Genesis, turn: unordered{}, proof: proof{proved: pa.proved}, chosen: inv.Chosen}
	_, err = e.walk(ctx, a, "")
	// A node that is away now is back in a moment; for how long that is hoped for WillRetry bounds.
	if refusal, ok := AsRefusal(err); ok && refusal.Code != CodeLightningUnavailable {
		e.Log.InfoContext(ctx, "no further attempt is prepared", "action", id, "reason", refusal)
		if err := db.New(e.Pool).RefuseAgain(ctx, db.RefuseAgainParams{ID: id, At: new(e.now())}); err != nil {
			return fmt.Errorf("note that action %d has no next attempt: %w", id, err)
		}
		e.changed(id) // for who waits for one
		return e.AfterFailed(ctx, id)
	}
	return err
}

// lockRetryable locks the attempt that is to be retried, and refuses what may not be.
func (e *Engine) lockRetryable(ctx context.Context, q *db.Queries, id int64, now time.Time) (db.PaidAction, error) {
	row, err := q.LockAction(ctx, id)
	if err != nil {
		return row, fmt.Errorf("lock the failed attempt: %w", err)
	}
	return row, e.refuseRetry(view(db.GetActionRow{PaidAction: row}), now)
}

// refuseRetry is why an action may not be tried again, or nil if it may be.
func (e *Engine) refuseRetry(pa *PaidAction, now time.Time) error {
	_, known := e.actions[pa.Kind]
	_, retryable := FindStep(pa.Flow, Failed, RetryRequested)
	switch {
	case !known:
		return Errorf(CodeNotRetryable, "This kind of action no longer exists.")
	case pa.State == Retrying:
		return Errorf(CodeAlreadyRetried, "This was already tried again. Look at the newer attempt.")
	case pa.State != Failed:
		return Errorf(CodeNotRetryable, "Only what has failed can be tried again.")
	case !retryable:
		return Errorf(CodeNotRetryable, "This cannot be tried again.")
	case now.Sub(pa.ChangedAt) > e.Settings.RetryWindow:
		return Errorf(CodeNotRetryable, "This failed too long ago. Start anew.")
	case pa.Attempt >= e.Settings.MaxAttempts:
		return Errorf(CodeNotRetryable, "This was tried %d times. Start anew.", pa.Attempt)
	}
	return nil
}

// RetryUntil is until when an action may be tried again by its payer; nil where it may not, or no more.
func (e *Engine) RetryUntil(pa *PaidAction) *time.Time {
	if e.refuseRetry(pa, e.now()) != nil {
		return nil
	}
	return new(pa.ChangedAt.Add(e.Settings.RetryWindow))
}

// handOver links the failed attempt to its successor. The unique successor and the compare-and-set are each enough to let
// one retry win; the row is locked besides.
func (e *Engine) handOver(ctx context.Context, q *db.Queries, previous db.PaidAction, successor int64, now time.Time) error {
	step, _ := FindStep(Flow(previous.Flow), Failed, RetryRequested)
	n, err := q.MoveAction(ctx, db.MoveActionParams{ID: previous.ID, FromState: string(step.From), ToState: string(step.To), At: now,
		SuccessorID: &successor})
	if err != nil {
		return fmt.Errorf("hand over to the successor: %w", err)
	}
	if n == 0 {
		return Errorf(CodeAlreadyRetried, "This was already tried again. Look at the newer attempt.")
	}
	return q.InsertHistory(ctx, db.InsertHistoryParams{ActionID: previous.ID, FromState: &previous.State, ToState: string(step.To),
		Fact: string(step.When), At: now})
}

// Cancel gives up an action whose invoice is not paid, and waits for the node's answer. The action may come back PAID: a
// plain invoice can be paid before the node hears of the cancel. It waits for no turn: money may have to go back.
//
// Errors: NOT_FOUND where the action is not the caller's, NOT_CANCELABLE where the payment has gone too far.
func (e *Engine) Cancel(ctx context.Context, c Caller, id int64) (*PaidAction, error) {
	ctx = About(ctx, id)
	pa, err := e.Get(ctx, c, id)
	if err != nil {
		return nil, err
	}
	if step, ok := FindStep(pa.Flow, pa.State, CancelRequested); ok {
		reason := Errorf(CodeCanceled, "You cancelled the payment.")
		if _, err := e.move(ctx, id, step, finding{fact: CancelRequested, failure: reason}); err != nil {
			return nil, forCaller(err)
		}
	} else if pa.State != Canceling && pa.State != Failed {
		return nil, Errorf(CodeNotCancelable, "This can no longer be cancelled.")
	}
	// The job that was stored with the step sees to the cancel; doing it now spares the caller a wait.
	if _, err := e.Advance(ctx, id); err != nil {
		e.Log.WarnContext(ctx, "the node has not confirmed the cancel yet", "action", id, "error", err)
	}
	return e.Get(ctx, c, id)
}

// Get returns an action to its payer. NOT_FOUND for everybody else: nobody learns that it exists.
func (e *Engine) Get(ctx context.Context, c Caller, id int64) (*PaidAction, error) {
	pa, err := e.get(ctx, id)
	if errors.Is(err, ErrNoAction) {
		return nil, errNoAction()
	}
	if err != nil {
		return nil, forCaller(err)
	}
	if !e.owns(c, pa.Payer, pa.Genesis) {
		return nil, errNoAction()
	}
	return e.withSecret(pa), nil
}

func errNoAction() *Error { return Errorf(CodeNotFound, "There is no such action of yours.") }

package paidaction

import (
	"context"
	"fmt"
	"time"

	"github.com/a-seed-a7aed72f/holdfast/internal/db"
)

// Retry tries a FAILED action again as a new row, its successor, at a new price. It pays from the balance if that
// suffices now, unless the terms say otherwise. Of two retries at once, one wins (spec 01 §1.7). A key makes it
// repeatable, as that of Request does: the same key again gives the attempt that it began.
//
// check, unless nil, is called with what would be tried again before anything is begun, and its error is returned. To
// look beforehand would cost the request its place among those of its payer.
//
// Errors: NOT_FOUND where the action is not the caller's, NOT_RETRYABLE where it is not FAILED, failed too long ago or
// was tried too often, ALREADY_RETRIED where a successor exists, and those of check and of Pay.
func (e *Engine) Retry(ctx context.Context, c Caller, id int64, key string, t Terms, check func(*PaidAction) error) (*PaidAction, error) {
	turn := e.queue(c.User)
	defer turn.Leave()
	pa, err := e.Get(ctx, c, id)
	if err != nil {
		return nil, err
	}
	if check != nil {
		if err := check(pa); err != nil {
			return nil, err
		}
	}
	def, ok := e.actions[pa.Kind]
	if !ok {
		return nil, e.refuseRetry(pa, e.now())
	}
	genesis := pa.Genesis
	a := &attempt{def: def, args: pa.Args, payer: pa.Payer, maxCost: t.MaxCost, authorize: c.May, number: int16(pa.Attempt) + 1, previous: id, genesis: &genesis, turn: turn, proof: proof{proved: pa.proved}}
	if a.payer == nil {
		a.client = e.ClientHash(c.Client)
	}
	if err := a.repeatable(key, t.Method, fmt.Appendf(nil, "again after %d", id)); err != nil {
		return nil, err
	}
	// No receiver is asked for what will be refused. What was tried again may have been so under this key.
	if refused := e.refuseRetry(pa, e.now()); refused != nil && (pa.State != Retrying || key == "") {
		return nil, refused
	}
	return e.answer(ctx, a, t.Method)
}

// lockRetryable locks the attempt to be retried, and refuses if it may not be.
func (e *Engine) lockRetryable(ctx context.Context, q *db.Queries, id int64, now time.Time) (db.PaidAction, error) {
	row, err := q.LockAction(ctx, id)
	if err != nil {
		return row, fmt.Errorf("lock the failed attempt: %w", err)
	}
	return row, e.refuseRetry(view(db.GetActionRow{PaidAction: row}), now)
}

// refuseRetry says why an action may not be retried; nil if it may.
func (e *Engine) refuseRetry(pa *PaidAction, now time.Time) error {
	_, known := e.actions[pa.Kind]
	_, retryable := FindStep(pa.Flow, Failed, RetryRequested)
	switch {
	case pa.State == Retrying: // also where its kind is unknown: a newer process may have been paid for the next attempt
		return Errorf(CodeAlreadyRetried, "This was already tried again. Look at the newer attempt.").naming(pa.Successor)
	case !known:
		return Errorf(CodeNotRetryable, "This kind of action is not known here. If it is new, try again in a few minutes.")
	case pa.State != Failed:
		return Errorf(CodeNotRetryable, "Only what has failed can be tried again.")
	case !retryable:
		return Errorf(CodeNotRetryable, "This cannot be tried again.")
	case now.Sub(pa.ChangedAt) > retryWindow:
		return Errorf(CodeNotRetryable, "This failed too long ago. Start again from the beginning.")
	case pa.Attempt >= maxAttempts:
		return Errorf(CodeNotRetryable, "This was tried %d times. Start again from the beginning.", pa.Attempt)
	}
	return nil
}

// RetryUntil is the time until which the payer may retry an action; nil if they may not, or no longer.
func (e *Engine) RetryUntil(pa *PaidAction) *time.Time {
	if e.refuseRetry(pa, e.now()) != nil {
		return nil
	}
	return new(pa.ChangedAt.Add(retryWindow))
}

// handOver links the failed attempt to its successor. The row lock, the unique successor and the compare-and-set each
// suffice to let only one retry win.
func (e *Engine) handOver(ctx context.Context, tx *Tx, previous db.PaidAction) error {
	step, _ := FindStep(Flow(previous.Flow), Failed, RetryRequested)
	moved, err := writeStep(ctx, tx.DB, db.MoveActionParams{ID: previous.ID, FromState: string(step.From), ToState: string(step.To), At: tx.Now,
		SuccessorID: &tx.Action}, step.When)
	if err != nil {
		return fmt.Errorf("hand over to the successor: %w", err)
	}
	if !moved {
		return Errorf(CodeAlreadyRetried, "This was already tried again. Look at the newer attempt.")
	}
	tx.others = append(tx.others, otherStep{previous.ID, step})
	return nil
}

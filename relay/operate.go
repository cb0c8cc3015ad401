package relay

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/a-seed-a7aed72f/holdfast/internal/db"
	"github.com/a-seed-a7aed72f/holdfast/paidaction"
)

// ErrNotRequeued says that the payment did not fail, or that its payer has the money back: sending it now would pay the
// receiver with our money (spec 05.16j).
var ErrNotRequeued = errors.New("the payment is not requeued")

// notRequeued says why, and what to do. A new action is right only once the payment has failed: while it is under way,
// or after it was made, a new one would pay a second time.
func notRequeued(ctx context.Context, q *db.Queries, action int64) error {
	row, err := q.GetRelay(ctx, action)
	switch {
	case errors.Is(err, pgx.ErrNoRows):
		return fmt.Errorf("%w: action %d has none", ErrNotRequeued, action)
	case err != nil:
		return fmt.Errorf("read the payment: %w", err)
	}
	switch paidaction.Stage(row.Stage) {
	case paidaction.StageFailed:
		return fmt.Errorf("%w: what it was to be paid with is on its way back, or back already: start a new action", ErrNotRequeued)
	case paidaction.StagePendingConfirmation, paidaction.StageCompleted:
		return fmt.Errorf("%w: its receiver has been paid", ErrNotRequeued)
	}
	return fmt.Errorf("%w: it has not failed and goes on by itself, and a new action may pay a second time; holdfast relay show %d says where it is", ErrNotRequeued, action)
}

// Requeue puts a failed payment back into the pipeline, unless its money was already given back. DUPLICATE if its hash
// is another payment's by now, UNKNOWN_OUTCOME if the answer to the commit did not come.
func Requeue(ctx context.Context, pool *pgxpool.Pool, action int64, now time.Time) error {
	var put bool
	err := db.InTransaction(ctx, pool, func(tx *db.Transaction) error {
		q := db.New(tx)
		row, err := q.LockAction(ctx, action)
		if errors.Is(err, pgx.ErrNoRows) || (err == nil && paidaction.State(row.State) != paidaction.Forwarding) {
			return notRequeued(ctx, q, action)
		}
		if err != nil {
			return fmt.Errorf("lock the action: %w", err)
		}
		n, err := q.RequeueFailed(ctx, db.RequeueFailedParams{ActionID: action, At: now})
		if db.Violates(err, "relay_payment_hash") {
			return paidaction.Errorf(paidaction.CodeDuplicate,
				"Another payment of the same hash is under way, or was made: this one is not sent again. holdfast relay list shows it.").Because(ErrNotRequeued)
		}
		if err != nil {
			return fmt.Errorf("requeue the payment: %w", err)
		}
		if n == 0 {
			return notRequeued(ctx, q, action)
		}
		put = true
		return nil
	})
	if err != nil && put {
		return paidaction.Errorf(paidaction.CodeUnknownOutcome,
			"It is not known whether the payment was put back. Look with holdfast relay show %d: only in the stage failed it is to be requeued again.", action).Because(err)
	}
	return err
}

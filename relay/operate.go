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
// receiver with our money. Start a new action instead (spec 05.16j).
var ErrNotRequeued = errors.New("the payment did not fail, or what it was to be paid with is on its way back: start a new action")

// Requeue puts a failed payment back into the pipeline, unless its money was already given back. UNKNOWN_OUTCOME if the
// answer to the commit did not come.
func Requeue(ctx context.Context, pool *pgxpool.Pool, action int64, now time.Time) error {
	var put bool
	err := pgx.BeginFunc(ctx, pool, func(tx pgx.Tx) error {
		q := db.New(tx)
		row, err := q.LockAction(ctx, action)
		if errors.Is(err, pgx.ErrNoRows) || (err == nil && paidaction.State(row.State) != paidaction.Forwarding) {
			return ErrNotRequeued
		}
		if err != nil {
			return fmt.Errorf("lock the action: %w", err)
		}
		n, err := q.RequeueFailed(ctx, db.RequeueFailedParams{ActionID: action, At: &now})
		if err != nil {
			return fmt.Errorf("requeue the payment: %w", err)
		}
		if n == 0 {
			return ErrNotRequeued
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

package worker

import (
	"cmp"
	"context"

	"github.com/jackc/pgx/v5"

	"github.com/a-seed-a7aed72f/holdfast/internal/db"
)

// SweepOverdue advances what is past its deadline, once.
func (w *Worker) SweepOverdue(ctx context.Context) {
	moved, err := w.Engine.SweepOverdue(ctx)
	w.Metrics.sweepMoves.WithLabelValues("overdue").Add(float64(moved))
	w.failed(ctx, "sweep of overdue actions", err)
}

// Sweep advances every open action, once.
func (w *Worker) Sweep(ctx context.Context) {
	moved, err := w.Engine.Sweep(ctx)
	w.Metrics.sweepMoves.WithLabelValues("full").Add(float64(moved))
	w.failed(ctx, "sweep of open actions", err)
}

// Turn gives a chore its turn, once.
func (w *Worker) Turn(ctx context.Context, c Chore) {
	ctx, cancel := context.WithTimeout(ctx, cmp.Or(c.Limit, choreTimeout))
	defer cancel()
	w.failed(ctx, c.Name, c.Do(ctx))
}

// foldRounds bounds the rounds of one fold: under steady load there is always something new, and the next turn is a second
// away.
const foldRounds = 50

// Fold folds until nothing is left, or another one is folding the same, each round in a transaction of its own so that rows are locked briefly.
func (w *Worker) Fold(ctx context.Context, f Fold) {
	for range foldRounds {
		rows, err := w.foldOnce(ctx, f)
		w.Metrics.folds.WithLabelValues(f.Name).Add(float64(rows))
		if err != nil || rows == 0 {
			w.failed(ctx, "folding of "+f.Name, err)
			return
		}
	}
}

func (w *Worker) foldOnce(ctx context.Context, f Fold) (rows int, err error) {
	err = w.inTx(ctx, func(q *db.Queries, _ pgx.Tx) error {
		if err := q.PlanOnce(ctx); err != nil {
			return err
		}
		// What a crash forgets of it is there as it was before, to be folded in again; and payments wait less for the rows, and for the disk.
		if err := q.CommitUnflushed(ctx); err != nil {
			return err
		}
		rows, err = f.Fold(ctx, q)
		return err
	})
	return rows, err
}

package worker

import (
	"context"

	"github.com/jackc/pgx/v5"

	"github.com/a-seed-a7aed72f/holdfast/internal/db"
)

// Fold adds appended deltas to the rows they belong to, inside the transaction of q, and returns how many rows it
// touched: 0 when nothing was left.
type Fold struct {
	Name string
	Fold func(ctx context.Context, q *db.Queries) (rows int, err error)
}

// foldRounds limits the rounds of one fold: under steady load there is always something new, and the next turn comes a
// second later.
const foldRounds = 50

// Fold folds until nothing is left, or until another process is folding the same. Each round has its own transaction,
// so that rows are locked only briefly.
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
		// If a crash forgets this commit, the deltas are still there, to be folded in again. Payments wait less for the
		// rows and for the disk.
		if err := q.CommitUnflushed(ctx); err != nil {
			return err
		}
		rows, err = f.Fold(ctx, q)
		return err
	})
	return rows, err
}

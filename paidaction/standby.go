package paidaction

import (
	"context"
	"fmt"

	"github.com/a-seed-a7aed72f/holdfast/internal/db"
)

// StandBy is the job of several actions that took a step together. Nearly always the calls that they owed have been
// made, and one look at all of them suffices. Those that still owe a call get jobs of their own, so that none waits for
// a node at which another one's call hangs. It wraps ErrNoAction where an action does not exist and nothing else is
// left to do.
func (e *Engine) StandBy(ctx context.Context, ids ...int64) error {
	var missing error
	err := e.inTx(ctx, func(q *db.Queries, pg *db.Transaction) error {
		rows, err := q.StatesOf(ctx, ids)
		if err != nil {
			return fmt.Errorf("read the states of actions: %w", err)
		}
		if missing = nil; len(rows) != len(ids) {
			missing = fmt.Errorf("%d of the actions %d: %w", len(ids)-len(rows), ids, ErrNoAction)
		}
		var jobs []Job
		for _, row := range rows {
			if e.owes(Flow(row.Flow), State(row.State), row.Deadline) {
				jobs = append(jobs, Job{Kind: JobAdvance, Action: row.ID})
			}
		}
		if len(jobs) == 0 {
			return nil
		}
		if err := e.Jobs.Insert(ctx, pg, jobs...); err != nil {
			return fmt.Errorf("store the jobs of those that owe a call: %w", err)
		}
		return nil
	})
	if err != nil {
		return err
	}
	return missing
}

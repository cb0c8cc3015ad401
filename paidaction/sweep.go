package paidaction

import (
	"context"
	"fmt"
	"slices"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/a-seed-a7aed72f/holdfast/internal/db"
)

// sweepPage is how many actions a sweep reads at a time.
const sweepPage = 500

// due is an open action and its deadline. The next page of a sweep begins after the last due of this one.
type due struct {
	id       int64
	deadline time.Time
}

// Sweep advances every open action. It runs after a start or a reconnect and from time to time, and finds whatever was
// missed meanwhile. It takes the steps itself: a job that it merely inserted could be refused or lost (spec 01 §1.3).
func (e *Engine) Sweep(ctx context.Context) (moved int, err error) {
	return e.sweep(ctx, func(q *db.Queries, after due) (page []due, err error) {
		rows, err := q.OpenActions(ctx, db.OpenActionsParams{AfterDeadline: after.deadline, AfterID: after.id, Page: sweepPage})
		for _, row := range rows {
			page = append(page, due{row.ID, *row.Deadline})
		}
		return page, err
	})
}

// SweepOverdue advances the actions that are past their deadline. It is cheap, so it runs often. By a clock that is not
// confirmed it does nothing: by one that is ahead it would ask the nodes for all open invoices, again and again.
func (e *Engine) SweepOverdue(ctx context.Context) (moved int, err error) {
	if err := e.ConfirmClock(ctx); err != nil {
		return 0, err
	}
	now := e.now()
	return e.sweep(ctx, func(q *db.Queries, after due) (page []due, err error) {
		rows, err := q.OverdueActions(ctx, db.OverdueActionsParams{At: &now, AfterDeadline: after.deadline, AfterID: after.id, Page: sweepPage})
		for _, row := range rows {
			page = append(page, due{row.ID, *row.Deadline})
		}
		return page, err
	})
}

// sweep advances page after page. Each page begins where the last one ended, not at the front: rows that do not move
// must not keep a sweep from those behind them.
func (e *Engine) sweep(ctx context.Context, read func(q *db.Queries, after due) ([]due, error)) (moved int, err error) {
	after := due{deadline: time.Unix(0, 0)}
	for {
		page, err := read(db.New(e.Pool), after)
		if err != nil {
			return moved, fmt.Errorf("read open actions: %w", err)
		}
		n, err := e.advanceAll(ctx, page)
		moved += n
		if err != nil || len(page) < sweepPage {
			return moved, err
		}
		after = page[len(page)-1]
	}
}

// advanceAll advances each action until it stops moving. One that fails holds up none of the others. However many of a
// page fail, that is one line of the log: while a node is away all of its actions do, in each process and every second.
func (e *Engine) advanceAll(ctx context.Context, actions []due) (int, error) {
	var group errgroup.Group
	group.SetLimit(e.Settings.SweepWorkers)
	moved, failed := make([]int, len(actions)), make([]error, len(actions))
	for i, action := range actions {
		group.Go(func() error {
			for ctx.Err() == nil {
				progress, err := e.Advance(ctx, action.id)
				if failed[i] = err; err != nil {
					e.Log.DebugContext(ctx, "the sweep could not advance an action", "action", action.id, "error", err)
				}
				if progress != Moved {
					return nil
				}
				moved[i]++
			}
			return nil
		})
	}
	_ = group.Wait() // its functions never return an error
	total, failures, first := 0, 0, 0
	for i, err := range slices.Backward(failed) {
		total += moved[i]
		if err != nil {
			failures, first = failures+1, i
		}
	}
	if failures > 0 {
		e.Log.WarnContext(ctx, "the sweep could not advance some actions", "actions", failures, "first", actions[first].id, "error", failed[first])
	}
	return total, ctx.Err()
}

package paidaction

import (
	"context"
	"errors"
	"fmt"
	"sync"
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

// Sweep advances every open action. It runs from time to time, and finds whatever was missed meanwhile. It takes the
// steps itself: a job that it merely inserted could be refused or lost (spec 01 §1.3).
func (e *Engine) Sweep(ctx context.Context) (moved int, err error) {
	return e.sweep(ctx, func(q *db.Queries, after due) (page []due, err error) {
		rows, err := q.OpenActions(ctx, db.OpenActionsParams{AfterDeadline: after.deadline, AfterID: after.id, Page: sweepPage})
		for _, row := range rows {
			page = append(page, due{row.ID, *row.Deadline})
		}
		return page, err
	})
}

// SweepAt advances the open actions whose invoices a node has issued, or whose payments it was given. It runs after a
// start of the node's stream, so that none waits until other nodes have answered.
func (e *Engine) SweepAt(ctx context.Context, node string) (moved int, err error) {
	return e.sweep(ctx, func(q *db.Queries, after due) (page []due, err error) {
		rows, err := q.OpenAt(ctx, db.OpenAtParams{Node: node, AfterDeadline: after.deadline, AfterID: after.id, Page: sweepPage})
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
// must not keep a sweep from those behind them. Nor does a page wait for the last of the one before, whose node may not
// answer.
func (e *Engine) sweep(ctx context.Context, read func(q *db.Queries, after due) ([]due, error)) (moved int, err error) {
	var done swept
	var group errgroup.Group
	group.SetLimit(e.Settings.SweepWorkers)
	after := due{deadline: time.Unix(0, 0)}
	for more := true; more; {
		page, failed := read(db.New(e.Pool), after)
		if failed != nil {
			err = fmt.Errorf("read open actions: %w", failed)
			break
		}
		for _, action := range page {
			group.Go(func() error {
				e.sweepOne(ctx, action.id, &done)
				return nil
			})
			after = action
		}
		more = len(page) == sweepPage && ctx.Err() == nil
	}
	_ = group.Wait() // its functions never return an error
	if done.failures > 0 {
		e.Log.WarnContext(ctx, "the sweep could not advance some actions", "actions", done.failures, "first", done.first, "error", done.why)
	}
	return done.moved, errors.Join(err, ctx.Err())
}

// swept is what a sweep did. However many actions fail, that is one line of the log: while a node is away all of its
// actions do, in each process and every second.
type swept struct {
	mu              sync.Mutex
	moved, failures int
	first           int64 // that could not be advanced
	why             error
}

// sweepOne advances an action until it stops moving. If it fails, it holds up none of the others.
func (e *Engine) sweepOne(ctx context.Context, id int64, done *swept) {
	var err error
	moved, progress := 0, Moved
	for progress == Moved && ctx.Err() == nil {
		if progress, err = e.Advance(ctx, id); progress == Moved {
			moved++
		}
	}
	if err != nil {
		e.Log.DebugContext(ctx, "the sweep could not advance an action", "action", id, "error", err)
	}
	done.mu.Lock()
	defer done.mu.Unlock()
	done.moved += moved
	if err == nil {
		return
	}
	if done.failures++; done.failures == 1 {
		done.first, done.why = id, err
	}
}

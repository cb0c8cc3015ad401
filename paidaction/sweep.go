package paidaction

import (
	"context"
	"fmt"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/a-seed-a7aed72f/holdfast/internal/db"
)

// sweepWorkers bounds how many actions a sweep looks at side by side; sweepPage how many it reads at a time.
const (
	sweepWorkers = 8
	sweepPage    = 500
)

// Sweep advances every open action: after a start or a reconnect, and from time to time, whatever was missed meanwhile is
// found here. It takes the steps itself; a job that it merely inserted could be refused or lost (spec 01 §1.3).
func (e *Engine) Sweep(ctx context.Context) (moved int, err error) {
	after := db.OpenActionsParams{AfterDeadline: time.Unix(0, 0), Page: sweepPage}
	for {
		page, err := db.New(e.Pool).OpenActions(ctx, after)
		if err != nil {
			return moved, fmt.Errorf("read open actions: %w", err)
		}
		ids := make([]int64, len(page))
		for i, row := range page {
			ids[i] = row.ID
		}
		n, err := e.advanceAll(ctx, ids)
		moved += n
		if err != nil || len(page) < sweepPage {
			return moved, err
		}
		last := page[len(page)-1]
		after.AfterDeadline, after.AfterID = *last.Deadline, last.ID
	}
}

// SweepOverdue advances the actions that are past their deadline. It is cheap, and so runs often.
func (e *Engine) SweepOverdue(ctx context.Context) (moved int, err error) {
	ids, err := db.New(e.Pool).OverdueActions(ctx, db.OverdueActionsParams{At: new(e.now()), Page: sweepPage})
	if err != nil {
		return 0, fmt.Errorf("read overdue actions: %w", err)
	}
	return e.advanceAll(ctx, ids)
}

// advanceAll advances each action once, those that moved until they do not. One that fails is logged and holds up none of
// the others.
func (e *Engine) advanceAll(ctx context.Context, ids []int64) (int, error) {
	var group errgroup.Group
	group.SetLimit(sweepWorkers)
	moved := make([]int, len(ids))
	for i, id := range ids {
		group.Go(func() error {
			for ctx.Err() == nil {
				progress, err := e.Advance(ctx, id)
				if err != nil {
					e.Log.WarnContext(ctx, "the sweep could not advance an action", "action", id, "error", err)
				}
				if progress != Moved {
					return nil
				}
				moved[i]++
			}
			return nil
		})
	}
	_ = group.Wait()
	total := 0
	for _, n := range moved {
		total += n
	}
	return total, ctx.Err()
}

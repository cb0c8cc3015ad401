package worker

import (
	"context"
	"fmt"

	"github.com/jackc/pgx/v5"

	"github.com/a-seed-a7aed72f/holdfast/internal/db"
	"github.com/a-seed-a7aed72f/holdfast/paidaction"
)

// workOffHeights handles the heights that the node reports; of several that wait, only the latest.
func (l *Listener) workOffHeights(ctx context.Context) error {
	for {
		select {
		case <-ctx.Done():
			return ctx.Err()
		case height := <-l.heights:
			if err := l.retry(ctx, "blocks", func(ctx context.Context) error { return l.OnHeight(ctx, height) }); err != nil {
				return err
			}
		}
	}
}

// alarmBlocks is how many blocks before the safety height of a held payment the alarm is raised.
const alarmBlocks = 24

// OnHeight stores a job for every held payment whose safety height is reached, and raises the alarm for those close to
// it (spec 01 §1.5). It may be repeated. Where the next move is ours there is a job that makes it already: one more, when
// the height is reached, makes it now; one more with each block would be thousands while a node is away, and none of them
// ends before the action does.
func (l *Listener) OnHeight(ctx context.Context, height uint32) error {
	near := 0
	err := l.inTx(ctx, func(q *db.Queries, tx pgx.Tx) error {
		if err := q.MoveHeight(ctx, db.MoveHeightParams{Node: l.node, Height: int32(height)}); err != nil {
			return fmt.Errorf("store the height: %w", err)
		}
		rows, err := q.ActionsDueAtHeight(ctx, db.ActionsDueAtHeightParams{Height: new(int32(height + alarmBlocks)), Node: l.node})
		if err != nil {
			return fmt.Errorf("find held payments near their safety height: %w", err)
		}
		near = len(rows)
		var due []paidaction.Job
		for _, row := range rows {
			safety := uint32(*row.DeadlineHeight)
			l.Log.ErrorContext(ctx, "ALARM: a held payment is close to its safety height and not settled", "action", row.ID,
				"node", l.node, "height", height, "safety_height", safety)
			if height >= safety && (l.told < safety || !paidaction.State(row.State).Ours()) {
				due = append(due, paidaction.Job{Kind: paidaction.JobAdvance, Action: row.ID})
			}
		}
		return l.Jobs.Insert(ctx, tx, due...)
	})
	if err != nil {
		return err
	}
	l.told = max(l.told, height)
	l.Metrics.alarms.WithLabelValues(l.node).Set(float64(near))
	l.Metrics.height.WithLabelValues(l.node).Set(float64(height))
	return nil
}

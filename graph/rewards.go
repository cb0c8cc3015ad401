package graph

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/a-seed-a7aed72f/holdfast/graph/internal/schema"
	"github.com/a-seed-a7aed72f/holdfast/internal/db"
)

func (q queries) Rewards(ctx context.Context, day *time.Time) (*db.RewardDay, error) {
	row, err := q.reads().RewardDay(ctx, day)
	if errors.Is(err, pgx.ErrNoRows) {
		return nil, nil
	}
	if err != nil {
		return nil, fmt.Errorf("read the rewards of a day: %w", err)
	}
	return &row, nil
}

func (r rewardDays) Receivers(ctx context.Context, day *db.RewardDay, first int, after *int64) (*schema.RewardPage, error) {
	if err := r.Limits.checkList(first); err != nil {
		return nil, err
	}
	rows, err := r.reads().RewardsOfDay(ctx, db.RewardsOfDayParams{Day: day.Day, After: orElse(after, 0), Page: int32(first) + 1})
	if err != nil {
		return nil, fmt.Errorf("read rewards: %w", err)
	}
	page := &schema.RewardPage{}
	rows, page.Next = cut(rows, first, func(r db.Reward) int64 { return r.Rank })
	for _, row := range rows {
		page.Nodes = append(page.Nodes, &row)
	}
	return page, nil
}

func (rewards) User(ctx context.Context, r *db.Reward) (*db.Usr, error) {
	return loadersOf(ctx).users.Load(ctx, r.UserID)
}

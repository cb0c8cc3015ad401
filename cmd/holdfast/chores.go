package main

import (
	"context"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/a-seed-a7aed72f/holdfast/community"
	"github.com/a-seed-a7aed72f/holdfast/internal/db"
	"github.com/a-seed-a7aed72f/holdfast/worker"
)

// chores are what the application does by the clock, whoever pays or not.
func (s *service) chores() []worker.Chore {
	prices := s.config.Prices.Community()
	return []worker.Chore{
		{Name: "daily rewards", Every: time.Minute, Do: s.inTx(func(ctx context.Context, q *db.Queries, now time.Time) error {
			_, err := community.PayRewards(ctx, q, now, prices)
			return err
		})},
		{Name: "dropping of invoices", Every: time.Minute, Do: s.untilDone(community.DropInvoices)},
	}
}

// inTx is a chore of one transaction; now is the moment it began.
func (s *service) inTx(do func(ctx context.Context, q *db.Queries, now time.Time) error) func(context.Context) error {
	return func(ctx context.Context) error {
		return pgx.BeginFunc(ctx, s.pool, func(tx pgx.Tx) error { return do(ctx, db.New(tx), time.Now().UTC()) })
	}
}

// untilDone is a chore of as many transactions as find something to do.
func (s *service) untilDone(do func(ctx context.Context, q *db.Queries, now time.Time) (found bool, err error)) func(context.Context) error {
	return func(ctx context.Context) error {
		for found := true; found; {
			err := s.inTx(func(ctx context.Context, q *db.Queries, now time.Time) (err error) {
				found, err = do(ctx, q, now)
				return err
			})(ctx)
			if err != nil {
				return err
			}
		}
		return nil
	}
}

package main

import (
	"context"
	"errors"
	"fmt"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/a-seed-a7aed72f/holdfast/internal/db"
)

type itemsCommand struct {
	Unforward itemsUnforward `cmd:"" changes:"" help:"Let an item forward its zaps to nobody: from then on its author gets them."`
}

type itemsUnforward struct {
	Item int64 `arg:"" help:"The item's number."`
}

// forwardEnded is a share as shown to an operator.
type forwardEnded struct {
	Name string `json:"user"`
	Pct  int16  `json:"pct"`
}

// Run says whose shares have ended. It fails if there were none, so that a mistyped number is not believed to be the
// item's.
func (c itemsUnforward) Run(ctx context.Context, e *environment) error {
	return withDatabase(ctx, e, func(pool *pgxpool.Pool, _ *db.Queries) error {
		var shown []forwardEnded
		err := db.InTransaction(ctx, pool, func(tx *db.Transaction) error {
			q := db.New(tx)
			_, err := q.LockItem(ctx, c.Item) // a change of it that is being applied waits, or is done by now
			if err != nil && !errors.Is(err, pgx.ErrNoRows) {
				return err
			}
			rows, err := q.EndForwards(ctx, c.Item)
			for _, row := range rows {
				shown = append(shown, forwardEnded(row))
			}
			return err
		})
		if err != nil {
			return err
		}
		if len(shown) == 0 {
			return fmt.Errorf("item %d forwards its zaps to nobody, or there is no such item", c.Item)
		}
		return e.print(shown, func(t *table) {
			t.row("user", "percent")
			for _, f := range shown {
				t.row(f.Name, f.Pct)
			}
		})
	})
}

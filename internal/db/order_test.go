package db_test

import (
	"context"
	"fmt"
	"slices"
	"testing"

	"github.com/jackc/pgx/v5"

	"github.com/a-seed-a7aed72f/holdfast/internal/db"
	"github.com/a-seed-a7aed72f/holdfast/internal/pgtest"
)

// What changes the rows of a list without having locked them locks them in the order of the list, whatever PostgreSQL knew of the table when it planned that: behind
// a row that somebody else has locked, nothing is locked yet.
func TestRowsAreLockedInTheOrderOfTheirList(t *testing.T) {
	t.Parallel()
	list := []int64{17, 33, 49, 65, 81}
	for name, c := range map[string]struct {
		fill   string // with so many rows, in the order opposite to that of their keys
		rows   string // those of the list, by their keys
		change func(ctx context.Context, q *db.Queries) error
	}{
		"DebitUnseen": {
			fill: `INSERT INTO account (id, balance) SELECT 16 * n + 1, 100 FROM generate_series(%d, 1, -1) AS n`,
			rows: `SELECT id FROM account WHERE id = ANY ($1) ORDER BY id`,
			change: func(ctx context.Context, q *db.Queries) error {
				return q.DebitUnseen(ctx, db.DebitUnseenParams{Ids: list, Msats: []int64{1, 1, 1, 1, 1}})
			},
		},
		"FoldItems": {
			fill: `ALTER TABLE item_count DROP CONSTRAINT item_count_item_id_fkey; -- of items that nobody has made
				INSERT INTO item_count (item_id, listed, created_at) SELECT 16 * n + 1, true, now() FROM generate_series(%d, 1, -1) AS n;
				INSERT INTO item_delta (item_id, upvotes) SELECT item_id, 1 FROM item_count`,
			rows: `SELECT item_id FROM item_count WHERE item_id = ANY ($1) ORDER BY item_id`,
			change: func(ctx context.Context, q *db.Queries) error {
				_, err := q.FoldItems(ctx, 10_000)
				return err
			},
		},
	} {
		for table, fill := range map[string]string{
			"planned for nothing":      fmt.Sprintf(c.fill, 5),
			"planned for five rows":    fmt.Sprintf(c.fill, 5) + "; ANALYZE",
			"planned for ten thousand": fmt.Sprintf(c.fill, 10_000) + "; ANALYZE",
		} {
			t.Run(name+", "+table, func(t *testing.T) {
				t.Parallel()
				ctx, pool := t.Context(), pgtest.New(t)
				begin := func() pgx.Tx {
					tx, err := pool.Begin(ctx)
					if err != nil {
						t.Fatal(err)
					}
					return tx
				}
				if _, err := pool.Exec(ctx, fill); err != nil {
					t.Fatal(err)
				}
				holder := begin()
				defer func() { _ = holder.Rollback(context.WithoutCancel(ctx)) }()
				if _, err := holder.Exec(ctx, c.rows+" FOR NO KEY UPDATE", list[2:3]); err != nil {
					t.Fatal(err)
				}
				changed := make(chan error, 1)
				go func() {
					changed <- db.InTransaction(ctx, pool, func(tx *db.Transaction) error {
						q := db.New(tx)
						if err := q.PlanOnce(ctx); err != nil {
							return err
						}
						return c.change(ctx, q)
					})
				}()
				for waits := false; !waits; {
					if err := pool.QueryRow(ctx, `SELECT EXISTS (SELECT FROM pg_stat_activity
						WHERE datname = current_database() AND wait_event_type = 'Lock')`).Scan(&waits); err != nil {
						t.Fatal(err)
					}
				}
				rows, err := pool.Query(ctx, c.rows+" FOR NO KEY UPDATE SKIP LOCKED", list)
				if err != nil {
					t.Fatal(err)
				}
				free, err := pgx.CollectRows(rows, pgx.RowTo[int64])
				if err != nil || !slices.Equal(free, list[3:]) {
					t.Errorf("%d are free, %v; want %d", free, err, list[3:])
				}
				if err := holder.Commit(ctx); err != nil {
					t.Fatal(err)
				}
				if err := <-changed; err != nil {
					t.Error(err)
				}
			})
		}
	}
}

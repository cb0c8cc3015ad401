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

// A statement that changes the rows of a list without having locked them locks them in the order of the list, whatever
// PostgreSQL knew of the table when it planned that. While it waits for a row that somebody else has locked, it has
// locked no later row. And it adds to what the other has changed meanwhile.
func TestRowsAreLockedInTheOrderOfTheirList(t *testing.T) {
	t.Parallel()
	list := []int64{17, 33, 49, 65, 81}
	for name, c := range map[string]struct {
		fill   string // with so many rows, in the order opposite to that of their keys
		rows   string // those of the list, by their keys
		give   string // what its holder does with the one that is locked
		want   string // whether that and the change have both come to it
		change func(ctx context.Context, q *db.Queries) error
	}{
		"DebitUnseen": {
			fill: `INSERT INTO account (id, balance) SELECT 16 * n + 1, 100 FROM generate_series(%d, 1, -1) AS n`,
			rows: `SELECT id FROM account WHERE id = ANY ($1) ORDER BY id`,
			give: `UPDATE account SET balance = balance + 1000 WHERE id = ANY ($1)`,
			want: `SELECT balance = 1099 FROM account WHERE id = ANY ($1)`,
			change: func(ctx context.Context, q *db.Queries) error {
				return q.DebitUnseen(ctx, db.DebitUnseenParams{Ids: list, Msats: []int64{1, 1, 1, 1, 1}})
			},
		},
		"FoldOldest": {
			fill: `INSERT INTO account (id, balance) SELECT 16 * n + 1, 0 FROM generate_series(%d, 1, -1) AS n;
				INSERT INTO balance_delta (account_id, msat) SELECT id, 1 FROM account WHERE id > 16`,
			rows: `SELECT id FROM account WHERE id = ANY ($1) ORDER BY id`,
			give: `UPDATE account SET balance = balance + 1000 WHERE id = ANY ($1)`,
			want: `SELECT balance = 1001 FROM account WHERE id = ANY ($1)`,
			change: func(ctx context.Context, q *db.Queries) error {
				_, err := q.FoldOldest(ctx, 10_000)
				return err
			},
		},
		"FoldItems": {
			fill: `ALTER TABLE item_count DROP CONSTRAINT item_count_item_id_fkey; -- of items that nobody has made
				INSERT INTO item_count (item_id, listed, created_at) SELECT 16 * n + 1, true, now() FROM generate_series(%d, 1, -1) AS n;
				INSERT INTO item_delta (item_id, upvotes) SELECT item_id, 1 FROM item_count`,
			rows: `SELECT item_id FROM item_count WHERE item_id = ANY ($1) ORDER BY item_id`,
			give: `UPDATE item_count SET upvotes = upvotes + 1000 WHERE item_id = ANY ($1)`,
			want: `SELECT upvotes = 1001 FROM item_count WHERE item_id = ANY ($1)`,
			change: func(ctx context.Context, q *db.Queries) error {
				_, err := q.FoldItems(ctx, 10_000)
				return err
			},
		},
		"FoldPolls": {
			fill: `ALTER TABLE poll_option DROP CONSTRAINT poll_option_item_id_fkey; -- of polls that nobody has made, by nobody
				ALTER TABLE poll_vote DROP CONSTRAINT poll_vote_action_id_fkey, DROP CONSTRAINT poll_vote_user_id_fkey;
				INSERT INTO poll_option (id, item_id, position, text) OVERRIDING SYSTEM VALUE SELECT 16 * n + 1, n, 1, 'x' FROM generate_series(%d, 1, -1) AS n;
				INSERT INTO poll_vote (action_id, item_id, option_id, user_id, state) SELECT id, item_id, id, 1, 'PAID' FROM poll_option`,
			rows: `SELECT id FROM poll_option WHERE id = ANY ($1) ORDER BY id`,
			give: `UPDATE poll_option SET votes = votes + 1000 WHERE id = ANY ($1)`,
			want: `SELECT votes = 1001 FROM poll_option WHERE id = ANY ($1)`,
			change: func(ctx context.Context, q *db.Queries) error {
				_, err := q.FoldPolls(ctx, 10_000)
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
				if _, err := holder.Exec(ctx, c.give, list[2:3]); err != nil {
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
				var both bool
				if err := pool.QueryRow(ctx, c.want, list[2:3]).Scan(&both); err != nil || !both {
					t.Errorf("one of the two changes is lost, %v", err)
				}
			})
		}
	}
}

// Two that fold at the same time take different deltas: the second neither waits for the first, nor counts anything
// twice.
func TestTwoFoldsTakeDifferentDeltas(t *testing.T) {
	t.Parallel()
	ctx, pool := t.Context(), pgtest.New(t)
	if _, err := pool.Exec(ctx, `ALTER TABLE item_count DROP CONSTRAINT item_count_item_id_fkey; -- of items that nobody has made
		INSERT INTO item_count (item_id, listed, created_at) SELECT n, true, now() FROM generate_series(1, 5) AS n;
		INSERT INTO item_delta (item_id, upvotes) SELECT n, n FROM generate_series(1, 5) AS n`); err != nil {
		t.Fatal(err)
	}
	var folds [2]pgx.Tx
	for i, items := range []int64{2, 3} {
		tx, err := pool.Begin(ctx)
		if err != nil {
			t.Fatal(err)
		}
		defer func() { _ = tx.Rollback(context.WithoutCancel(ctx)) }()
		q := db.New(tx)
		if err := q.PlanOnce(ctx); err != nil {
			t.Fatal(err)
		}
		if _, err := tx.Exec(ctx, `SET LOCAL lock_timeout = '5s'`); err != nil {
			t.Fatal(err)
		}
		if n, err := q.FoldItems(ctx, int32(2+10*i)); err != nil || n != items {
			t.Fatalf("%d items were folded, want %d; %v", n, items, err)
		}
		folds[i] = tx
	}
	for _, tx := range folds {
		if err := tx.Commit(ctx); err != nil {
			t.Fatal(err)
		}
	}
	var wrong, left int
	if err := pool.QueryRow(ctx, `SELECT (SELECT count(*) FROM item_count WHERE upvotes <> item_id), (SELECT count(*) FROM item_delta)`).Scan(&wrong, &left); err != nil ||
		wrong != 0 || left != 0 {
		t.Errorf("%d items count something else, %d deltas are left, %v", wrong, left, err)
	}
}

package migrations_test

import (
	"context"
	"testing"

	"github.com/a-seed-a7aed72f/holdfast/internal/pgtest"
	"github.com/a-seed-a7aed72f/holdfast/migrations"
)

// Items from before there were kinds get theirs; on the way down each stays an item, a bio too.
func TestItemsSurviveTheKinds(t *testing.T) {
	t.Parallel()
	ctx := context.Background()
	pool := pgtest.New(t)
	dsn := pool.Config().ConnString()
	exec := func(sql string) {
		t.Helper()
		if _, err := pool.Exec(ctx, sql); err != nil {
			t.Fatal(err)
		}
	}
	downTo(t, dsn, 10)
	exec(`INSERT INTO usr (name, created_at) VALUES ('author', '2026-01-01')`)
	exec(`INSERT INTO paid_action (kind, flow, method, state, payer_id, cost_msat, created_at, changed_at, args)
		VALUES ('ITEM_CREATE', 'BALANCE', 'FEE_CREDIT', 'PAID', 1, 1000, '2026-01-01', '2026-01-01', '{}')`)
	exec(`INSERT INTO item (author_id, action_id, state, ancestors, title, body, created_at) VALUES (1, 1, 'PAID', '{}', 'post', '', '2026-01-01')`)
	exec(`INSERT INTO item (author_id, action_id, state, parent_id, ancestors, body, created_at) VALUES (1, 1, 'PAID', 1, '{1}', 'comment', '2026-01-01')`)
	if err := migrations.Up(ctx, dsn); err != nil {
		t.Fatal(err)
	}
	var kinds string
	if err := pool.QueryRow(ctx, `SELECT string_agg(kind::text, ' ' ORDER BY id) FROM item`).Scan(&kinds); err != nil || kinds != "POST COMMENT" {
		t.Errorf("the kinds are %s, %v", kinds, err)
	}
	exec(`INSERT INTO item (kind, author_id, action_id, state, ancestors, body, created_at) VALUES ('BIO', 1, 1, 'PAID', '{}', 'me', '2026-01-01')`)
	downTo(t, dsn, 10)
	var items int
	if err := pool.QueryRow(ctx, `SELECT count(*) FROM item`).Scan(&items); err != nil || items != 3 {
		t.Errorf("%d items, %v", items, err)
	}
}

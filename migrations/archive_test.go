package migrations_test

import (
	"context"
	"strings"
	"testing"

	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/a-seed-a7aed72f/holdfast/internal/pgtest"
	"github.com/a-seed-a7aed72f/holdfast/migrations"
)

// downTo takes migrations back until the version is below the given one.
func downTo(t *testing.T, dsn string, version uint) {
	t.Helper()
	for v := version; v >= version; {
		err := down(context.Background(), dsn)
		if err == nil {
			v, _, err = migrations.Version(context.Background(), dsn)
		}
		if err != nil {
			t.Fatal(err)
		}
	}
}

// one is what a query returns, as text.
func one(t *testing.T, pool *pgxpool.Pool, sql string) (text string) {
	t.Helper()
	if err := pool.QueryRow(context.Background(), "SELECT ("+sql+")::text").Scan(&text); err != nil {
		t.Fatalf("%s: %v", sql, err)
	}
	return text
}

func do(t *testing.T, pool *pgxpool.Pool, statements ...string) {
	t.Helper()
	for _, sql := range statements {
		if _, err := pool.Exec(context.Background(), sql); err != nil {
			t.Fatalf("%s: %v", sql, err)
		}
	}
}

// Every row of a database that was in use is there after the way up, in the partition of its action or, of no action, with the rest; and numbers go on
// after the last. So it is on the way down, with those that were archived meanwhile.
func TestRowsSurvivePartitions(t *testing.T) {
	t.Parallel()
	ctx := context.Background()
	pool := pgtest.New(t)
	dsn := pool.Config().ConnString()
	rows := func() string {
		t.Helper()
		return one(t, pool, `SELECT string_agg(h::text, ' ' ORDER BY id) FROM action_history h`) + one(t, pool, `SELECT string_agg(p::text, ' ' ORDER BY id) FROM posting p`)
	}
	where := func(table string) string {
		t.Helper()
		return one(t, pool, `SELECT string_agg(DISTINCT tableoid::regclass::text || CASE WHEN action_id IS NULL THEN ' of none' ELSE '' END, ', ') FROM `+table)
	}
	downTo(t, dsn, 36)
	do(t, pool, `INSERT INTO usr (name, created_at) VALUES ('payer', '2026-01-01')`,
		`INSERT INTO paid_action (kind, flow, method, state, cost_msat, created_at, changed_at, args, result)
			SELECT 'ZAP', 'BALANCE', 'ZERO_COST', 'PAID', 0, '2026-01-01', '2026-01-01', '{}', '{}' FROM generate_series(1, 20)`,
		`INSERT INTO action_history (action_id, to_state, fact, at) SELECT id, 'PAID', 'REQUESTED', '2026-01-01' FROM paid_action ORDER BY id`,
		`INSERT INTO posting (action_id, from_account, to_account, msat, reason, at) SELECT nullif(id % 10, 0), 3, 17, id, 'zap', '2026-01-01' FROM paid_action ORDER BY id`,
		`INSERT INTO webhook (url, events, secret, created_at) VALUES ('https://example.org', '{}', '', '2026-01-01')`,
		`INSERT INTO webhook_message (webhook_id, step_id, type, created_at) SELECT 1, nullif(id, 20), 'action.paid', '2026-01-01' FROM action_history`)
	before := rows()
	if err := migrations.Up(ctx, dsn); err != nil {
		t.Fatal(err)
	}
	if rows() != before {
		t.Error("rows have changed on the way up")
	}
	if history, postings := where("action_history"), where("posting"); history != "action_history_1" || postings != "posting_1, posting_rest of none" {
		t.Errorf("the history is in %s, postings are in %s", history, postings)
	}
	if n := one(t, pool, `SELECT count(*) FROM webhook_message m JOIN action_history h ON h.id = m.step_id AND h.action_id = m.action_id`); n != "19" {
		t.Errorf("%s messages know their action", n)
	}
	do(t, pool, `INSERT INTO posting (action_id, from_account, to_account, msat, reason, at) VALUES (NULL, 3, 17, 21, 'reward', '2026-01-02')`,
		`INSERT INTO action_history (action_id, to_state, fact, at) VALUES (20, 'PAID', 'REQUESTED', '2026-01-02')`)
	if posting, step := one(t, pool, `SELECT max(id) FROM posting`), one(t, pool, `SELECT max(id) FROM action_history`); posting != "21" || step != "21" {
		t.Errorf("the next posting is number %s, the next step %s", posting, step)
	}
	before = rows()
	do(t, pool, `DELETE FROM webhook_message`, `UPDATE action_range SET archived_at = '2026-01-03', steps = 21, postings = 18 WHERE first_action = 1`, `SELECT detach_action_range(1)`)
	if n := one(t, pool, `SELECT count(*) FROM action_history`); n != "0" {
		t.Errorf("%s steps are not archived", n)
	}
	downTo(t, dsn, 36)
	if rows() != before {
		t.Error("rows have changed on the way down")
	}
	if err := migrations.Up(ctx, dsn); err != nil {
		t.Fatal(err)
	}
	if rows() != before || one(t, pool, `SELECT count(*) FROM action_range WHERE archived_at IS NOT NULL`) != "0" {
		t.Error("rows have changed on the second way up")
	}
}

// A database of many actions has them all in the first range, and room for twenty millions more.
func TestTheFirstRangeHoldsAllThereIs(t *testing.T) {
	t.Parallel()
	pool := pgtest.New(t)
	dsn := pool.Config().ConnString()
	downTo(t, dsn, 36)
	do(t, pool, `SELECT setval('paid_action_id_seq', 30000000)`)
	if err := migrations.Up(context.Background(), dsn); err != nil {
		t.Fatal(err)
	}
	if ranges := one(t, pool, `SELECT string_agg(first_action || ' to ' || last_action, ', ' ORDER BY first_action) FROM action_range`); ranges !=
		"1 to 30000000, 30000001 to 40000000, 40000001 to 50000000" {
		t.Error(ranges)
	}
}

// What was archived and then dropped cannot come back: the way down refuses, and changes nothing.
func TestTheWayDownNeedsWhatIsArchived(t *testing.T) {
	t.Parallel()
	pool := pgtest.New(t)
	dsn := pool.Config().ConnString()
	downTo(t, dsn, 37)
	do(t, pool, `UPDATE action_range SET archived_at = '2026-01-03', steps = 0, postings = 0 WHERE first_action = 1`, `SELECT detach_action_range(1)`,
		`DROP TABLE archive.posting_1`)
	if err := down(context.Background(), dsn); err == nil || !strings.Contains(err.Error(), "posting_1") {
		t.Fatalf("the way down: %v", err)
	}
	if v, dirty, err := migrations.Version(context.Background(), dsn); err != nil || v != 36 || dirty {
		t.Errorf("version %d, dirty %t, %v", v, dirty, err)
	}
	if n := one(t, pool, `SELECT count(*) FROM archive.action_history_1`); n != "0" || one(t, pool, `SELECT relkind FROM pg_class WHERE oid = 'posting'::regclass`) != "p" {
		t.Error("it was taken back by half")
	}
}

// A partition that was made or attached without the trigger that refuses TRUNCATE is archived like any other, and the way
// down takes it as it is.
func TestAPartitionWithoutItsTriggerIsArchived(t *testing.T) {
	t.Parallel()
	pool := pgtest.New(t)
	do(t, pool, `DROP TRIGGER posting_not_truncated ON posting_1`,
		`UPDATE action_range SET archived_at = '2026-01-03', steps = 0, postings = 0 WHERE first_action = 1`, `SELECT detach_action_range(1)`)
	if there := one(t, pool, `SELECT to_regclass('archive.posting_1') IS NOT NULL AND to_regclass('archive.action_history_1') IS NOT NULL`); there != "true" {
		t.Error("the range is not archived")
	}
	do(t, pool, `DROP TRIGGER posting_not_truncated ON posting_rest`)
	downTo(t, pool.Config().ConnString(), 61)
}

package db_test

import (
	"context"
	"errors"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/a-seed-a7aed72f/holdfast/internal/db"
	"github.com/a-seed-a7aed72f/holdfast/internal/pgtest"
)

var errPlanned = errors.New("planned, and not executed")

// planner has every statement planned for its arguments, but not executed.
type planner struct {
	t    *testing.T
	pool *pgxpool.Pool
	plan string
}

func (p *planner) explain(ctx context.Context, sql string, args []any) {
	p.t.Helper()
	rows, err := p.pool.Query(ctx, "EXPLAIN (COSTS OFF) "+sql, args...)
	if err != nil {
		p.t.Fatal(err)
	}
	lines, err := pgx.CollectRows(rows, pgx.RowTo[string])
	if err != nil {
		p.t.Fatalf("%s: %v", sql, err)
	}
	p.plan = strings.Join(lines, "\n")
}

func (p *planner) Exec(ctx context.Context, sql string, args ...any) (pgconn.CommandTag, error) {
	p.explain(ctx, sql, args)
	return pgconn.CommandTag{}, errPlanned
}

func (p *planner) Query(ctx context.Context, sql string, args ...any) (pgx.Rows, error) {
	p.explain(ctx, sql, args)
	return nil, errPlanned
}

func (p *planner) QueryRow(ctx context.Context, sql string, args ...any) pgx.Row {
	p.explain(ctx, sql, args)
	return planned{}
}

type planned struct{}

func (planned) Scan(...any) error { return errPlanned }

const partitions = 5 // of each: four ranges, and the rest

var readOf = regexp.MustCompile(`(?m)(Index (?:Only )?Scan|Bitmap Heap Scan|Seq Scan).* on ((?:posting|action_history)_\w+)`)

// parts are the partitions that a plan reads, and those among them that it scans as a whole although they are large.
func (p *planner) parts() (read, whole []string) {
	for _, m := range readOf.FindAllStringSubmatch(p.plan, -1) {
		read = append(read, m[2])
		if m[1] == "Seq Scan" && !strings.HasSuffix(m[2], "_rest") {
			whole = append(whole, m[2])
		}
	}
	slices.Sort(read)
	return slices.Compact(read), whole
}

// What belongs to an action is read only in its partition, by an index; what belongs to an account, and what is newest,
// from the ends of all partitions.
func TestPartitionsAreReadByIndexes(t *testing.T) {
	t.Parallel()
	p := &planner{t: t, pool: pgtest.New(t)}
	ctx, q, now := t.Context(), db.New(p), time.Now()
	for _, sql := range []string{
		`DO $$ DECLARE first_one bigint; BEGIN
			FOR first_one IN DELETE FROM action_range RETURNING first_action LOOP
				EXECUTE format('DROP TABLE %I, %I', 'action_history_' || first_one, 'posting_' || first_one);
			END LOOP; END $$`,
		`SELECT make_action_ranges(5000, 3)`,
		`INSERT INTO paid_action (kind, flow, method, state, cost_msat, created_at, changed_at, args, result)
			SELECT 'ZAP', 'BALANCE', 'FEE_CREDIT', 'PAID', 1000, '2026-01-01', '2026-01-01', '{}', '{}' FROM generate_series(1, 20000)`,
		`INSERT INTO action_history (action_id, to_state, fact, at) SELECT id, 'PAID', 'REQUESTED', '2026-01-01' FROM paid_action ORDER BY id`,
		`INSERT INTO posting (action_id, from_account, to_account, msat, reason, at)
			SELECT id, (2 + id % 5) * 16 + 1, 17 + part * 160, 1000, 'zap', '2026-01-01' FROM paid_action, generate_series(0, 1) AS part ORDER BY id`,
		`VACUUM ANALYZE`,
	} {
		if _, err := p.pool.Exec(ctx, sql); err != nil {
			t.Fatal(err)
		}
	}
	id := int64(7000)
	page := make([]int64, 100)
	for i := range page {
		page[i] = id + int64(i)
	}
	for name, c := range map[string]struct {
		do    func() error
		parts []string // nil: all of the postings
	}{
		"Histories":        {func() error { _, err := q.Histories(ctx, page); return err }, []string{"action_history_5001"}},
		"PostingsOfAction": {func() error { _, err := q.PostingsOfAction(ctx, &id); return err }, []string{"posting_5001"}},
		"BookedForInvoice": {func() error { _, err := q.BookedForInvoice(ctx, &id); return err }, []string{"posting_5001"}},
		"BreaksOfPayment":  {func() error { _, err := q.BreaksOfPayment(ctx, page); return err }, []string{"action_history_5001", "posting_5001"}},
		"BreaksOfHistory":  {func() error { _, err := q.BreaksOfHistory(ctx, page); return err }, []string{"action_history_5001"}},
		"CountsOfActions":  {func() error { _, err := q.CountsOfActions(ctx, page); return err }, []string{"action_history_5001"}},
		"HistoryOf": {func() error {
			_, err := q.HistoryOf(ctx, db.HistoryOfParams{UserID: 1, Page: 20, Credits: 17, Sats: 16, OutBefore: 1 << 40, CreditsBefore: 1 << 40, SatsBefore: 1 << 40,
				DirectBefore: 1 << 40})
			return err
		}, nil},
		"RewardPools": {func() error { _, err := q.RewardPools(ctx, now); return err }, nil},
		"Losses":      {func() error { _, err := q.Losses(ctx, 20); return err }, nil},
	} {
		if err := c.do(); !errors.Is(err, errPlanned) {
			t.Fatal(err)
		}
		read, whole := p.parts()
		if len(whole) != 0 || (c.parts == nil && len(read) != partitions) || (c.parts != nil && !slices.Equal(read, c.parts)) {
			t.Errorf("%s reads %v, of which %v as a whole:\n%s", name, read, whole, p.plan)
		}
	}
}

package migrations_test

import (
	"testing"

	"github.com/a-seed-a7aed72f/holdfast/internal/pgtest"
	"github.com/a-seed-a7aed72f/holdfast/migrations"
)

// Periods that a short month moved go back to the day on which their territory was founded or taken over; the others stay.
func TestPeriodsGetTheirDayBack(t *testing.T) {
	t.Parallel()
	pool := pgtest.New(t)
	dsn := pool.Config().ConnString()
	exec := func(sql string) {
		t.Helper()
		if _, err := pool.Exec(t.Context(), sql); err != nil {
			t.Fatal(err)
		}
	}
	downTo(t, dsn, 51)
	exec(`INSERT INTO usr (name, created_at) VALUES ('founder', '2026-01-01')`)
	exec(`INSERT INTO paid_action (kind, flow, method, state, payer_id, cost_msat, created_at, changed_at, args)
		SELECT 'TERRITORY_UNARCHIVE', 'BALANCE', 'FEE_CREDIT', 'PAID', 1, 1000, '2026-01-01', '2026-01-01', '{}' FROM generate_series(1, 2)`)
	exec(`INSERT INTO territory (name, founder_id, base_cost_msat, reply_cost_msat, created_at, billing, period_start, paid_until, bill_at)
		SELECT name, 1, 1000, 1000, created_at::timestamptz, 'MONTHLY', period_start::timestamptz, period_start::timestamptz + interval '1 month', 'infinity'
		FROM (VALUES ('drifted', '2026-01-31 10:00Z', '2026-04-28 10:00Z'), ('first', '2026-01-31 10:00Z', '2026-01-31 10:00Z'),
			('midnight', '2026-01-31 23:59:59Z', '2026-03-01 00:00Z'), ('taken', '2026-01-31 10:00Z', '2027-02-28 10:00Z'),
			('far', '2026-01-30 23:30-02', '2026-03-27 23:30-02')) AS t (name, created_at, period_start)`)
	exec(`INSERT INTO territory (name, founder_id, base_cost_msat, reply_cost_msat, created_at) VALUES ('old', 1, 1000, 1000, '2026-01-31')`)
	exec(`INSERT INTO territory_transfer (territory, from_user, to_user, action_id, at) VALUES ('taken', 1, 1, 1, '2026-05-31'), ('taken', 1, 1, 2, '2026-11-30')`)
	if err := migrations.Up(t.Context(), dsn); err != nil {
		t.Fatal(err)
	}
	var days string
	err := pool.QueryRow(t.Context(), `SELECT string_agg(name || ' ' || coalesce(period_day::text, '-'), ', ' ORDER BY name) FROM territory`).Scan(&days)
	if want := "drifted 31, far 31, first 31, midnight 1, old -, taken 30"; err != nil || days != want {
		t.Errorf("%s, %v; want %s", days, err, want)
	}
}

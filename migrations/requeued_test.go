package migrations_test

import (
	"testing"

	"github.com/a-seed-a7aed72f/holdfast/internal/pgtest"
	"github.com/a-seed-a7aed72f/holdfast/migrations"
)

// What counted as before a requeue by its moment does so by its number, and the other way round on the way down.
func TestClaimsFromBeforeARequeueStayThat(t *testing.T) {
	t.Parallel()
	pool := pgtest.New(t)
	dsn := pool.Config().ConnString()
	downTo(t, dsn, 72)
	do(t, pool,
		`INSERT INTO paid_action (kind, flow, method, state, cost_msat, created_at, changed_at, args, result)
			SELECT 'ZAP', 'BALANCE', 'FEE_CREDIT', 'PAID', 1, now(), now(), '{}', '{}' FROM generate_series(1, 4)`,
		`INSERT INTO relay_payment (action_id, stage, node, requeued_at, payment_hash, bolt11, amount_msat, budget_msat, final_cltv, expires_at, created_at, changed_at)
			SELECT action, stage::relay_stage, 'one', ('2026-01-01 ' || requeued)::timestamptz, sha256(stage::bytea || action::text::bytea), '', 1, 0, 18, now(), now(), now()
			FROM (VALUES (1, 'incoming', '10:00'), (2, 'in_work', '10:00'), (3, 'incoming', NULL), (4, 'incoming', '10:00')) AS p (action, stage, requeued)`,
		`INSERT INTO relay_attempt (payment_id, node, node_key, fence, claimed_at, send_until, outcome, ended_at)
			SELECT payment, 'one', 'key', 1, now(), now(), CASE WHEN ended IS NOT NULL THEN 'FAILED' END, ('2026-01-01 ' || ended)::timestamptz
			FROM (VALUES (1, '09:00'), (1, '10:00'), (1, '10:01'), (2, '09:00'), (2, NULL), (3, '09:00')) AS a (payment, ended)`)
	if err := migrations.Up(t.Context(), dsn); err != nil {
		t.Fatal(err)
	}
	if got, want := one(t, pool, `SELECT string_agg(requeued_after::text, ' ' ORDER BY id) FROM relay_payment`), "2 4 0 0"; got != want {
		t.Errorf("up to claims %s, want %s", got, want)
	}
	do(t, pool, `UPDATE relay_payment SET requeued_after = 3 WHERE id = 1`) // again, by a clock that is behind
	downTo(t, dsn, 72)
	if got, want := one(t, pool, `SELECT string_agg(to_char(requeued_at, 'HH24:MI'), ' ' ORDER BY id) FROM relay_payment`), "10:01 10:00 10:00"; got != want {
		t.Errorf("at %s, want %s", got, want)
	}
}

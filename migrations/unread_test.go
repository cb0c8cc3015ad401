package migrations_test

import (
	"testing"

	"github.com/a-seed-a7aed72f/holdfast/internal/pgtest"
	"github.com/a-seed-a7aed72f/holdfast/migrations"
)

// An address that only an invoice knows goes to its action where that may yet get a next attempt by itself, and is at the invoice again after the way back.
func TestAddressesGoFromInvoicesToTheirActions(t *testing.T) {
	t.Parallel()
	pool := pgtest.New(t)
	dsn := pool.Config().ConnString()
	exec := func(sql string) {
		t.Helper()
		if _, err := pool.Exec(t.Context(), sql); err != nil {
			t.Fatal(err)
		}
	}
	wantKnown := func(table, want string) {
		t.Helper()
		var known string
		err := pool.QueryRow(t.Context(), `SELECT string_agg(memo, ', ' ORDER BY memo) FROM `+table+` WHERE client_hash = '\x01'`).Scan(&known)
		if err != nil || known != want {
			t.Errorf("known: %s, %v; want %s", known, err, want)
		}
	}
	downTo(t, dsn, 56)
	exec(`INSERT INTO usr (name, created_at) VALUES ('somebody', '2026-01-01')`)
	exec(`ALTER TABLE paid_action DISABLE TRIGGER refuse_beginning;
		WITH began (id, state, payer, failure, refused) AS (VALUES
			(1, 'FORWARDING', NULL::bigint, NULL, NULL::timestamptz), (2, 'FAILED', NULL, 'PAYMENT_FAILED', NULL), (3, 'FAILED', NULL, 'PAYMENT_FAILED', '2026-01-01'),
			(4, 'FAILED', NULL, 'EXPIRED', NULL), (5, 'PAID', NULL, NULL, NULL), (6, 'FORWARDING', 1, NULL, NULL)),
		action AS (INSERT INTO paid_action (id, kind, flow, method, state, payer_id, cost_msat, created_at, changed_at, deadline, args, result, failure_code, failure_message, again_refused_at)
			OVERRIDING SYSTEM VALUE SELECT id, 'ZAP', 'WRAPPED', 'P2P', state::action_state, payer, 1, '2026-01-01', '2026-01-01',
				CASE WHEN state = 'FORWARDING' THEN '2026-01-01'::timestamptz END, '{}', '{}', failure, failure, refused FROM began)
		INSERT INTO invoice (action_id, node, payment_hash, hold, amount_msat, memo, cltv_delta, expires_at, client_hash)
			SELECT id, 'one', sha256(id::text::bytea), true, 1, concat_ws(' ', id, state, failure, payer), 80, '2026-01-01', CASE WHEN payer IS NULL THEN '\x01'::bytea END FROM began;
		ALTER TABLE paid_action ENABLE TRIGGER refuse_beginning`)
	if err := migrations.Up(t.Context(), dsn); err != nil {
		t.Fatal(err)
	}
	wantKnown("paid_action JOIN invoice ON invoice.action_id = paid_action.id", "1 FORWARDING, 2 FAILED PAYMENT_FAILED")
	downTo(t, dsn, 56)
	wantKnown("invoice", "1 FORWARDING, 2 FAILED PAYMENT_FAILED")
}

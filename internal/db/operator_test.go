package db_test

import (
	"context"
	"math"
	"strings"
	"testing"
	"time"

	"github.com/a-seed-a7aed72f/holdfast/internal/db"
	"github.com/a-seed-a7aed72f/holdfast/internal/pgtest"
)

// What an operator lists is found where it is, also if all of it is old, however much has ended since: neither the whole
// history is read, nor the newest of it until something of the kind comes.
func TestWhatAnOperatorListsIsFoundInAnyHistory(t *testing.T) {
	t.Parallel()
	ctx, pool := t.Context(), pgtest.New(t)
	if _, err := pool.Exec(ctx, `
		ALTER TABLE paid_action DISABLE TRIGGER refuse_beginning;
		INSERT INTO usr (name, created_at) SELECT 'user_' || g, now() FROM generate_series(1, 1000) AS g ORDER BY g;
		INSERT INTO paid_action (kind, flow, method, state, payer_id, cost_msat, created_at, changed_at, deadline, args, failure_code)
			SELECT 'WITHDRAW', 'OUTGOING', 'OUTGOING', (CASE WHEN g <= 400 THEN 'FORWARDING' WHEN g <= 1400 THEN 'FAILED' ELSE 'PAID' END)::action_state, 1, 0, now(), now(),
				now(), '{}', CASE WHEN g > 400 AND g <= 1400 THEN 'X' END
			FROM generate_series(1, 20000) AS g ORDER BY g;
		INSERT INTO relay_payment (action_id, payer_id, stage, node, failure_code, preimage, fee_msat, payment_hash, bolt11, amount_msat, budget_msat, final_cltv, expires_at, created_at, changed_at)
			SELECT id, 1, (CASE state WHEN 'FORWARDING' THEN 'in_work' WHEN 'FAILED' THEN 'failed' ELSE 'completed' END)::relay_stage, 'one',
				failure_code, CASE WHEN state = 'PAID' THEN sha256('x') END, CASE WHEN state = 'PAID' THEN 0 END, sha256(id::text::bytea), '', 1, 0, 0, now(), now(), now()
			FROM paid_action ORDER BY id;
		INSERT INTO webhook (user_id, url, events, secret, created_at) SELECT CASE WHEN g > 5 THEN 1 + g % 1000 END, '', '{}', '', now() FROM generate_series(1, 5000) AS g;
		ANALYZE`); err != nil {
		t.Fatal(err)
	}
	tx, err := pool.Begin(ctx)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = tx.Rollback(context.WithoutCancel(ctx)) }()
	if _, err := tx.Exec(ctx, "SET LOCAL enable_incremental_sort = off"); err != nil { // as in the service's connections
		t.Fatal(err)
	}
	const all = math.MaxInt64
	e := &explained{t: t, pool: tx}
	q := db.New(e)
	for _, list := range []struct {
		name, index, other string
		do                 func() error
	}{
		{"NewestOpen", "paid_action_open", "paid_action_pkey", func() error {
			_, err := q.NewestOpen(ctx, db.NewestOpenParams{State: "FORWARDING", Before: all, Page: 50})
			return err
		}},
		{"NewestUnpaid", "paid_action_not_paid", "paid_action_pkey", func() error {
			_, err := q.NewestUnpaid(ctx, db.NewestUnpaidParams{State: "FAILED", Before: all, Page: 50})
			return err
		}},
		{"ListRelayInStage", "relay_payment_stage", "relay_payment_pkey", func() error {
			_, err := q.ListRelayInStage(ctx, db.ListRelayInStageParams{Stage: "failed", Before: all, Page: 50})
			return err
		}},
		{"ListStuck", "relay_payment_action_id_key", "relay_payment_open", func() error {
			_, err := q.ListStuck(ctx, db.ListStuckParams{At: new(time.Now()), WaitsSince: time.Now(), WaitsTo: time.Now(), Page: 50})
			return err
		}},
		{"OverdueActions", "relay_payment_action_id_key", "relay_payment_open", func() error {
			_, err := q.OverdueActions(ctx, db.OverdueActionsParams{At: new(time.Now()), AfterDeadline: time.Unix(0, 0), Page: 500})
			return err
		}},
		{"OpenByState", "relay_payment_action_id_key", "relay_payment_open", func() error {
			_, err := q.OpenByState(ctx, db.OpenByStateParams{StuckSince: time.Now(), WaitsSince: time.Now(), WaitsTo: time.Now(), Page: 10_000})
			return err
		}},
		{"WebhooksOf the operator", "webhook_user", "webhook_pkey", func() error {
			_, err := q.WebhooksOf(ctx, nil)
			return err
		}},
		{"WebhooksOf a user", "webhook_user", "webhook_pkey", func() error {
			_, err := q.WebhooksOf(ctx, new(int64(7)))
			return err
		}},
	} {
		if err := list.do(); err != nil {
			t.Fatal(err)
		}
		if !strings.Contains(e.plan, list.index) || strings.Contains(e.plan, list.other) || strings.Contains(e.plan, "Seq Scan on") {
			t.Errorf("%s reads more:\n%s", list.name, e.plan)
		}
	}
}

// The pages of a state and of a stage have what is in it, newest first, and nothing of the neighbouring ones.
func TestAnOperatorsListHasOneStateOrStage(t *testing.T) {
	t.Parallel()
	ctx, pool := t.Context(), pgtest.New(t)
	if _, err := pool.Exec(ctx, `
		ALTER TABLE paid_action DISABLE TRIGGER refuse_beginning;
		INSERT INTO usr (name, created_at) VALUES ('alice', now());
		INSERT INTO paid_action (kind, flow, method, state, payer_id, cost_msat, created_at, changed_at, deadline, args, failure_code)
			SELECT 'WITHDRAW', 'OUTGOING', 'OUTGOING', (ARRAY['FORWARDING', 'FAILED', 'PAID'])[1 + g % 3]::action_state, 1, 0, now(), now(), now(), '{}', CASE WHEN g % 3 = 1 THEN 'X' END
			FROM generate_series(1, 9) AS g ORDER BY g;
		INSERT INTO relay_payment (action_id, payer_id, stage, node, failure_code, preimage, fee_msat, payment_hash, bolt11, amount_msat, budget_msat, final_cltv, expires_at, created_at, changed_at)
			SELECT id, 1, (CASE state WHEN 'FORWARDING' THEN 'in_work' WHEN 'FAILED' THEN 'failed' ELSE 'completed' END)::relay_stage, 'one',
				failure_code, CASE WHEN state = 'PAID' THEN sha256('x') END, CASE WHEN state = 'PAID' THEN 0 END, sha256(id::text::bytea), '', 1, 0, 0, now(), now(), now()
			FROM paid_action ORDER BY id`); err != nil {
		t.Fatal(err)
	}
	q := db.New(pool)
	open, err := q.NewestOpen(ctx, db.NewestOpenParams{State: "FORWARDING", Before: 9, Page: 50})
	if err != nil || len(open) != 2 || open[0].ID != 6 || open[1].ID != 3 {
		t.Errorf("open: %+v, %v", open, err)
	}
	failed, err := q.NewestUnpaid(ctx, db.NewestUnpaidParams{State: "FAILED", Before: 7, Page: 50})
	if err != nil || len(failed) != 2 || failed[0].ID != 4 || failed[1].ID != 1 {
		t.Errorf("failed: %+v, %v", failed, err)
	}
	retrying, err := q.NewestUnpaid(ctx, db.NewestUnpaidParams{State: "RETRYING", Before: math.MaxInt64, Page: 50})
	if err != nil || len(retrying) != 0 {
		t.Errorf("retrying: %+v, %v", retrying, err)
	}
	paid, err := q.NewestPaid(ctx, db.NewestPaidParams{Before: 8, Page: 1})
	if err != nil || len(paid) != 1 || paid[0].ID != 5 {
		t.Errorf("paid: %+v, %v", paid, err)
	}
	stage, err := q.ListRelayInStage(ctx, db.ListRelayInStageParams{Stage: "completed", Before: 8, Page: 50})
	if err != nil || len(stage) != 2 || stage[0].ActionID != 5 || stage[1].ActionID != 2 {
		t.Errorf("in a stage: %+v, %v", stage, err)
	}
}

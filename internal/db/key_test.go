package db_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"

	"github.com/a-seed-a7aed72f/holdfast/internal/db"
	"github.com/a-seed-a7aed72f/holdfast/internal/pgtest"
)

// explained has statements planned, but not executed.
type explained struct {
	db.DBTX
	t    *testing.T
	pool db.DBTX // where they are planned
	plan string
}

func (e *explained) Exec(ctx context.Context, sql string, args ...any) (pgconn.CommandTag, error) {
	e.t.Helper()
	rows, err := e.pool.Query(ctx, "EXPLAIN (COSTS OFF) "+sql, args...)
	if err != nil {
		e.t.Fatal(err)
	}
	lines, err := pgx.CollectRows(rows, pgx.RowTo[string])
	if err != nil {
		e.t.Fatalf("%s: %v", sql, err)
	}
	e.plan = strings.Join(lines, "\n")
	return pgconn.CommandTag{}, nil
}

// Query and QueryRow answer with nothing.
func (e *explained) Query(ctx context.Context, sql string, args ...any) (pgx.Rows, error) {
	e.t.Helper()
	if _, err := e.Exec(ctx, sql, args...); err != nil {
		return nil, err
	}
	return e.pool.Query(ctx, "SELECT WHERE false")
}

func (e *explained) QueryRow(ctx context.Context, sql string, args ...any) pgx.Row {
	e.t.Helper()
	_, _ = e.Exec(ctx, sql, args...) // it ends the test itself
	return e.pool.QueryRow(ctx, "SELECT WHERE false")
}

// Due jobs, and those put off too far, are found by the index that River uses, and changed by their key, with the
// settings of the connections for River's tables.
func TestDueJobsAreFoundByAnIndex(t *testing.T) {
	t.Parallel()
	tx, err := pgtest.New(t).Begin(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = tx.Rollback(context.WithoutCancel(t.Context())) }()
	if _, err := tx.Exec(t.Context(), "SET LOCAL enable_seqscan = off"); err != nil {
		t.Fatal(err)
	}
	e := &explained{t: t, pool: tx}
	q, now := db.New(e), time.Now()
	for _, do := range []func() (int64, error){
		func() (int64, error) {
			return q.MakeDueAvailable(t.Context(), db.MakeDueAvailableParams{Queue: "money", Before: now, Page: 1000})
		},
		func() (int64, error) {
			return q.BringJobsForward(t.Context(), db.BringJobsForwardParams{Queue: "effects", Now: now, After: now, Page: 1000})
		},
	} {
		if _, err := do(); err != nil {
			t.Fatal(err)
		}
		for _, step := range []string{"Index Scan using river_job_prioritized_fetching_index", "AND (scheduled_at ", "river_job_pkey"} {
			if !strings.Contains(e.plan, step) {
				t.Errorf("no %q:\n%s", step, e.plan)
			}
		}
	}
}

// A row that is named by its key is found by it, even where a partial index of the few open rows would fit. A plan made
// while there are few would read that index as a whole when there are many.
func TestOneRowIsFoundByItsKey(t *testing.T) {
	t.Parallel()
	e := &explained{t: t, pool: pgtest.New(t)}
	ctx, q, now := t.Context(), db.New(e), time.Now()
	for name, c := range map[string]struct {
		do  func() error
		key string
	}{
		"SetBolt11": {func() error {
			_, err := q.SetBolt11(ctx, db.SetBolt11Params{ActionID: 1, Bolt11: new("ln")})
			return err
		}, "paid_action_pkey"},
		"PermitSettle": {func() error {
			_, err := q.PermitSettle(ctx, db.PermitSettleParams{ID: 1, At: &now})
			return err
		}, "paid_action_pkey"},
		"MoveAction": {func() error {
			_, err := q.MoveAction(ctx, db.MoveActionParams{ID: 1, FromState: "PENDING", ToState: "PAID", At: now})
			return err
		}, "paid_action_pkey"},
		"MoveActions": {func() error {
			return q.MoveActions(ctx, db.MoveActionsParams{Ids: []int64{1}, Heights: []int32{0}, Results: []json.RawMessage{nil}, Received: []int64{1}, FromState: "PENDING",
				ToState: "PAID", Fact: "INVOICE_SETTLED", At: now})
		}, "paid_action_pkey"},
		"RelaysPaid": {func() error {
			return q.RelaysPaid(ctx, db.RelaysPaidParams{ActionIds: []int64{1}, Preimages: [][]byte{{1}}, At: now})
		}, "relay_payment_action_id_key"},
		"RelaysCompleted": {func() error {
			_, err := q.RelaysCompleted(ctx, db.RelaysCompletedParams{ActionIds: []int64{1}, Fees: []int64{1}, At: now})
			return err
		}, "relay_payment_action_id_key"},
		"KindsOf": {func() error {
			_, err := q.KindsOf(ctx, []int64{1})
			return err
		}, "paid_action_pkey"},
		"ActionsByHash": {func() error {
			_, err := q.ActionsByHash(ctx, [][]byte{{1}})
			return err
		}, "paid_action_pkey"},
		"AcceptForwards": {func() error { return q.AcceptForwards(ctx, db.AcceptForwardsParams{ActionIds: []int64{1}, At: now}) },
			"inner_invoice_pkey"},
		"LockReceivers": {func() error { return q.LockReceivers(ctx, []int64{1}) }, "inner_invoice_pkey"},
		"ForwardsToClaim": {func() error {
			_, err := q.ForwardsToClaim(ctx, db.ForwardsToClaimParams{ActionIds: []int64{1}, At: now})
			return err
		}, "relay_payment_receiver"},
		"ClaimRelay": {func() error {
			_, err := q.ClaimRelay(ctx, db.ClaimRelayParams{Node: new("one"), ClaimedAt: now, SendUntil: now})
			return err
		}, "relay_payment_pkey"},
		"RequeueRelay": {func() error {
			err := q.RequeueRelay(ctx, db.RequeueRelayParams{ID: 1, At: now})
			return err
		}, "relay_payment_pkey"},
		"FailRelay": {func() error {
			_, err := q.FailRelay(ctx, db.FailRelayParams{ID: 1, FromStage: "in_work", At: now})
			return err
		}, "relay_payment_pkey"},
		"EndAttempt": {func() error {
			_, err := q.EndAttempt(ctx, db.EndAttemptParams{ID: 1, At: &now})
			return err
		}, "relay_attempt_pkey"},
		"NoteEarlier": {func() error {
			_, err := q.NoteEarlier(ctx, db.NoteEarlierParams{ID: 1})
			return err
		}, "relay_attempt_pkey"},
	} {
		if err := c.do(); err != nil && !errors.Is(err, pgx.ErrNoRows) {
			t.Fatal(err)
		}
		if !strings.Contains(e.plan, c.key) || strings.Contains(strings.ReplaceAll(e.plan, "Seq Scan on webhook w", ""), "Seq Scan") {
			t.Errorf("%s is not found by %s:\n%s", name, c.key, e.plan)
		}
	}
}

// sortsNothing is the part of a claim that the other order is for.
var sortsNothing = regexp.MustCompile(`Sort\n +(?:Disabled: true\n +)?Sort Key: .*\n +->  Result\n +One-Time Filter: false`)

// A claim reads the first waiting payment, or the oldest, and its own attempts, however many were waiting when it was planned, and of withdrawals in work those that were claimed lately,
// once.
func TestAClaimReadsOnePayment(t *testing.T) {
	t.Parallel()
	for name, waiting := range map[string]int{"planned with a backlog": 1000, "planned with little to do": 5, "planned with nothing to do": 0} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			ctx, pool, now := t.Context(), pgtest.New(t), time.Now()
			// All have waited: the index of waiting payments is as large as it ever was.
			if _, err := pool.Exec(ctx, fmt.Sprintf(`
				INSERT INTO paid_action (kind, flow, method, state, cost_msat, created_at, changed_at, args)
					SELECT 'TEST', 'BALANCE', 'FEE_CREDIT', 'PAID', 1, now(), now(), '{}' FROM generate_series(1, 3000);
				INSERT INTO relay_payment (action_id, payment_hash, bolt11, amount_msat, budget_msat, final_cltv, expires_at, node, created_at, changed_at)
					SELECT id, sha256(id::text::bytea), 'ln', 1, 1, 1, now(), 'one', now(), now() FROM paid_action;
				UPDATE relay_payment SET stage = 'completed', preimage = sha256('x'), fee_msat = 1 WHERE id > %d;
				INSERT INTO relay_attempt (payment_id, node, node_key, fence, claimed_at, send_until, outcome, ended_at)
					SELECT id, 'one', 'node:one', 1, now(), now(), 'PAID', now() FROM relay_payment WHERE stage = 'completed';
				INSERT INTO usr (name, created_at) VALUES ('rich', now());
				UPDATE relay_payment SET payer_id = (SELECT id FROM usr) WHERE id %% 2 = 0;
				UPDATE relay_payment SET stage = 'in_work', preimage = NULL, fee_msat = NULL WHERE id %% 10 = 0 AND stage = 'completed';
				ANALYZE`, waiting)); err != nil {
				t.Fatal(err)
			}
			tx, err := pool.Begin(ctx)
			if err != nil {
				t.Fatal(err)
			}
			defer func() { _ = tx.Rollback(context.WithoutCancel(ctx)) }()
			if err := db.New(tx).PlanAlone(ctx); err != nil {
				t.Fatal(err)
			}
			e := &explained{t: t, pool: tx}
			q := db.New(e)
			for name, do := range map[string]func() error{
				"ClaimRelay": func() error {
					_, err := q.ClaimRelay(ctx, db.ClaimRelayParams{Node: new("one"), Sendable: 10, ClaimedAt: now, SendUntil: now, Forwards: true, Withdrawals: 2, Since: now, Latest: now})
					return err
				},
				"ClaimRelay by age": func() error {
					_, err := q.ClaimRelay(ctx, db.ClaimRelayParams{Node: new("one"), Sendable: 10, ClaimedAt: now, SendUntil: now, Forwards: true, Withdrawals: 2, Since: now, Latest: now, ByAge: true, WaitingSince: now})
					return err
				},
				"NextClaimable": func() error {
					_, err := q.NextClaimable(ctx, db.NextClaimableParams{Node: new("one"), Sendable: 10, At: now, Withdrawals: 2, Since: now, Latest: now})
					return err
				},
			} {
				if err := do(); err != nil && !errors.Is(err, pgx.ErrNoRows) {
					t.Fatal(err)
				}
				index := "relay_payment_incoming"
				if name == "ClaimRelay by age" {
					index = "relay_payment_stage"
				}
				e.plan = sortsNothing.ReplaceAllString(e.plan, "")
				if !strings.Contains(e.plan, index) || !strings.Contains(e.plan, "Index Cond: ((payment_id = p.id) AND (id > p.requeued_after))") || strings.Contains(e.plan, "Sort") {
					t.Errorf("%s reads more:\n%s", name, e.plan)
				}
				if strings.Count(e.plan, "relay_payment_withdrawing") != 1 || !strings.Contains(e.plan, "InitPlan") || !strings.Contains(e.plan, "Index Cond: ((node = 'one'::text) AND (changed_at > ") {
					t.Errorf("%s counts withdrawals otherwise:\n%s", name, e.plan)
				}
			}
		})
	}
}

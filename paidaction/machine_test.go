package paidaction_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"

	"github.com/a-seed-a7aed72f/holdfast/internal/pgtest"
	"github.com/a-seed-a7aed72f/holdfast/paidaction"
)

func TestMain(m *testing.M) { pgtest.Main(m) }

// specified are the transitions of spec 01 §1.2, written down a second time on purpose: the machine, and the database, are
// held against what was asked for and not against themselves.
const specified = `
BALANCE:     [*]>PAID
OPTIMISTIC:  [*]>PENDING PENDING>PAID PENDING>CANCELING PENDING>FAILED CANCELING>FAILED CANCELING>PAID FAILED>RETRYING
PESSIMISTIC: [*]>PENDING_HELD PENDING_HELD>HELD PENDING_HELD>CANCELING PENDING_HELD>FAILED HELD>PAID HELD>CANCELING HELD>FAILED CANCELING>FAILED FAILED>RETRYING
WRAPPED:     [*]>PENDING_HELD PENDING_HELD>FORWARDING PENDING_HELD>CANCELING PENDING_HELD>FAILED FORWARDING>FORWARDED FORWARDING>FAILED_FORWARD FORWARDED>PAID FAILED_FORWARD>CANCELING FAILED_FORWARD>FAILED CANCELING>FAILED FAILED>RETRYING
OUTGOING:    [*]>FORWARDING FORWARDING>FORWARDED FORWARDING>FAILED_FORWARD FORWARDED>PAID FAILED_FORWARD>FAILED`

// edges are the specified transitions as "FLOW from>to".
func edges(t *testing.T) map[string]bool {
	t.Helper()
	set := map[string]bool{}
	for line := range strings.Lines(strings.TrimSpace(specified)) {
		flow, list, _ := strings.Cut(strings.TrimSpace(line), ":")
		for edge := range strings.FieldsSeq(list) {
			set[flow+" "+strings.ReplaceAll(edge, "[*]", "")] = true
		}
	}
	return set
}

func TestMachineIsTheSpecifiedOne(t *testing.T) {
	t.Parallel()
	want, have := edges(t), map[string]bool{}
	for _, s := range paidaction.Machine {
		edge := fmt.Sprintf("%s %s>%s", s.Flow, s.From, s.To)
		have[edge] = true
		if !want[edge] {
			t.Errorf("the machine has a step that is not specified: %s", edge)
		}
		if s.Recovery == "" {
			t.Errorf("%s on %s does not say how it recovers", edge, s.When)
		}
		if owed := paidaction.Owed(s.Flow, s.To); s.Then != owed {
			t.Errorf("%s on %s owes the call %q, another step to the same state %q", edge, s.When, s.Then, owed)
		}
		withoutNode := s.To.Terminal() || edge == "OUTGOING FORWARDING>FAILED_FORWARD" // which gives a balance back
		if withoutNode != (s.Then == paidaction.NoCall) {
			t.Errorf("%s on %s owes the call %q", edge, s.When, s.Then)
		}
	}
	for edge := range want {
		if !have[edge] {
			t.Errorf("the machine lacks %s", edge)
		}
	}
}

func TestNoFactIsAmbiguous(t *testing.T) {
	t.Parallel()
	seen := map[string]bool{}
	for _, s := range paidaction.Machine {
		key := fmt.Sprintf("%s in %s on %s", s.Flow, s.From, s.When)
		if seen[key] {
			t.Errorf("two steps for %s", key)
		}
		seen[key] = true
	}
}

// TestStepsTakenTogetherHaveNoCondition: several actions that take a step together are not asked for what one alone is
// asked for under its lock, and no failure of theirs is stored. So their facts depend on nothing that is stored, and end
// nothing.
func TestStepsTakenTogetherHaveNoCondition(t *testing.T) {
	t.Parallel()
	smooth := []paidaction.Fact{paidaction.InvoiceIsPaid, paidaction.InvoiceIsHeld, paidaction.OutgoingPaid, paidaction.IncomingSettled}
	together := 0
	for _, s := range paidaction.Machine {
		if !s.InStride() {
			continue
		}
		together++
		if !slices.Contains(smooth, s.When) || s.To == paidaction.Failed || s.To == paidaction.Canceling {
			t.Errorf("%s %s>%s on %s is taken together: does it depend on anything, or store a failure?", s.Flow, s.From, s.To, s.When)
		}
	}
	if together == 0 {
		t.Error("no step is taken together")
	}
}

// TestDatabaseRefusesEveryOtherTransition tries all pairs of states per flow, the beginning included, with plain SQL: what
// the code would do is not asked.
func TestDatabaseRefusesEveryOtherTransition(t *testing.T) {
	t.Parallel()
	ctx := context.Background()
	pool := pgtest.New(t)
	want := edges(t)
	tried := 0
	for _, flow := range paidaction.Flows {
		for _, from := range append([]paidaction.State{paidaction.Beginning}, paidaction.States...) {
			for _, to := range paidaction.States {
				if from == to {
					continue
				}
				tried++
				allowed := want[fmt.Sprintf("%s %s>%s", flow, from, to)]
				err := tryStep(ctx, t, pool, flow, from, to)
				var pg *pgconn.PgError
				switch {
				case allowed && err != nil:
					t.Errorf("%s %q>%s is specified, but refused: %v", flow, from, to, err)
				case !allowed && err == nil:
					t.Errorf("%s %q>%s is not specified, but happened", flow, from, to)
				case !allowed && (!errors.As(err, &pg) || pg.Code != "HF001"):
					t.Errorf("%s %q>%s was refused for another reason: %v", flow, from, to, err)
				}
			}
		}
	}
	if want := 5 * 10 * 10; tried != want {
		t.Fatalf("tried %d pairs of %d", tried, want)
	}
}

type beginner interface {
	Begin(ctx context.Context) (pgx.Tx, error)
}

// tryStep puts a row into from, whatever the triggers say, and then tries the step with them on. Nothing stays.
func tryStep(ctx context.Context, t *testing.T, pool beginner, flow paidaction.Flow, from, to paidaction.State) error {
	t.Helper()
	tx, err := pool.Begin(ctx)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = tx.Rollback(ctx) }()
	must := func(sql string, args ...any) {
		t.Helper()
		if _, err := tx.Exec(ctx, sql, args...); err != nil {
			t.Fatalf("%s: %v", sql, err)
		}
	}
	insert := `INSERT INTO paid_action (kind, flow, method, state, cost_msat, created_at, changed_at, deadline, args, result, failure_code, successor_id)
		VALUES ('TEST', $1, 'OPTIMISTIC', $2, 1, $3, $3, $3, '{}', '{}', 'X', $4)`
	var successor *int64
	at := time.Unix(1_700_000_000, 0)
	if from == paidaction.Beginning {
		// The constraints ask for more than the trigger does; what they would refuse first is not what is tried here.
		if to == paidaction.Retrying {
			must(`ALTER TABLE paid_action DROP CONSTRAINT retried_has_successor`)
		}
		_, err := tx.Exec(ctx, insert, string(flow), string(to), at, successor)
		return err
	}
	must(`ALTER TABLE paid_action DROP CONSTRAINT retried_has_successor`)
	must(`ALTER TABLE paid_action DISABLE TRIGGER USER`)
	must(insert, string(flow), string(from), at, successor)
	must(`ALTER TABLE paid_action ENABLE TRIGGER USER`)
	_, err = tx.Exec(ctx, `UPDATE paid_action SET state = $1`, string(to))
	return err
}

func TestActionsAreNeverDeletedNorTurnedIntoOthers(t *testing.T) {
	t.Parallel()
	ctx := context.Background()
	pool := pgtest.New(t)
	at := time.Unix(1_700_000_000, 0)
	_, err := pool.Exec(ctx, `INSERT INTO paid_action (kind, flow, method, state, cost_msat, created_at, changed_at, args)
		VALUES ('TEST', 'BALANCE', 'FEE_CREDIT', 'PAID', 1, $1, $1, '{}')`, at)
	if err != nil {
		t.Fatal(err)
	}
	for _, sql := range []string{
		`DELETE FROM paid_action`, `UPDATE paid_action SET cost_msat = 2`, `UPDATE paid_action SET flow = 'OPTIMISTIC'`,
		`UPDATE paid_action SET kind = 'OTHER'`, `UPDATE paid_action SET method = 'P2P'`, `UPDATE paid_action SET payer_id = 1`,
	} {
		var pg *pgconn.PgError
		if _, err := pool.Exec(ctx, sql); !errors.As(err, &pg) || pg.Code != "HF001" {
			t.Errorf("%s: %v", sql, err)
		}
	}
	// And none gets another number: what belongs to it would be nobody's.
	var pg *pgconn.PgError
	if _, err := pool.Exec(ctx, `UPDATE paid_action SET id = 99`); !errors.As(err, &pg) || pg.Code != "428C9" {
		t.Errorf("another number: %v", err)
	}
}

// A step belongs to an action that exists: of several in one statement one that does not refuses all.
func TestAStepOfNoActionIsRefused(t *testing.T) {
	t.Parallel()
	pool := pgtest.New(t)
	var pg *pgconn.PgError
	_, err := pool.Exec(t.Context(), `WITH begun AS (
			INSERT INTO paid_action (kind, flow, method, state, cost_msat, created_at, changed_at, args)
			VALUES ('TEST', 'BALANCE', 'FEE_CREDIT', 'PAID', 1, now(), now(), '{}') RETURNING id
		) INSERT INTO action_history (action_id, to_state, fact, at) SELECT id, 'PAID'::action_state, 'REQUESTED', now() FROM begun UNION ALL VALUES (99, 'PAID'::action_state, 'REQUESTED', now())`)
	if !errors.As(err, &pg) || pg.Code != "23503" {
		t.Errorf("a step of an action that does not exist: %v", err)
	}
	var n int
	if err := pool.QueryRow(t.Context(), `SELECT (SELECT count(*) FROM action_history) + (SELECT count(*) FROM paid_action)`).Scan(&n); err != nil || n != 0 {
		t.Errorf("%d rows stayed, %v", n, err)
	}
}

// A payer exists, from before their first action until after all others: of several actions in one statement one of nobody's refuses all.
func TestAnActionOfNobodyIsRefused(t *testing.T) {
	t.Parallel()
	pool := pgtest.New(t)
	want := func(code, sql string) {
		t.Helper()
		var pg *pgconn.PgError
		if _, err := pool.Exec(t.Context(), sql); !errors.As(err, &pg) || pg.Code != code {
			t.Errorf("%s: %v, want %s", sql, err, code)
		}
	}
	if _, err := pool.Exec(t.Context(), `INSERT INTO usr (name, created_at) VALUES ('idle', now())`); err != nil {
		t.Fatal(err)
	}
	want("23503", `INSERT INTO paid_action (kind, flow, method, state, payer_id, cost_msat, created_at, changed_at, args)
		SELECT 'TEST', 'BALANCE', 'FEE_CREDIT', 'PAID', payer, 1, now(), now(), '{}' FROM unnest(ARRAY[NULL, (SELECT id FROM usr), 99]) AS payer`)
	want("HF001", `DELETE FROM usr`)
	want("428C9", `UPDATE usr SET id = 98`)
	var n int
	if err := pool.QueryRow(t.Context(), `SELECT count(*) FROM paid_action`).Scan(&n); err != nil || n != 0 {
		t.Errorf("%d rows stayed, %v", n, err)
	}
}

func TestDatabaseKnowsTheSameNames(t *testing.T) {
	t.Parallel()
	pool := pgtest.New(t)
	labels := func(enum string) []string {
		rows, err := pool.Query(context.Background(), `SELECT unnest(enum_range(NULL::`+enum+`))::text`)
		if err != nil {
			t.Fatal(err)
		}
		names, err := pgx.CollectRows(rows, pgx.RowTo[string])
		if err != nil {
			t.Fatal(err)
		}
		return names
	}
	if got := labels("action_state"); !slices.Equal(got, texts(paidaction.States)) {
		t.Errorf("states in the database: %v", got)
	}
	if got := labels("action_flow"); !slices.Equal(got, texts(paidaction.Flows)) {
		t.Errorf("flows in the database: %v", got)
	}
	if got := labels("payment_method"); !slices.Equal(got, texts(paidaction.Methods)) {
		t.Errorf("methods in the database: %v", got)
	}
	if got := labels("relay_stage"); !slices.Equal(got, texts(paidaction.Stages)) {
		t.Errorf("stages in the database: %v", got)
	}
}

func texts[S ~string](list []S) []string {
	out := make([]string, len(list))
	for i, s := range list {
		out[i] = string(s)
	}
	return out
}

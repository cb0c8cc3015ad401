package main

import (
	"context"
	"errors"
	"log/slog"
	"net/http"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"
	"go.yaml.in/yaml/v3"

	"github.com/a-seed-a7aed72f/holdfast/internal/config"
	"github.com/a-seed-a7aed72f/holdfast/internal/db"
	"github.com/a-seed-a7aed72f/holdfast/internal/dbconn"
	"github.com/a-seed-a7aed72f/holdfast/internal/pgtest"
	"github.com/a-seed-a7aed72f/holdfast/internal/timeline"
)

// apart puts PostgreSQL's clock so far ahead, for those who connect from now on.
func apart(t *testing.T, pool *pgxpool.Pool, interval string) {
	t.Helper()
	for _, sql := range []string{
		`CREATE SCHEMA apart`,
		`CREATE FUNCTION apart.clock_timestamp() RETURNS timestamptz LANGUAGE sql AS $$SELECT pg_catalog.clock_timestamp() + interval '` + interval + `'$$`,
		`ALTER DATABASE ` + pgx.Identifier{pool.Config().ConnConfig.Database}.Sanitize() + ` SET search_path = apart, pg_catalog, public`,
	} {
		if _, err := pool.Exec(t.Context(), sql); err != nil {
			t.Fatal(err)
		}
	}
}

// What is due by the clock is done, but not by a clock that PostgreSQL's does not confirm: a machine that is a month
// ahead would charge founders, stop territories and end a month of rewards.
func TestChoresAreDoneByAClockThatIsConfirmed(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		apart string
		state string
	}{"confirmed": {"20 seconds", "GRACE"}, "ahead": {"-31 days", "ACTIVE"}, "behind": {"2 minutes", "ACTIVE"}} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			pool := pgtest.New(t)
			apart(t, pool, c.apart)
			for _, sql := range []string{
				`INSERT INTO usr (name, created_at) VALUES ('founder', now())`,
				`INSERT INTO territory (name, founder_id, base_cost_msat, reply_cost_msat, created_at, billing, period_start, period_day, paid_until, bill_at)
					SELECT 'due', id, 1000, 1000, now(), 'MONTHLY', now() - interval '1 month', 1, now(), now() FROM usr`,
			} {
				if _, err := pool.Exec(t.Context(), sql); err != nil {
					t.Fatal(err)
				}
			}
			s := serve(t, settings(pool))
			state := func() (state string) {
				if err := pool.QueryRow(t.Context(), `SELECT state FROM territory`).Scan(&state); err != nil {
					t.Fatal(err)
				}
				return state
			}
			s.await("the territory is billed, or why it is not is told", func() bool {
				return state() != "ACTIVE" || strings.Contains(s.said(), `"loop":"territories"`)
			})
			if got := state(); got != c.state {
				t.Errorf("the territory is %s, want %s", got, c.state)
			}
			if told := strings.Contains(s.said(), "this machine's clock and PostgreSQL's"); told != (c.state == "ACTIVE") {
				t.Errorf("that the clocks differ is told: %t", told)
			}
		})
	}
}

// An invoice whose time is over is cancelled, but not by a clock that PostgreSQL's does not confirm: a machine that is
// an hour ahead would cancel every invoice before it can be paid.
func TestInvoicesAreCancelledByAClockThatIsConfirmed(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		apart string
		state string
	}{"confirmed": {"20 seconds", "FAILED"}, "ahead": {"-1 hour", "PENDING_HELD"}} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			pool := pgtest.New(t)
			apart(t, pool, c.apart)
			_, node := newNode(t)
			s := serve(t, settings(pool, node))
			s.awaitReady(http.StatusOK)
			if body := s.graphql(http.Header{}, `mutation { createPost(title: "Hello") { id invoice { bolt11 } } }`, nil); !strings.Contains(body, "bolt11") {
				t.Fatal(body)
			}
			state := func() (state string) {
				if err := pool.QueryRow(t.Context(), `SELECT state FROM paid_action`).Scan(&state); err != nil {
					t.Fatal(err)
				}
				return state
			}
			if _, err := pool.Exec(t.Context(), `UPDATE paid_action SET deadline = now() - interval '1 minute'`); err != nil {
				t.Fatal(err)
			}
			s.await("the invoice is cancelled, or why it is not is told", func() bool {
				return state() == "FAILED" || strings.Contains(s.said(), `"loop":"sweep of overdue actions"`)
			})
			if got := state(); got != c.state {
				t.Errorf("the action is %s, want %s", got, c.state)
			}
		})
	}
}

// Data that has become useless is not kept for ever. Data that is useful, or may still be looked at, stays.
func TestWhatIsOverIsForgotten(t *testing.T) {
	t.Parallel()
	pool := pgtest.New(t)
	if _, err := pool.Exec(t.Context(), `
		INSERT INTO usr (name, created_at) VALUES ('alice', now());
		INSERT INTO api_key (user_id, key_hash, scopes, created_at, revoked_at, expires_at)
			SELECT 1, sha256(n::text::bytea), '{READ}', now(), now() - revoked * interval '1 day', now() - expired * interval '1 day'
			FROM (VALUES (1, NULL::int, NULL::int), (2, 29, -1), (3, NULL, 29), (4, NULL, -1), (11, 31, NULL), (12, 31, -1), (13, NULL, 31), (14, 1, 31)) AS k (n, revoked, expired);
		INSERT INTO paid_action (kind, flow, method, state, payer_id, cost_msat, created_at, changed_at, args, result)
			SELECT 'ITEM_CREATE', 'BALANCE', 'ZERO_COST', 'PAID', 1, 0, now() - days * interval '1 day', now(), '{}', '{}' FROM unnest(ARRAY[32, 31, 29, 0]) AS days;
		INSERT INTO item (author_id, action_id, state, ancestors, title, body, created_at) SELECT 1, id, 'PAID', '{}', 'title', 'body', now() FROM paid_action;
		INSERT INTO item_fingerprint (fingerprint, item_id, until)
			SELECT sha256(id::text::bytea), id, now() + CASE WHEN id <= 2 THEN interval '-2 hours' ELSE interval '-50 minutes' END FROM item;
		INSERT INTO receiver_wallet (user_id, kind, label, priority, settings, created_at, changed_at)
			SELECT 1, 'LNBITS', '', g, '', now(), now() FROM generate_series(1, 2) AS g;
		INSERT INTO wallet_failure (genesis_id, wallet_id, failures) SELECT a.id, w.id, 1 FROM paid_action a, receiver_wallet w;
		INSERT INTO route_probe (receiver_id, amount_msat, hangs_at, until)
			SELECT 1, 1, now(), now() + minutes * interval '1 minute' FROM unnest(ARRAY[-120, -61, -50, 60]) AS minutes`); err != nil {
		t.Fatal(err)
	}
	s := serve(t, settings(pool))
	left := func() (n [4]int) {
		if err := pool.QueryRow(t.Context(), `SELECT (SELECT count(*) FROM api_key), (SELECT count(*) FROM item_fingerprint),
			(SELECT count(*) FROM wallet_failure), (SELECT count(*) FROM route_probe)`).Scan(&n[0], &n[1], &n[2], &n[3]); err != nil {
			t.Fatal(err)
		}
		return n
	}
	s.await("what is over is forgotten", func() bool { n := left(); return n[0] <= 4 && n[1] <= 2 && n[2] <= 4 && n[3] <= 2 })
	if n := left(); n != [4]int{4, 2, 4, 2} {
		t.Errorf("of keys, fingerprints, failures of wallets and probes %d are left", n)
	}
}

// All boosts that are over are taken off, however many: whoever buys thousands of the smallest ones does not prolong
// those of others, or their own.
func TestAllBoostsThatAreOverAreTakenOff(t *testing.T) {
	t.Parallel()
	pool := pgtest.New(t)
	if _, err := pool.Exec(t.Context(), `
		INSERT INTO usr (name, created_at) VALUES ('alice', now());
		INSERT INTO paid_action (kind, flow, method, state, payer_id, cost_msat, created_at, changed_at, args, result)
			SELECT 'BOOST', 'BALANCE', 'FEE_CREDIT', 'PAID', 1, 1000, now(), now(), '{}', '{}' FROM generate_series(1, 2001);
		INSERT INTO item (author_id, action_id, state, ancestors, title, body, created_at) VALUES (1, 1, 'PAID', '{}', 'title', 'body', now());
		INSERT INTO boost (action_id, item_id, user_id, msat, state, paid_at, expires_at)
			SELECT id, 1, 1, 1000, 'PAID', now() - interval '30 days', now() FROM paid_action`); err != nil {
		t.Fatal(err)
	}
	s := serve(t, settings(pool))
	s.await("every boost is taken off", func() bool {
		var left int
		if err := pool.QueryRow(t.Context(), `SELECT count(*) FROM boost WHERE expired_at IS NULL`).Scan(&left); err != nil {
			t.Fatal(err)
		}
		return left == 0
	})
}

// A chore that fails at each turn raises the alert, even if each turn is broken off only after its minute: no chore comes
// so seldom that the alert never counts enough failures. Rewards and a reconciliation may take longer, and have alerts of
// their own. Rewards are paid by one process at a time, and whose turn comes after one that failed is anybody's: the failures
// of all count together.
func TestFailingChoresAreAlarmed(t *testing.T) {
	t.Parallel()
	var file struct {
		Groups []struct {
			Rules []struct{ Alert, Expr string }
		}
	}
	if err := yaml.Unmarshal(ops(t, "alerts.yml"), &file); err != nil {
		t.Fatal(err)
	}
	most := func(alert, within string) (failures float64) {
		t.Helper()
		for _, rule := range file.Groups[0].Rules {
			if rule.Alert == alert {
				_, after, _ := strings.Cut(rule.Expr, "["+within+"])) > ")
				if err := yaml.Unmarshal([]byte(after), &failures); err != nil {
					t.Fatal(err)
				}
				return failures
			}
		}
		t.Fatalf("there is no alert %s", alert)
		return 0
	}
	for _, rule := range file.Groups[0].Rules {
		if rule.Alert == "HoldfastRewardsUnpaid" && !strings.HasPrefix(rule.Expr, "sum(increase(") {
			t.Errorf("the failures of one process alone are an alert: %s", rule.Expr)
		}
	}
	for _, c := range (&service{environment: &environment{config: &config.Config{}}}).chores() {
		alert, within, takes := "HoldfastLoopsFail", "15m", time.Minute
		switch {
		case c.Name == "daily rewards":
			alert, within, takes = "HoldfastRewardsUnpaid", "1h", c.Limit
		case c.Limit != 0:
			takes = 0
		}
		window, err := time.ParseDuration(within)
		if err != nil {
			t.Fatal(err)
		}
		failures := most(alert, within)
		if turns := window.Seconds() / (c.Every + takes).Seconds(); turns <= failures {
			t.Errorf("%s has %v turns in %s, and more than %v failures are an alert", c.Name, turns, within, failures)
		}
	}
}

// Rewards that take longer than a chore, or than a statement may by the settings, are paid all the same: what is broken off
// begins anew, and would never come to its end.
func TestRewardsThatTakeLongArePaid(t *testing.T) {
	t.Parallel()
	pool := pgtest.New(t)
	_, err := pool.Exec(t.Context(), `
		INSERT INTO posting (from_account, to_account, msat, reason, at) VALUES (0, 4, 1000, 'donation', now() - interval '2 days');
		INSERT INTO balance_delta (account_id, msat) VALUES (0, -1000), (4, 1000);
		CREATE TABLE bounds (name text, setting text);
		CREATE FUNCTION note_bounds() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN
			INSERT INTO bounds SELECT name, setting FROM pg_settings WHERE name IN ('statement_timeout', 'lock_timeout');
			PERFORM pg_sleep(1.5);
			RETURN NULL;
		END $$;
		CREATE TRIGGER note_bounds AFTER INSERT ON reward_day FOR EACH STATEMENT EXECUTE FUNCTION note_bounds()`)
	if err != nil {
		t.Fatal(err)
	}
	env := &environment{config: &config.Config{Prices: config.Prices{RewardTop: 100, RewardDays: 7}}}
	env.timeline.Log = slog.New(slog.DiscardHandler)
	impatient := pool.Config()
	dbconn.BoundPool(impatient, time.Second) // as by the settings
	bounded, err := pgxpool.NewWithConfig(t.Context(), impatient)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(bounded.Close)
	s := &service{pool: bounded, environment: env}
	s.turn(t, "daily rewards")
	rows, err := pool.Query(t.Context(), `SELECT DISTINCT setting::bigint FROM bounds`)
	if err != nil {
		t.Fatal(err)
	}
	const limit = 10 * time.Minute
	if bounds, err := pgx.CollectRows(rows, pgx.RowTo[int64]); err != nil || !slices.Equal(bounds, []int64{limit.Milliseconds()}) {
		t.Errorf("a statement and a wait may take %d ms, error %v", bounds, err)
	}
	for _, c := range s.chores() {
		if c.Name == "daily rewards" && c.Limit != limit {
			t.Errorf("a turn may take %s", c.Limit)
		}
	}
}

// A turn that finds somebody else paying leaves it to them, at once, and is no failure. Whoever comes after them pays what
// they have left.
func TestWhilePeopleArePaidElsewhereATurnIsOver(t *testing.T) {
	t.Parallel()
	pool := pgtest.New(t)
	_, err := pool.Exec(t.Context(), `
		INSERT INTO posting (from_account, to_account, msat, reason, at) VALUES (0, 4, 1000, 'donation', now() - interval '2 days');
		INSERT INTO balance_delta (account_id, msat) VALUES (0, -1000), (4, 1000)`)
	if err != nil {
		t.Fatal(err)
	}
	env := &environment{config: &config.Config{Prices: config.Prices{RewardTop: 100, RewardDays: 7}}}
	env.timeline.Log = slog.New(slog.DiscardHandler)
	s := &service{pool: pool, environment: env}
	paid := func() (days int) {
		t.Helper()
		s.turn(t, "daily rewards")
		if err := pool.QueryRow(t.Context(), `SELECT count(*) FROM reward_day`).Scan(&days); err != nil {
			t.Fatal(err)
		}
		return days
	}
	tx, err := pool.Begin(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = tx.Rollback(context.WithoutCancel(t.Context())) }()
	if held, err := db.New(tx).HoldRewards(t.Context()); err != nil || !held {
		t.Fatalf("nobody pays, and it is held: %t, %v", held, err)
	}
	if days := paid(); days != 0 {
		t.Errorf("%d days are paid by two", days)
	}
	if err := tx.Rollback(t.Context()); err != nil { // it was broken off
		t.Fatal(err)
	}
	if days := paid(); days == 0 {
		t.Error("nobody pays")
	}
}

// However many files nobody has claimed, one turn deletes them all: with a page at each turn, whoever sends more would
// have them kept for ever.
func TestAllUnclaimedFilesAreDeleted(t *testing.T) {
	t.Parallel()
	s := withUnclaimedFiles(t)
	s.turn(t, "unclaimed uploads")
	if left := s.files(t); left != 0 {
		t.Errorf("%d files are left", left)
	}
}

// A post that carried a file may have been paid, and the database restored to before that: its payment is found at the
// node, and the post could not be made without the file. So files stay until somebody has looked.
func TestNoFileIsDeletedWhileTheDatabaseIsInDoubt(t *testing.T) {
	t.Parallel()
	s := withUnclaimedFiles(t)
	look := func(err error) {
		t.Helper()
		if err = errors.Join(err, s.timeline.Look(t.Context(), s.pool)); err != nil {
			t.Fatal(err)
		}
	}
	look(nil)
	look(timeline.Doubt(t.Context(), s.pool))
	s.turn(t, "unclaimed uploads")
	if left := s.files(t); left != 250 {
		t.Errorf("%d files are left of 250", left)
	}
	look(timeline.Accept(t.Context(), s.pool))
	s.turn(t, "unclaimed uploads")
	if left := s.files(t); left != 0 {
		t.Errorf("%d files are left", left)
	}
}

// withUnclaimedFiles is a service in whose database 250 files lie that nobody has claimed for two days.
func withUnclaimedFiles(t *testing.T) *service {
	t.Helper()
	pool := pgtest.New(t)
	_, err := pool.Exec(t.Context(), `
		WITH sent AS (INSERT INTO upload (id, token, client_hash, bytes, content_type, fee_msat, created_at, unclaimed_at)
			SELECT n, lpad(n::text, 22, 'x'), '\x00', 1, 'image/png', 0, now() - interval '2 days', now() - interval '2 days' FROM generate_series(1, 250) AS n RETURNING id)
		INSERT INTO upload_data SELECT id, '\x00' FROM sent`)
	if err != nil {
		t.Fatal(err)
	}
	env := &environment{config: &config.Config{Prices: config.Prices{KeepUploads: 24 * time.Hour}}}
	env.timeline.Log = slog.New(slog.DiscardHandler)
	return &service{pool: pool, environment: env}
}

// turn gives a chore its turn.
func (s *service) turn(t *testing.T, chore string) {
	t.Helper()
	for _, c := range s.chores() {
		if c.Name == chore {
			if err := c.Do(t.Context()); err != nil {
				t.Fatal(err)
			}
		}
	}
}

// files is how many are left.
func (s *service) files(t *testing.T) (left int) {
	t.Helper()
	if err := s.pool.QueryRow(t.Context(), `SELECT count(*) FROM upload_data`).Scan(&left); err != nil {
		t.Fatal(err)
	}
	return left
}

// What has more to do than a turn has time for goes on in the next one, which is no failure. What did nothing in all of
// its time is one.
func TestAChoreGoesOnInTheNextTurn(t *testing.T) {
	t.Parallel()
	for pages, failed := range []bool{true, false, false} {
		ctx, end := context.WithDeadline(t.Context(), time.Unix(0, 0))
		defer end()
		done := 0
		err := again(func(context.Context) (bool, error) {
			if done == pages {
				return false, ctx.Err()
			}
			done++
			return true, nil
		})(ctx)
		if (err != nil) != failed || done > pages {
			t.Errorf("after %d pages: %v", done, err)
		}
	}
	refused := errors.New("refused")
	if err := again(func(context.Context) (bool, error) { return true, refused })(t.Context()); !errors.Is(err, refused) {
		t.Errorf("%v instead of the error", err)
	}
}

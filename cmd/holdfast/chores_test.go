package main

import (
	"strings"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"go.yaml.in/yaml/v3"

	"github.com/a-seed-a7aed72f/holdfast/internal/config"
	"github.com/a-seed-a7aed72f/holdfast/internal/pgtest"
)

// What is due by the clock is done, but not by one that PostgreSQL's does not confirm: a machine that is a month ahead would charge founders, stop territories
// and end a month of rewards.
func TestChoresAreDoneByAClockThatIsConfirmed(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		apart string
		state string
	}{"confirmed": {"20 seconds", "GRACE"}, "ahead": {"-31 days", "ACTIVE"}, "behind": {"2 minutes", "ACTIVE"}} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			pool := pgtest.New(t)
			for _, sql := range []string{
				`INSERT INTO usr (name, created_at) VALUES ('founder', now())`,
				`INSERT INTO territory (name, founder_id, base_cost_msat, reply_cost_msat, created_at, billing, period_start, period_day, paid_until, bill_at)
					SELECT 'due', id, 1000, 1000, now(), 'MONTHLY', now() - interval '1 month', 1, now(), now() FROM usr`,
				`CREATE SCHEMA apart`,
				`CREATE FUNCTION apart.clock_timestamp() RETURNS timestamptz LANGUAGE sql AS $$SELECT pg_catalog.clock_timestamp() + interval '` + c.apart + `'$$`,
				`ALTER DATABASE ` + pgx.Identifier{pool.Config().ConnConfig.Database}.Sanitize() + ` SET search_path = apart, pg_catalog, public`,
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

// A chore that fails at each turn is told of: none comes so seldom that the alert never counts enough of them.
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
	most, found := 0.0, false
	for _, rule := range file.Groups[0].Rules {
		if rule.Alert == "HoldfastLoopsFail" {
			_, after, _ := strings.Cut(rule.Expr, "[15m])) > ")
			if err := yaml.Unmarshal([]byte(after), &most); err != nil {
				t.Fatal(err)
			}
			found = true
		}
	}
	for _, c := range (&service{environment: &environment{config: &config.Config{}}}).chores() {
		if turns := (15 * time.Minute).Seconds() / c.Every.Seconds(); !found || turns <= most {
			t.Errorf("%s has %v turns in 15 minutes, and more than %v failures are an alert", c.Name, turns, most)
		}
	}
}

package main

import (
	"net/http"
	"strings"
	"testing"

	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/a-seed-a7aed72f/holdfast/internal/pgtest"
	"github.com/a-seed-a7aed72f/holdfast/internal/redisserver"
)

// ask sends an operation as a new user, and returns the answer.
func (s *server) ask(env []string, operation string) string {
	s.t.Helper()
	return s.graphql(bearer(keyOf(s.t, env, "alice")), operation, nil)
}

// Each strategy puts requests for invoices in order, and /metrics shows it.
func TestServeGivesTurns(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		env   func(t *testing.T, pool *pgxpool.Pool) []string
		turns int
	}{
		"default": {func(*testing.T, *pgxpool.Pool) []string { return nil }, 1},
		"postgres": {func(_ *testing.T, pool *pgxpool.Pool) []string {
			return []string{"HOLDFAST_LOCK_DIRECT_URL=" + pool.Config().ConnString()}
		}, 1},
		"redis": {func(t *testing.T, _ *pgxpool.Pool) []string {
			return []string{"HOLDFAST_LOCK_STRATEGY=redis", "HOLDFAST_LOCK_REDIS_URL=" + redisserver.ForTest(t).URL()}
		}, 1},
		"memory": {func(*testing.T, *pgxpool.Pool) []string { return []string{"HOLDFAST_LOCK_STRATEGY=memory"} }, 1},
		"off":    {func(*testing.T, *pgxpool.Pool) []string { return []string{"HOLDFAST_LOCK_ENABLED=false"} }, 0},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			pool := pgtest.New(t)
			_, node := newNode(t)
			env := settings(pool, append(c.env(t, pool), node)...)
			s := serve(t, env)
			s.awaitReady(http.StatusOK)
			if answer := s.ask(env, "mutation { donate(sats: 5) { state invoice { bolt11 } } }"); !strings.Contains(answer, `"bolt11":"ln`) {
				t.Errorf("no invoice: %s", answer)
			}
			_, metrics := s.get("/metrics")
			if n := strings.Count(metrics, `holdfast_lock_acquisitions_total{status="acquired"} 1`); n != c.turns {
				t.Errorf("%d turns are counted, want %d", n, c.turns)
			}
			if code := s.stop(); code != exitOK {
				t.Errorf("exit code %d:\n%s", code, s.said())
			}
		})
	}
}

// Locks in memory are for one instance; processes without requests need none.
func TestServeWithLocksInMemoryIsAlone(t *testing.T) {
	t.Parallel()
	env := settings(pgtest.New(t), "HOLDFAST_LOCK_STRATEGY=memory")
	first := serve(t, env)
	code, _, said := command(t, env, "serve")
	if code != exitFailed || !strings.Contains(said, "another instance works on this database") || !strings.Contains(said, "HOLDFAST_LOCK_STRATEGY") {
		t.Errorf("a second instance: exit code %d:\n%s", code, said)
	}
	serve(t, append(env, "HOLDFAST_ROLES=worker"))
	first.stop()
	serve(t, env)
}

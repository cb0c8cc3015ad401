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

// Locks in memory are not beside those in Redis: either order nothing against the others. Where locks in memory were there
// first, the service goes on with Redis, and its log says so until they are gone.
func TestServeWithLocksInMemoryIsNotBesideRedis(t *testing.T) {
	t.Parallel()
	pool := pgtest.New(t)
	inMemory := settings(pool, "HOLDFAST_LOCK_STRATEGY=memory")
	inRedis := settings(pool, "HOLDFAST_LOCK_STRATEGY=redis", "HOLDFAST_LOCK_REDIS_URL="+redisserver.ForTest(t).URL())
	const reason = "another instance works on this database"
	heldBy := func(want string) func() bool { // what tells instances apart
		return func() bool {
			var names string
			err := pool.QueryRow(t.Context(), `SELECT coalesce(string_agg(application_name, ' '), '') FROM pg_locks l
				JOIN pg_database d ON d.oid = l.database JOIN pg_stat_activity a USING (pid)
				WHERE d.datname = current_database() AND locktype = 'advisory' AND granted AND classid = x'686f6c64'::int::oid`).Scan(&names)
			return err == nil && names == want
		}
	}
	refused := func() {
		t.Helper()
		code, _, said := command(t, inMemory, "serve")
		if code != exitFailed || !strings.Contains(said, reason) || !strings.Contains(said, "HOLDFAST_LOCK_STRATEGY") {
			t.Errorf("with its locks in memory: exit code %d:\n%s", code, said)
		}
	}
	first := serve(t, inRedis)
	first.await("it is known", heldBy("holdfast-lock-part"))
	refused()
	first.stop()
	first.await("it is forgotten", heldBy(""))

	memory, second := serve(t, inMemory), serve(t, inRedis)
	second.await("it is said", func() bool { return strings.Contains(second.said(), reason) })
	if status, _ := second.get("/healthz"); status != http.StatusOK {
		t.Errorf("beside locks in memory: %d", status)
	}
	memory.stop()
	second.await("it is known", heldBy("holdfast-lock-part"))
	refused()
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

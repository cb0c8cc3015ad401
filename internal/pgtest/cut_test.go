package pgtest

import (
	"path/filepath"
	"testing"

	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/a-seed-a7aed72f/holdfast/internal/child"
	"github.com/a-seed-a7aed72f/holdfast/internal/pgserver"
)

// A vacuum of the server's own may be under way in any test's database, and its owner is refused if it tries to end it.
func TestCutLeavesTheServersOwnVacuum(t *testing.T) {
	t.Parallel()
	scratch, err := child.NewScratchIn(place(), "holdfast-test-vacuum")
	if err != nil {
		t.Fatal(err)
	}
	server, err := pgserver.Start(t.Context(), pgserver.Options{Dir: filepath.Join(scratch.Dir, "postgres"), Volatile: true,
		// It begins within a second, and sleeps after every page.
		Settings: map[string]string{"autovacuum_naptime": "1s", "autovacuum_vacuum_cost_delay": "100ms", "autovacuum_vacuum_cost_limit": "1"},
	})
	if err != nil {
		t.Fatal(err)
	}
	throwaway := &Throwaway{server, scratch}
	defer func() {
		if err := throwaway.Remove(); err != nil {
			t.Error(err)
		}
	}()
	admin, err := pgxpool.New(t.Context(), server.DSN("postgres"))
	if err != nil {
		t.Fatal(err)
	}
	defer admin.Close()
	for _, sql := range []string{
		"CREATE ROLE owner LOGIN PASSWORD 'owner'",
		"CREATE TABLE big AS SELECT n, repeat('x', 500) AS filling FROM generate_series(1, 20000) AS n",
		"DELETE FROM big",
	} {
		if _, err := admin.Exec(t.Context(), sql); err != nil {
			t.Fatal(err)
		}
	}
	for begun := false; !begun; {
		if err := admin.QueryRow(t.Context(), `SELECT EXISTS (SELECT FROM pg_stat_activity
			WHERE datname = current_database() AND backend_type = 'autovacuum worker')`).Scan(&begun); err != nil {
			t.Fatal(err)
		}
	}

	config := admin.Config()
	config.ConnConfig.User, config.ConnConfig.Password = "owner", "owner"
	pool, err := pgxpool.NewWithConfig(t.Context(), config)
	if err != nil {
		t.Fatal(err)
	}
	defer pool.Close()
	other, err := pool.Acquire(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	defer other.Release()
	admin.Close() // a superuser's connections cannot be cut either
	Cut(t, pool)
	if err := other.Ping(t.Context()); err == nil {
		t.Error("another connection of the pool was not cut")
	}
}

package pgtest

import (
	"context"
	"testing"

	"github.com/jackc/pgx/v5/pgxpool"
)

// Cut ends all connections to a pool's database but the one on which it asks for that. What the server itself does
// there, such as a vacuum, is none of them, and the owner of a database may not end it.
func Cut(t testing.TB, pool *pgxpool.Pool) {
	t.Helper()
	_, err := pool.Exec(context.WithoutCancel(t.Context()), `SELECT pg_terminate_backend(pid) FROM pg_stat_activity
		WHERE datname = current_database() AND backend_type = 'client backend' AND pid <> pg_backend_pid()`)
	if err != nil {
		t.Errorf("cut the connections: %v", err)
	}
}

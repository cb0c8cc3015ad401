package pgtest

import (
	"context"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"
)

// refuseDeadlocks fails a test if PostgreSQL has resolved a deadlock in its database.
func refuseDeadlocks(t testing.TB, admin *pgx.Conn, database string) {
	// Connections report when they end, which is a moment after they were closed.
	deadline := time.NewTimer(3 * time.Second)
	defer deadline.Stop()
	again := time.NewTicker(5 * time.Millisecond)
	defer again.Stop()
	for {
		var open, deadlocks int64
		err := admin.QueryRow(context.WithoutCancel(t.Context()), `
			SELECT (SELECT count(*) FROM pg_stat_activity WHERE datname = $1 AND backend_type = 'client backend'),
			       (SELECT deadlocks FROM pg_stat_database WHERE datname = $1)`, database).Scan(&open, &deadlocks)
		if err != nil {
			t.Errorf("count deadlocks: %v", err)
			return
		}
		if deadlocks > 0 {
			t.Errorf("PostgreSQL has broken %d deadlocks", deadlocks)
			return
		}
		if open == 0 {
			return
		}
		select {
		case <-deadline.C:
			return
		case <-again.C:
		}
	}
}

// Deadlocks is how many deadlocks PostgreSQL has resolved in the database of this pool. It first closes the pool's
// connections (the pool makes new ones), since a connection reports its count when it ends, and otherwise up to ten
// seconds late. So the number is exact for work that went through this pool and is over: call it when the work is done.
func Deadlocks(t testing.TB, pool *pgxpool.Pool) int64 {
	t.Helper()
	ctx := t.Context()
	var since time.Time
	if err := pool.QueryRow(ctx, "SELECT clock_timestamp()").Scan(&since); err != nil {
		t.Fatalf("count deadlocks: %v", err)
	}
	pool.Reset()

	// Other pools on the database may keep idle connections for ever: so the wait is short.
	deadline := time.NewTimer(3 * time.Second)
	defer deadline.Stop()
	again := time.NewTicker(5 * time.Millisecond)
	defer again.Stop()
	for {
		var idle, deadlocks int64
		err := pool.QueryRow(ctx, `
			SELECT (SELECT count(*) FROM pg_stat_activity
			         WHERE datname = current_database() AND backend_start < $1
			           AND backend_type = 'client backend' AND state = 'idle' AND pid <> pg_backend_pid()),
			       (SELECT deadlocks FROM pg_stat_database WHERE datname = current_database())`, since).
			Scan(&idle, &deadlocks)
		if err != nil {
			t.Fatalf("count deadlocks: %v", err)
		}
		if idle == 0 {
			return deadlocks
		}
		select {
		case <-deadline.C:
			return deadlocks
		case <-again.C:
		}
	}
}

package postgres_test

import (
	"context"
	"errors"
	"os"
	"testing"

	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/a-seed-a7aed72f/holdfast/internal/pgbouncer"
	"github.com/a-seed-a7aed72f/holdfast/internal/pgtest"
	"github.com/a-seed-a7aed72f/holdfast/lock"
	"github.com/a-seed-a7aed72f/holdfast/lock/locktest"
	"github.com/a-seed-a7aed72f/holdfast/lock/postgres"
)

// The addresses of another process's store.
const (
	dsnVariable    = "HOLDFAST_LOCKTEST_DSN"
	directVariable = "HOLDFAST_LOCKTEST_DIRECT"
)

func TestMain(m *testing.M) {
	locktest.Main(func() (lock.Store, error) {
		return postgres.Open(context.Background(), postgres.Options{DSN: os.Getenv(dsnVariable), Direct: os.Getenv(directVariable)})
	})
	pgtest.Main(m)
}

// strategy is the one in the pool's database, reached as the options say.
func strategy(pool *pgxpool.Pool, o postgres.Options) locktest.Strategy {
	count := func(ctx context.Context, query string, arg any) (n int, err error) {
		err = pool.QueryRow(ctx, query, arg).Scan(&n)
		return n, err
	}
	return locktest.Strategy{
		Open: func() (lock.Store, error) { return postgres.Open(context.Background(), o) },
		Waiting: func(ctx context.Context, key string) (int, error) {
			return count(ctx, "SELECT count(*) FROM lock_ticket WHERE key = $1", key)
		},
		Left: func(ctx context.Context, prefix string) (int, error) {
			return count(ctx, `SELECT (SELECT count(*) FROM lock_key WHERE starts_with(key, $1) AND (ticket IS NOT NULL OR waiting <> 0))
				+ (SELECT count(*) FROM lock_ticket WHERE starts_with(key, $1))`, prefix)
		},
		Child:   []string{dsnVariable + "=" + o.DSN, directVariable + "=" + o.Direct},
		Guarded: pool,
		Cancels: 10_000,
	}
}

func TestPostgres(t *testing.T) {
	pool := pgtest.New(t)
	locktest.Run(t, strategy(pool, postgres.Options{DSN: pool.Config().ConnString()}))
}

// TestBehindPgBouncer has no session of its own: each statement may meet another connection. LISTEN takes the direct way.
func TestBehindPgBouncer(t *testing.T) {
	pool := pgtest.New(t)
	pooled := pgbouncer.Start(t, pool)
	s := strategy(pool, postgres.Options{DSN: pooled, Direct: pool.Config().ConnString()})
	s.Cancels = 500
	locktest.Run(t, s)
}

// TestPrepared: statements are prepared where the connection is the store's own, and not on those of a pooler.
func TestPrepared(t *testing.T) {
	t.Parallel()
	pool := pgtest.New(t)
	for name, c := range map[string]struct {
		dsn  string
		want bool
	}{
		"direct":   {pool.Config().ConnString(), true},
		"a pooler": {pgbouncer.Start(t, pool), false},
	} {
		s, err := postgres.Open(t.Context(), postgres.Options{DSN: c.dsn})
		if err != nil {
			t.Fatal(err)
		}
		n, err := s.Prepared(t.Context())
		if err := errors.Join(err, s.Close()); err != nil {
			t.Fatal(err)
		}
		if n > 0 != c.want {
			t.Errorf("%s: %d statements are prepared", name, n)
		}
	}
}

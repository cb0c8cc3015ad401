package postgres_test

import (
	"context"
	"errors"
	"log/slog"
	"net"
	"strings"
	"testing"

	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/a-seed-a7aed72f/holdfast/internal/pgbouncer"
	"github.com/a-seed-a7aed72f/holdfast/internal/pgtest"
	"github.com/a-seed-a7aed72f/holdfast/lock"
	"github.com/a-seed-a7aed72f/holdfast/lock/locktest"
	"github.com/a-seed-a7aed72f/holdfast/lock/postgres"
)

// lines are what is logged.
type lines chan string

func (l lines) Write(line []byte) (int, error) {
	l <- string(line)
	return len(line), nil
}

// elsewhere opens a Locker whose locks are in neither the database nor Memory, and takes part by this address.
func elsewhere(t *testing.T, direct string) (*lock.Locker, lines) {
	t.Helper()
	log := make(lines, 100)
	open := func() (lock.Store, error) {
		return postgres.TakingPart(lock.NewMemory(0), direct, slog.New(slog.NewTextHandler(log, nil)))
	}
	return locktest.Open(t, locktest.Strategy{Open: open}, lock.Settings{}), log
}

// parts are the sessions by which instances take part whose locks are elsewhere.
func parts(t *testing.T, pool *pgxpool.Pool) (pids []int32) {
	t.Helper()
	if err := pool.QueryRow(t.Context(), `SELECT coalesce(array_agg(l.pid), '{}') FROM pg_locks l JOIN pg_database d ON d.oid = l.database JOIN pg_stat_activity a USING (pid)
		WHERE d.datname = current_database() AND locktype = 'advisory' AND granted AND application_name = 'holdfast-lock-part'`).Scan(&pids); err != nil {
		t.Fatal(err)
	}
	return pids
}

// TestMemoryIsNotBesideLocksElsewhere: not even once the session has broken by which it knows of them.
func TestMemoryIsNotBesideLocksElsewhere(t *testing.T) {
	t.Parallel()
	pool := pgtest.New(t)
	dsn := pool.Config().ConnString()
	refused := func(when string) {
		t.Helper()
		store, err := postgres.OpenMemory(context.Background(), dsn, 0)
		if err == nil {
			err = store.Close()
		}
		if !errors.Is(err, postgres.ErrNotAlone) {
			t.Errorf("%s: %v", when, err)
		}
	}
	l, log := elsewhere(t, dsn)
	locktest.Eventually(t, "it takes part", func() bool { return len(parts(t, pool)) == 1 })
	refused("beside locks elsewhere")
	before := parts(t, pool)[0]
	if _, err := pool.Exec(t.Context(), "SELECT pg_terminate_backend($1)", before); err != nil {
		t.Fatal(err)
	}
	if said := locktest.Wait(t, "it is said", log); !strings.Contains(said, "does not know of this one") {
		t.Error(said)
	}
	locktest.Release(t, locktest.Acquire(t, l, "k", lock.Options{}))
	locktest.Eventually(t, "it takes part again", func() bool { now := parts(t, pool); return len(now) == 1 && now[0] != before })
	refused("after the session broke")
	if err := l.Close(); err != nil {
		t.Fatal(err)
	}
	locktest.Eventually(t, "it is gone", func() bool { return guards(t, pool) == 0 })
	memory, err := postgres.OpenMemory(t.Context(), dsn, 0)
	if err != nil {
		t.Fatal(err)
	}
	if err := memory.Close(); err != nil {
		t.Error(err)
	}
}

// TestLocksElsewhereGoOnBesideMemory, as those in the database do. What is wrong is said, and ends with the other instance.
func TestLocksElsewhereGoOnBesideMemory(t *testing.T) {
	t.Parallel()
	pool := pgtest.New(t)
	dsn := pool.Config().ConnString()
	memory, err := postgres.OpenMemory(t.Context(), dsn, 0)
	if err != nil {
		t.Fatal(err)
	}
	l, log := elsewhere(t, dsn)
	if said := locktest.Wait(t, "it is said", log); !strings.Contains(said, postgres.ErrNotAlone.Error()) {
		t.Error(said)
	}
	locktest.Release(t, locktest.Acquire(t, l, "k", lock.Options{}))
	if _, err := memory.Touch(t.Context(), nil); err != nil {
		t.Errorf("who was there before: %v", err)
	}
	if err := memory.Close(); err != nil {
		t.Error(err)
	}
	locktest.Eventually(t, "it takes part", func() bool { return len(parts(t, pool)) == 1 })
}

// TestLocksElsewhereTakeNoPartThroughAPooler: it would stay behind, on a connection that others get. The log says what to do.
func TestLocksElsewhereTakeNoPartThroughAPooler(t *testing.T) {
	t.Parallel()
	pool := pgtest.New(t)
	l, log := elsewhere(t, pgbouncer.Start(t, pool))
	if said := locktest.Wait(t, "it is said", log); !strings.Contains(said, "HOLDFAST_LOCK_DIRECT_URL") {
		t.Error(said)
	}
	locktest.Release(t, locktest.Acquire(t, l, "k", lock.Options{}))
	if n := guards(t, pool); n != 0 {
		t.Errorf("%d sessions of the pooler have the lock", n)
	}
}

// TestADatabaseThatIsAwayIsSaidOnce, though taking part is tried again each second: beside the cause the log would be full of what follows from it.
func TestADatabaseThatIsAwayIsSaidOnce(t *testing.T) {
	t.Parallel()
	away, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = away.Close() })
	_, log := elsewhere(t, "postgres://holdfast@"+away.Addr().String()+"/holdfast?sslmode=disable")
	for range 4 { // who tries again has said by then what the try before came to
		conn, err := away.Accept()
		if err != nil {
			t.Fatal(err)
		}
		_ = conn.Close()
	}
	if said := locktest.Wait(t, "it is said", log); !strings.Contains(said, "does not know of this one") {
		t.Error(said)
	}
	if n := len(log); n != 0 {
		t.Errorf("it is said %d times more", n)
	}
}

// TestAnAddressThatCannotBeReadIsRefused, though only order depends on it: whoever wrote it is there to mend it.
func TestAnAddressThatCannotBeReadIsRefused(t *testing.T) {
	t.Parallel()
	if _, err := postgres.TakingPart(lock.NewMemory(0), "postgres://%zz", slog.New(slog.DiscardHandler)); err == nil {
		t.Error("it is accepted")
	}
}

package postgres_test

import (
	"context"
	"errors"
	"log/slog"
	"testing"
	"time"

	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/prometheus/client_golang/prometheus"

	"github.com/a-seed-a7aed72f/holdfast/internal/pgbouncer"
	"github.com/a-seed-a7aed72f/holdfast/internal/pgtest"
	"github.com/a-seed-a7aed72f/holdfast/lock"
	"github.com/a-seed-a7aed72f/holdfast/lock/locktest"
	"github.com/a-seed-a7aed72f/holdfast/lock/postgres"
)

// TestLeaksNothing: a Locker that was closed leaves no goroutine, whatever it was doing.
func TestLeaksNothing(t *testing.T) {
	pool := pgtest.New(t)
	locktest.Closes(t, strategy(pool, postgres.Options{DSN: pool.Config().ConnString()}))
	elsewhere, err := postgres.TakingPart(lock.NewMemory(0), pool.Config().ConnString(), slog.New(slog.DiscardHandler))
	if err != nil {
		t.Fatal(err)
	}
	locktest.Eventually(t, "it takes part", func() bool { return guards(t, pool) == 1 })
	if err := elsewhere.Close(); err != nil {
		t.Error(err)
	}
	pool.Reset()
}

// TestMemoryIsForOne: a second instance with its locks in memory is refused as long as the first one lives, and where it slips in
// while the first one's connection is cut, the first one gives no more locks.
func TestMemoryIsForOne(t *testing.T) {
	t.Parallel()
	pool := pgtest.New(t)
	dsn := pool.Config().ConnString()
	open := func() (lock.Store, error) { return postgres.OpenMemory(context.Background(), dsn, 0) }
	first := locktest.Open(t, locktest.Strategy{Open: open}, lock.Settings{})
	locktest.Release(t, locktest.Acquire(t, first, "k", lock.Options{}))
	if _, err := open(); !errors.Is(err, postgres.ErrNotAlone) {
		t.Fatalf("a second instance: %v", err)
	}

	held := locktest.Acquire(t, first, "held", lock.Options{TTL: time.Second})
	intrude(t, pool)
	locktest.Eventually(t, "the first one gives no more locks", func() bool {
		lease, err := first.Acquire(t.Context(), "k", lock.Options{})
		if err != nil {
			return errors.Is(err, lock.ErrUnavailable) && errors.Is(err, postgres.ErrNotAlone)
		}
		lease.Drop()
		return false
	})
	locktest.Wait(t, "the loss of what is held", held.Context().Done())
}

// intrude takes the place of an instance with its locks in memory while its connection is cut.
func intrude(t *testing.T, pool *pgxpool.Pool) {
	t.Helper()
	intruder, err := pool.Acquire(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(intruder.Release)
	taken := make(chan error, 1)
	go func() { // it waits for the lock, and has it as soon as the session is gone
		_, err := intruder.Exec(t.Context(), "SELECT pg_advisory_lock(x'686f6c6466617374'::bit(64)::bigint)")
		taken <- err
	}()
	locktest.Eventually(t, "the intruder waits", func() bool {
		var n int
		err := pool.QueryRow(t.Context(), `SELECT count(*) FROM pg_locks l JOIN pg_database d ON d.oid = l.database
			WHERE d.datname = current_database() AND locktype = 'advisory' AND NOT granted`).Scan(&n)
		return err == nil && n == 1
	})
	if _, err := pool.Exec(t.Context(), `SELECT pg_terminate_backend(pid) FROM pg_stat_activity
		WHERE application_name LIKE 'holdfast-lock-alone-%' AND datname = current_database()`); err != nil {
		t.Fatal(err)
	}
	if err := locktest.Wait(t, "the intruder's lock", taken); err != nil {
		t.Fatal(err)
	}
}

// TestNothingIsHandedOverOnceAnotherInstanceIsThere: what was held when another instance slipped in goes to nobody who
// waits here, whatever ends it, and those that wait are told.
func TestNothingIsHandedOverOnceAnotherInstanceIsThere(t *testing.T) {
	t.Parallel()
	pool := pgtest.New(t)
	store, err := postgres.OpenMemory(t.Context(), pool.Config().ConnString(), 0)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = store.Close() }()
	enter := func(id string) (lock.Entered, error) {
		return store.Enter(t.Context(), lock.Entry{Ticket: lock.Ticket{Key: "k", ID: id, Process: "p"}, TTL: time.Hour, MaxHold: time.Hour, MaxQueue: 9, Wait: true})
	}
	for _, c := range []struct {
		id   string
		want lock.State
	}{{"holds", lock.Held}, {"waits", lock.Queued}} {
		if got, err := enter(c.id); err != nil || got.State != c.want {
			t.Fatal(c.id, got, err)
		}
	}
	intrude(t, pool)
	locktest.Eventually(t, "it is told of the other one", func() bool { _, err := enter("comes"); return errors.Is(err, postgres.ErrNotAlone) })
	holds := lock.Ticket{Key: "k", ID: "holds", Process: "p"}
	for name, do := range map[string]func() error{
		"Release": func() error { _, err := store.Release(t.Context(), holds); return err },
		"Leave":   func() error { _, err := store.Leave(t.Context(), holds); return err },
		"Advance": func() error { _, err := store.Advance(t.Context(), "k", "p"); return err },
		"Look":    func() error { _, err := store.Look(t.Context(), []lock.Ticket{holds}); return err },
	} {
		if err := do(); !errors.Is(err, postgres.ErrNotAlone) {
			t.Errorf("%s: %v", name, err)
		}
	}
}

// guards is how many sessions have the lock that tells instances apart, alone or shared.
func guards(t *testing.T, pool *pgxpool.Pool) (n int) {
	t.Helper()
	if err := pool.QueryRow(t.Context(), `SELECT count(*) FROM pg_locks l JOIN pg_database d ON d.oid = l.database
		WHERE d.datname = current_database() AND locktype = 'advisory' AND granted`).Scan(&n); err != nil {
		t.Fatal(err)
	}
	return n
}

// TestMemoryIsNotBesideLocksInTheDatabase: the two would not see each other's locks.
func TestMemoryIsNotBesideLocksInTheDatabase(t *testing.T) {
	t.Parallel()
	pool := pgtest.New(t)
	dsn := pool.Config().ConnString()
	s := strategy(pool, postgres.Options{DSN: dsn})
	store, err := s.Open()
	if err != nil {
		t.Fatal(err)
	}
	l, err := lock.New(store, lock.Settings{})
	if err != nil {
		t.Fatal(err)
	}
	locktest.Eventually(t, "it takes part", func() bool { return guards(t, pool) == 1 })
	if _, err := postgres.OpenMemory(context.Background(), dsn, 0); !errors.Is(err, postgres.ErrNotAlone) {
		t.Errorf("beside locks in the database: %v", err)
	}
	if err := l.Close(); err != nil {
		t.Fatal(err)
	}
	locktest.Eventually(t, "it is gone", func() bool { return guards(t, pool) == 0 })
	memory := locktest.Open(t, locktest.Strategy{Open: func() (lock.Store, error) { return postgres.OpenMemory(context.Background(), dsn, 0) }}, lock.Settings{})
	beside := locktest.Open(t, s, lock.Settings{})
	locktest.Release(t, locktest.Acquire(t, beside, "k", lock.Options{})) // it works, without wakes, and its log says why
	locktest.Release(t, locktest.Acquire(t, memory, "k", lock.Options{}))
	if n := guards(t, pool); n != 1 {
		t.Errorf("%d sessions have the lock, want the one in memory", n)
	}
}

// TestMemoryIsNotKeptOutByItself: where the network breaks the guard's session and the server is not told, that session still has the lock. It is nobody
// else's, and the instance goes on, guarded as before.
func TestMemoryIsNotKeptOutByItself(t *testing.T) {
	t.Parallel()
	pool := pgtest.New(t)
	proxy := pgtest.NewProxy(t, pool)
	open := func() (lock.Store, error) { return postgres.OpenMemory(context.Background(), proxy.URL, 0) }
	l := locktest.Open(t, locktest.Strategy{Open: open}, lock.Settings{})
	guard := func() (pid int32) {
		err := pool.QueryRow(t.Context(), `SELECT coalesce(max(l.pid), 0) FROM pg_locks l JOIN pg_database d ON d.oid = l.database
			WHERE d.datname = current_database() AND locktype = 'advisory' AND granted`).Scan(&pid)
		if err != nil {
			t.Fatal(err)
		}
		return pid
	}
	before := guard()
	proxy.Reset()
	locktest.Eventually(t, "another session guards", func() bool {
		locktest.Release(t, locktest.Acquire(t, l, "k", lock.Options{}))
		pid := guard()
		return pid != 0 && pid != before
	})
	if _, err := open(); !errors.Is(err, postgres.ErrNotAlone) {
		t.Errorf("a second instance: %v", err)
	}
}

// TestMemoryIsNotBehindAPooler: two instances could have the same session of the server, and each its lock.
func TestMemoryIsNotBehindAPooler(t *testing.T) {
	t.Parallel()
	pool := pgtest.New(t)
	store, err := postgres.OpenMemory(t.Context(), pgbouncer.Start(t, pool), 0)
	if err == nil {
		err = store.Close()
	}
	if !errors.Is(err, postgres.ErrPooler) {
		t.Errorf("behind a pooler: %v", err)
	}
	if n := guards(t, pool); n != 0 {
		t.Errorf("%d sessions of the pooler have the lock", n)
	}
}

// TestNoPartIsTakenThroughAPooler: it would stay behind on a connection that others get, and keep an instance with its locks in memory out when all others
// are gone.
func TestNoPartIsTakenThroughAPooler(t *testing.T) {
	t.Parallel()
	pool := pgtest.New(t)
	registry := prometheus.NewRegistry()
	locktest.Open(t, strategy(pool, postgres.Options{DSN: pgbouncer.Start(t, pool)}), lock.Settings{Metrics: lock.NewMetrics(registry)})
	locktest.Eventually(t, "it has noticed that it hears nothing", func() bool {
		return locktest.Metric(t, registry, "holdfast_lock_errors_total", "listen") > 0
	})
	if n := guards(t, pool); n != 0 {
		t.Errorf("%d sessions of the pooler have the lock", n)
	}
}

// TestList is what people see of it.
func TestList(t *testing.T) {
	t.Parallel()
	pool := pgtest.New(t)
	s := strategy(pool, postgres.Options{DSN: pool.Config().ConnString()})
	settings := func(name string) lock.Settings { // in which somebody who waits counts as alive for long
		return lock.Settings{Name: name, Heartbeat: locktest.Patient.Heartbeat, Patience: locktest.Patient.Patience}
	}
	a, b := locktest.Open(t, s, settings("a")), locktest.Open(t, s, settings("b"))
	held := locktest.Acquire(t, a, "payer:1", lock.Options{})
	ctx, cancel := context.WithCancel(t.Context())
	waiting := locktest.Go(ctx, b, "payer:1", lock.Options{})
	locktest.Queued(t, s, "payer:1", 1)
	all, err := postgres.List(t.Context(), pool, 10, 10)
	if err != nil {
		t.Fatal(err)
	}
	if len(all) != 1 || all[0].Key != "payer:1" || all[0].Process != "a" || all[0].Fence != held.Fence() || all[0].Waiting != 1 || all[0].Left <= 0 ||
		len(all[0].Waiters) != 1 || all[0].Waiters[0].Process != "b" || !all[0].Waiters[0].Alive {
		t.Errorf("%+v", all)
	}
	cancel()
	locktest.Wait(t, "the end of the wait", waiting)
	locktest.Release(t, held)
}

package postgres_test

import (
	"testing"

	"github.com/a-seed-a7aed72f/holdfast/internal/pgtest"
	"github.com/a-seed-a7aed72f/holdfast/lock"
	"github.com/a-seed-a7aed72f/holdfast/lock/locktest"
	"github.com/a-seed-a7aed72f/holdfast/lock/postgres"
)

// TestSweep removes what says nothing any more, and fences grow all the same.
func TestSweep(t *testing.T) {
	t.Parallel()
	pool := pgtest.New(t)
	s := strategy(pool, postgres.Options{DSN: pool.Config().ConnString()})
	l := locktest.Open(t, s, lock.Settings{})
	first := locktest.Acquire(t, l, "k", lock.Options{})
	locktest.Release(t, first)
	held := locktest.Acquire(t, l, "held", lock.Options{})
	if _, err := pool.Exec(t.Context(), "SELECT lock_sweep(-1000)"); err != nil {
		t.Fatal(err)
	}
	var left int
	if err := pool.QueryRow(t.Context(), "SELECT count(*) FROM lock_key").Scan(&left); err != nil || left != 1 {
		t.Errorf("%d keys are left, %v", left, err)
	}
	again := locktest.Acquire(t, l, "k", lock.Options{})
	if again.Fence() <= first.Fence() {
		t.Errorf("fence %d after %d", again.Fence(), first.Fence())
	}
	locktest.Release(t, again)
	locktest.Release(t, held)
}

// A key whose holder died is freed, and then removed, even if nobody asks for it any more; who waited for it and died
// goes with it. A lease that ran out a moment ago is left to those who wait.
func TestSweepFreesWhatTheDeadHeld(t *testing.T) {
	t.Parallel()
	ctx, pool := t.Context(), pgtest.New(t)
	exec := func(sql string) {
		if _, err := pool.Exec(ctx, sql); err != nil {
			t.Fatal(err)
		}
	}
	exec(`INSERT INTO lock_key (key, ticket, fence, since, expires_at, hold_until, waiting) VALUES
		('dead', 'a', nextval('lock_fence'), now() - interval '2 hours', now() - interval '2 hours', now() - interval '2 hours', 1),
		('over', 'b', nextval('lock_fence'), now() - interval '2 hours', now() - interval '1 minute', now(), 0),
		('held', 'c', nextval('lock_fence'), now() - interval '2 hours', now() + interval '1 hour', now() + interval '1 hour', 0);
		INSERT INTO lock_ticket (id, key, process, ttl_ms, hold_ms, since) VALUES ('d', 'dead', 'gone', 1000, 1000, now() - interval '2 hours')`)
	s := strategy(pool, postgres.Options{DSN: pool.Config().ConnString()})
	store, err := s.Open()
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = store.Close() }()
	for round := range 2 {
		if err := store.Sweep(ctx); err != nil {
			t.Fatal(err)
		}
		var held string
		var waiting int
		if err := pool.QueryRow(ctx, `SELECT (SELECT string_agg(key, ' ' ORDER BY key) FROM lock_key WHERE ticket IS NOT NULL), (SELECT count(*) FROM lock_ticket)`).
			Scan(&held, &waiting); err != nil || held != "held over" || waiting != 0 {
			t.Errorf("round %d: %q are held and %d wait, %v", round, held, waiting, err)
		}
		exec(`UPDATE lock_key SET since = now() - interval '2 hours' WHERE ticket IS NULL`)
	}
	var keys int
	if err := pool.QueryRow(ctx, `SELECT count(*) FROM lock_key`).Scan(&keys); err != nil || keys != 2 {
		t.Errorf("%d keys are left, %v", keys, err)
	}
}

package postgres_test

import (
	"testing"
	"time"

	"github.com/a-seed-a7aed72f/holdfast/internal/pgtest"
	"github.com/a-seed-a7aed72f/holdfast/lock"
	"github.com/a-seed-a7aed72f/holdfast/lock/locktest"
	"github.com/a-seed-a7aed72f/holdfast/lock/postgres"
)

// TestAStuckKeyHoldsUpNoOther: a process that cannot hand one key over, whose row is locked until a commit is on a slow
// disk, does not count as dead because of that: its tickets for other keys keep their places, and are waited with.
func TestAStuckKeyHoldsUpNoOther(t *testing.T) {
	t.Parallel()
	ctx, pool := t.Context(), pgtest.New(t)
	s := strategy(pool, postgres.Options{DSN: pool.Config().ConnString()})
	settings := lock.Settings{Heartbeat: time.Second, Patience: 4 * time.Second}
	l, other := locktest.Open(t, s, settings), locktest.Open(t, s, settings)
	held := locktest.Acquire(t, other, "k", lock.Options{})
	first := locktest.Go(ctx, l, "k", lock.Options{})
	locktest.Queued(t, s, "k", 1)
	second := locktest.Go(ctx, other, "k", lock.Options{})
	locktest.Queued(t, s, "k", 2)

	if _, err := pool.Exec(ctx, `INSERT INTO lock_key (key, ticket, fence, since, expires_at, hold_until)
		SELECT 'stuck', 'dead', nextval('lock_fence'), now(), now() + interval '2 seconds', now() + interval '2 seconds'`); err != nil {
		t.Fatal(err)
	}
	stuck := locktest.Go(ctx, l, "stuck", lock.Options{})
	locktest.Queued(t, s, "stuck", 1)
	tx, err := pool.Begin(ctx)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = tx.Rollback(ctx) }()
	if _, err := tx.Exec(ctx, "SELECT FROM lock_key WHERE key = 'stuck' FOR UPDATE"); err != nil {
		t.Fatal(err)
	}
	locktest.Eventually(t, "a process that has not beaten since the lease ended is dead, and who is patient has lost patience", func() (long bool) {
		if err := pool.QueryRow(ctx, "SELECT clock_timestamp() > expires_at + interval '6 seconds' FROM lock_key WHERE key = 'stuck'").Scan(&long); err != nil {
			t.Fatal(err)
		}
		return long
	})
	locktest.Release(t, held)
	select {
	case r := <-first:
		if r.Err != nil {
			t.Fatalf("who waits for another key: %v", r.Err)
		}
		r.Lease.Drop()
	case <-second:
		t.Fatal("the second in the queue has the lock before the first")
	case <-time.After(locktest.Patience):
		t.Fatal("nobody got the lock")
	}
	r := locktest.Wait(t, "the second turn", second)
	if r.Err != nil {
		t.Fatal(r.Err)
	}
	r.Lease.Drop()
	if err := tx.Rollback(ctx); err != nil {
		t.Fatal(err)
	}
	if r = locktest.Wait(t, "the key that was stuck", stuck); r.Err != nil {
		t.Fatal(r.Err)
	}
	r.Lease.Drop()
}

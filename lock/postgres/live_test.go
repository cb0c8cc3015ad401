package postgres_test

import (
	"testing"
	"time"

	"github.com/a-seed-a7aed72f/holdfast/internal/pgtest"
	"github.com/a-seed-a7aed72f/holdfast/lock/locktest"
	"github.com/a-seed-a7aed72f/holdfast/lock/postgres"
)

// TestAWaitSetsNoLifeBack: who had to wait for the row of its process, since another's commit was on a slow disk, does not
// set back what a heartbeat wrote meanwhile: the process's tickets would be skipped as those of a dead one.
func TestAWaitSetsNoLifeBack(t *testing.T) {
	t.Parallel()
	for name, ask := range map[string]string{
		"a place":     "SELECT FROM lock_enter('k', 'ticket', 'p', 'name', 60000, 10000, 30000, 100, true)",
		"a heartbeat": "SELECT lock_beat('p', 'name', 60000)",
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			ctx, pool := t.Context(), pgtest.New(t)
			if _, err := pool.Exec(ctx, `INSERT INTO lock_process VALUES ('p', 'name', 'epoch');
				INSERT INTO lock_key (key, ticket, expires_at, hold_until) VALUES ('k', 'holder', 'infinity', 'infinity')`); err != nil {
				t.Fatal(err)
			}
			tx, err := pool.Begin(ctx)
			if err != nil {
				t.Fatal(err)
			}
			defer func() { _ = tx.Rollback(ctx) }()
			if _, err := tx.Exec(ctx, "SELECT FROM lock_process WHERE id = 'p' FOR UPDATE"); err != nil {
				t.Fatal(err)
			}
			asked := make(chan error, 1)
			go func() { _, err := pool.Exec(ctx, ask); asked <- err }()
			locktest.Eventually(t, "it waits for the row", func() (waits bool) {
				if err := pool.QueryRow(ctx, `SELECT EXISTS (SELECT FROM pg_stat_activity
					WHERE datname = current_database() AND wait_event_type = 'Lock')`).Scan(&waits); err != nil {
					t.Fatal(err)
				}
				return waits
			})
			var beat, left time.Time
			if err := tx.QueryRow(ctx, "UPDATE lock_process SET live_until = clock_timestamp() + interval '1 minute' RETURNING live_until").Scan(&beat); err != nil {
				t.Fatal(err)
			}
			if err := tx.Commit(ctx); err != nil {
				t.Fatal(err)
			}
			if err := locktest.Wait(t, "its answer", asked); err != nil {
				t.Fatal(err)
			}
			if err := pool.QueryRow(ctx, "SELECT live_until FROM lock_process").Scan(&left); err != nil {
				t.Fatal(err)
			}
			if left.Before(beat) {
				t.Errorf("the process lives until %v after it, and until %v before", left, beat)
			}
		})
	}
}

// TestAPauseCostsNoPlaces: heartbeats are late after a pause of the server. Who hands the lock over is alive all the same,
// and so are those that wait in the same process.
func TestAPauseCostsNoPlaces(t *testing.T) {
	t.Parallel()
	pool := pgtest.New(t)
	locktest.KeepsPlaces(t, strategy(pool, postgres.Options{DSN: pool.Config().ConnString()}), func() (dead bool) {
		if err := pool.QueryRow(t.Context(), `SELECT greatest(max(live_until), pg_postmaster_start_time() + interval '2 seconds') < clock_timestamp()
			FROM lock_process`).Scan(&dead); err != nil {
			t.Fatal(err)
		}
		return dead
	})
}

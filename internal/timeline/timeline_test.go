package timeline_test

import (
	"context"
	"log/slog"
	"path/filepath"
	"sync"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/a-seed-a7aed72f/holdfast/internal/child"
	"github.com/a-seed-a7aed72f/holdfast/internal/db"
	"github.com/a-seed-a7aed72f/holdfast/internal/pgserver"
	"github.com/a-seed-a7aed72f/holdfast/internal/pgtest"
	"github.com/a-seed-a7aed72f/holdfast/internal/timeline"
	"github.com/a-seed-a7aed72f/holdfast/migrations"
)

func TestMain(m *testing.M) { pgtest.Main(m) }

func watch(t *testing.T) *timeline.Watch {
	return &timeline.Watch{Log: slog.New(slog.NewTextHandler(t.Output(), nil))}
}

func isDoubted(w *timeline.Watch) bool { _, doubted := w.Doubted(); return doubted }

func look(t *testing.T, w *timeline.Watch, on timeline.Database, doubted bool) {
	t.Helper()
	if err := w.Look(t.Context(), on); err != nil {
		t.Fatal(err)
	}
	if isDoubted(w) != doubted {
		t.Errorf("doubted: %t, want %t", !doubted, doubted)
	}
}

// given is the next number of an action.
func given(t *testing.T, on timeline.Database) (number int64) {
	t.Helper()
	if err := on.QueryRow(t.Context(), `SELECT nextval('paid_action_id_seq')`).Scan(&number); err != nil {
		t.Fatal(err)
	}
	return number
}

// The database is put back to an earlier moment, as another one: nothing new is begun, and no number is given twice, until
// that is accepted. A promise about fail-overs says nothing of that.
func TestARestoreIsNoticed(t *testing.T) {
	t.Parallel()
	pool := pgtest.New(t)
	running := watch(t)
	running.FailsOver = true
	look(t, running, pool, false)
	look(t, running, pool, false)
	restore := pgtest.Backup(t, pool)
	lost := given(t, pool)
	restore()
	look(t, running, pool, true)
	look(t, watch(t), pool, true)
	if next := given(t, pool); next <= lost+900_000 {
		t.Errorf("number %d is given after %d was", next, lost)
	}
	if err := timeline.Accept(t.Context(), pool); err != nil {
		t.Fatal(err)
	}
	look(t, running, pool, false)
	look(t, watch(t), pool, false)
}

// What PostgreSQL does not show is said by hand.
func TestARestoreIsNoticedByHand(t *testing.T) {
	t.Parallel()
	pool := pgtest.New(t)
	running := watch(t)
	look(t, running, pool, false)
	lost := given(t, pool)
	if err := timeline.Doubt(t.Context(), pool); err != nil {
		t.Fatal(err)
	}
	look(t, running, pool, true)
	if next := given(t, pool); next <= lost+900_000 {
		t.Errorf("number %d is given after %d was", next, lost)
	}
	if err := timeline.Accept(t.Context(), pool); err != nil {
		t.Fatal(err)
	}
	look(t, running, pool, false)
	list, err := timeline.List(t.Context(), pool)
	if err != nil || len(list) != 1 || !list[0].Here || list[0].Accepted == nil {
		t.Errorf("%+v, %v", list, err)
	}
}

// Since when it was doubted stays known once it is accepted, for whoever asked something before; another doubt begins anew.
func TestSinceWhenItWasDoubtedStaysKnown(t *testing.T) {
	t.Parallel()
	pool := pgtest.New(t)
	running := watch(t)
	look(t, running, pool, false)
	last := time.Time{}
	for range 2 {
		if err := timeline.Doubt(t.Context(), pool); err != nil {
			t.Fatal(err)
		}
		look(t, running, pool, true)
		began, _ := running.Doubted()
		if !began.After(last) {
			t.Errorf("doubted since %v, and the last time since %v", began, last)
		}
		if err := timeline.Accept(t.Context(), pool); err != nil {
			t.Fatal(err)
		}
		look(t, running, pool, false)
		if last, _ = running.Doubted(); last != began {
			t.Errorf("once it is accepted: since %v, not %v", last, began)
		}
	}
}

// Accepted at the moment when it was met means that it was never doubted, so not even a clock that is behind may tell that.
func TestWhatWasDoubtedStaysKnownWhateverTheClock(t *testing.T) {
	t.Parallel()
	pool := pgtest.New(t)
	running := watch(t)
	look(t, running, pool, false)
	if err := timeline.Doubt(t.Context(), pool); err != nil {
		t.Fatal(err)
	}
	look(t, running, pool, true)
	if _, err := pool.Exec(t.Context(), `UPDATE timeline SET met_at = now() + interval '1 hour'`); err != nil {
		t.Fatal(err)
	}
	if err := timeline.Accept(t.Context(), pool); err != nil {
		t.Fatal(err)
	}
	if known, err := db.New(pool).AcceptedSince(t.Context(), time.Now()); err != nil || !known {
		t.Errorf("that it was accepted is known: %v, %v", known, err)
	}
}

// A database that was restored is put back once more before anybody has accepted it, and that history is accepted while a
// process cannot reach it. No history of before can be accepted any more, so what was doubted of it is over.
func TestAHistoryThatNobodyCanAcceptAnyMoreIsDoubtedNoLonger(t *testing.T) {
	t.Parallel()
	pool := pgtest.New(t)
	running := watch(t)
	look(t, running, pool, false)
	pgtest.Backup(t, pool)()
	look(t, running, pool, true)
	pgtest.Backup(t, pool)()
	look(t, watch(t), pool, true)
	if err := timeline.Accept(t.Context(), pool); err != nil {
		t.Fatal(err)
	}
	look(t, running, pool, false)
}

// All connections of all processes come at once; numbers are skipped once.
func TestManyMeetATimelineAtOnce(t *testing.T) {
	t.Parallel()
	pool := pgtest.New(t)
	look(t, watch(t), pool, false)
	restore := pgtest.Backup(t, pool)
	restore()
	before := given(t, pool)
	var processes sync.WaitGroup
	for range 8 {
		processes.Go(func() { look(t, watch(t), pool, true) })
	}
	processes.Wait()
	if next := given(t, pool); next != before+1_000_001 {
		t.Errorf("number %d is given after %d", next, before)
	}
}

// A server that does not say where it comes from, as some that are rented out, is not doubted.
func TestAServerThatDoesNotTellIsNotDoubted(t *testing.T) {
	t.Parallel()
	pool := pgtest.New(t)
	if _, err := pool.Exec(t.Context(), `CREATE OR REPLACE FUNCTION server_timeline() RETURNS text LANGUAGE plpgsql AS
		$$ BEGIN RAISE feature_not_supported; END $$`); err != nil {
		t.Fatal(err)
	}
	look(t, watch(t), pool, false)
}

// A copy that lagged behind takes over. Connections to the server of before prove nothing about it.
func TestAFailOverIsNoticed(t *testing.T) {
	t.Parallel()
	for name, failsOver := range map[string]bool{"nobody knows whether it lacks anything": false, "it lacks nothing, the operator says": true} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			first := server(t, pgserver.Options{})
			if err := first.EnsureDatabase(t.Context(), "app"); err != nil {
				t.Fatal(err)
			}
			if err := migrations.Up(t.Context(), first.DSN("app")); err != nil {
				t.Fatal(err)
			}
			old := connect(t, first.DSN("app"))
			running := watch(t)
			running.FailsOver = failsOver
			look(t, running, old, false)
			second := server(t, pgserver.Options{Follows: first, Settings: map[string]string{"primary_conninfo": ""}})
			lost := given(t, old)
			here := connect(t, second.DSN("app"))
			look(t, running, here, false) // it only reads
			early := watch(t)             // of a process that was led to the copy too early
			pool := guarded(t, early, second.DSN("app"))
			if err := pool.Ping(t.Context()); err != nil || isDoubted(early) {
				t.Fatalf("%v, doubted %t", err, isDoubted(early))
			}
			if _, err := here.Exec(t.Context(), `SELECT pg_promote()`); err != nil {
				t.Fatal(err)
			}
			look(t, running, connect(t, second.DSN("app")), !failsOver)
			if err := pool.Ping(t.Context()); err != nil || isDoubted(early) == failsOver {
				t.Errorf("on the connection of before: %v, doubted %t", err, isDoubted(early))
			}
			if next := given(t, here); next <= lost+900_000 {
				t.Errorf("number %d is given after %d was", next, lost)
			}
			look(t, running, old, !failsOver)
			if err := timeline.Accept(t.Context(), here); err != nil {
				t.Fatal(err)
			}
			look(t, running, here, false)
		})
	}
}

func server(t *testing.T, options pgserver.Options) *pgserver.Server {
	t.Helper()
	scratch, err := child.NewScratch("holdfast-timeline-test")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := scratch.Remove(); err != nil {
			t.Error(err)
		}
	})
	options.Dir, options.Volatile, options.Log = filepath.Join(scratch.Dir, "postgres"), true, t.Logf
	s, err := pgserver.Start(t.Context(), options)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(s.Stop)
	return s
}

// guarded is a pool of one connection.
func guarded(t *testing.T, w *timeline.Watch, dsn string) *pgxpool.Pool {
	t.Helper()
	settings, err := pgxpool.ParseConfig(dsn)
	if err != nil {
		t.Fatal(err)
	}
	settings.MaxConns = 1
	w.Guard(settings)
	pool, err := pgxpool.NewWithConfig(t.Context(), settings)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(pool.Close)
	return pool
}

func connect(t *testing.T, dsn string) *pgx.Conn {
	t.Helper()
	conn, err := pgx.Connect(t.Context(), dsn)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = conn.Close(context.Background()) })
	return conn
}

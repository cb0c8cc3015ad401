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
	before := given(t, pool)
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
	if !begunBefore(t, pool, before) {
		t.Error("it is not known any more that what was there was begun before")
	}
	if latestDoubt(t, pool) == "" {
		t.Error("it is not known any more that it was doubted")
	}
}

// begunBefore reports whether the action of this number counts as begun before a doubted history was accepted.
func begunBefore(t *testing.T, on timeline.Database, number int64) bool {
	t.Helper()
	before, err := db.New(on).BegunBeforeAccepted(t.Context(), number)
	if err != nil {
		t.Fatal(err)
	}
	return before
}

func latestDoubt(t *testing.T, on timeline.Database) string {
	t.Helper()
	doubt, err := db.New(on).LatestDoubt(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	return doubt
}

func change(t *testing.T, doIt func(context.Context, timeline.Database) error, on timeline.Database) {
	t.Helper()
	if err := doIt(t.Context(), on); err != nil {
		t.Fatal(err)
	}
}

// What was begun before a history was accepted is known by its number, whatever the clock of the process that began it. That
// is so from the doubt on, and also of what a process begins that has not heard of the doubt.
func TestWhatWasBegunBeforeIsKnownByItsNumber(t *testing.T) {
	t.Parallel()
	for name, doubt := range map[string]func(t *testing.T, pool *pgxpool.Pool){
		"restored": func(t *testing.T, pool *pgxpool.Pool) {
			pgtest.Backup(t, pool)()
			look(t, watch(t), pool, true)
		},
		"by hand": func(t *testing.T, pool *pgxpool.Pool) { change(t, timeline.Doubt, pool) },
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			pool := pgtest.New(t)
			look(t, watch(t), pool, false)
			numbers := []int64{given(t, pool)}
			want := func(before int) {
				t.Helper()
				for i, n := range numbers {
					if is := begunBefore(t, pool, n); is != (i < before) {
						t.Errorf("of %v %d counts as begun before: %t", numbers, n, is)
					}
				}
			}
			want(0) // the first history was never doubted
			for range 2 {
				before := len(numbers)
				doubt(t, pool)
				want(before)
				numbers = append(numbers, given(t, pool)) // by a process that has not heard of it
				change(t, timeline.Accept, pool)
				numbers = append(numbers, given(t, pool))
				want(before + 1)
			}
		})
	}
}

// Each doubt, and each end of one, has a name of its own: whoever asked before it is told so by no clock. That is so in
// two copies of one backup, where the same numbers are given, and where the clock that met the history was ahead.
func TestEachDoubtAndItsEndHaveANameOfTheirOwn(t *testing.T) {
	t.Parallel()
	pool := pgtest.New(t)
	look(t, watch(t), pool, false)
	if doubt := latestDoubt(t, pool); doubt != "" {
		t.Errorf("nobody has doubted it, and the latest doubt is %q", doubt)
	}
	known := map[string]bool{}
	another := func() {
		t.Helper()
		doubt := latestDoubt(t, pool)
		if known[doubt] {
			t.Errorf("%q was one before", doubt)
		}
		known[doubt] = true
	}
	pgtest.Backup(t, pool)()
	again := pgtest.Backup(t, pool)
	for range 2 {
		look(t, watch(t), pool, true)
		another()
		change(t, timeline.Accept, pool)
		another()
		for range 2 {
			if _, err := pool.Exec(t.Context(), `UPDATE timeline SET met_at = '2999-01-01' WHERE accepted_at > met_at`); err != nil {
				t.Fatal(err)
			}
			change(t, timeline.Doubt, pool)
			another()
			change(t, timeline.Accept, pool)
			another()
		}
		again()
		again = func() {}
	}
}

// The order in which histories were met is that of their numbers. By a clock that was ahead a doubted one would come before
// the accepted one that it followed, and the next fail-over would be accepted by itself.
func TestHistoriesAreInTheOrderInWhichTheyWereMet(t *testing.T) {
	t.Parallel()
	pool := pgtest.New(t)
	for _, sql := range []string{`INSERT INTO timeline (name, met_at, accepted_at, last_action) VALUES
		(regexp_replace(server_timeline(), '[0-9]+$', '0'), now() + interval '3 hours', now() + interval '3 hours', 7),
		(regexp_replace(server_timeline(), '[0-9]+$', '00'), now(), NULL, 8)`, `SELECT setval('paid_action_id_seq', 8)`} {
		if _, err := pool.Exec(t.Context(), sql); err != nil {
			t.Fatal(err)
		}
	}
	running := watch(t)
	running.FailsOver = true
	look(t, running, pool, true)
	list, err := timeline.List(t.Context(), pool)
	if err != nil || len(list) != 3 || list[0].Accepted == nil || list[1].Accepted != nil || !list[2].Here {
		t.Errorf("%+v, %v", list, err)
	}
}

// A process whose clock is wrong notes when it has met a history by PostgreSQL's, which all share.
func TestAHistoryIsMetByPostgreSQLsClock(t *testing.T) {
	t.Parallel()
	for name, by := range map[string]time.Duration{"ahead": time.Hour, "behind": -time.Hour} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			pool := pgtest.New(t)
			running := watch(t)
			running.Now = func() time.Time { return time.Now().Add(by) }
			look(t, running, pool, false)
			pgtest.Backup(t, pool)()
			look(t, running, pool, true)
			list, err := timeline.List(t.Context(), pool)
			if err != nil || len(list) != 2 {
				t.Fatal(list, err)
			}
			for _, known := range list {
				if off := time.Since(known.Met); off.Abs() > by.Abs()/2 {
					t.Errorf("%s was met %v ago", known.Name, off)
				}
			}
		})
	}
}

// During a fail-over an old connection leads to the server of before, whose history was accepted earlier. That ends no doubt,
// and a history that took the doubted one's place and was accepted since does, whatever this process's clock says.
func TestADoubtEndsByPostgreSQLsClock(t *testing.T) {
	t.Parallel()
	for name, by := range map[string]time.Duration{"ahead": time.Hour, "behind": -time.Hour} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			running := watch(t)
			running.Now = func() time.Time { return time.Now().Add(by) }
			history := func() *pgxpool.Pool {
				t.Helper()
				pool := pgtest.New(t)
				look(t, watch(t), pool, false)
				change(t, timeline.Doubt, pool)
				return pool
			}
			before, here, next := history(), history(), history()
			change(t, timeline.Accept, before)
			look(t, running, before, false)
			look(t, running, here, true)
			look(t, running, before, true)
			change(t, timeline.Accept, next)
			look(t, running, next, false)
		})
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

package postgres_test

import (
	"context"
	"errors"
	"fmt"
	"path/filepath"
	"sync"
	"testing"
	"time"

	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/prometheus/client_golang/prometheus"
	"golang.org/x/sync/errgroup"

	"github.com/a-seed-a7aed72f/holdfast/internal/child"
	"github.com/a-seed-a7aed72f/holdfast/internal/pgbouncer"
	"github.com/a-seed-a7aed72f/holdfast/internal/pgserver"
	"github.com/a-seed-a7aed72f/holdfast/internal/pgtest"
	"github.com/a-seed-a7aed72f/holdfast/lock"
	"github.com/a-seed-a7aed72f/holdfast/lock/locktest"
	"github.com/a-seed-a7aed72f/holdfast/lock/postgres"
	"github.com/a-seed-a7aed72f/holdfast/migrations"
)

// handOver hands a held lock over to another Locker and returns how long that took.
func handOver(t *testing.T, s locktest.Strategy, from, to *lock.Locker, key string) time.Duration {
	t.Helper()
	held := locktest.Acquire(t, from, key, lock.Options{})
	next := locktest.Go(t.Context(), to, key, lock.Options{})
	locktest.Queued(t, s, key, 1)
	begun := time.Now()
	locktest.Release(t, held)
	r := locktest.Wait(t, "the lock", next)
	took := time.Since(begun)
	if r.Err != nil {
		t.Fatal(r.Err)
	}
	locktest.Release(t, r.Lease)
	return took
}

// deaf is a store whose listener hears no wake, and says what the test says.
type deaf struct {
	lock.Store
	up chan func(bool)
}

func (d deaf) Listen(ctx context.Context, _ lock.Process, up func(bool), _ func(string, int64)) error {
	up(true)
	d.up <- up
	<-ctx.Done()
	return ctx.Err()
}

// TestWakeInAGap: a wake that was sent while nobody listened for a moment costs no more than a look, even if nobody polled meanwhile.
func TestWakeInAGap(t *testing.T) {
	t.Parallel()
	pool := pgtest.New(t)
	s := strategy(pool, postgres.Options{DSN: pool.Config().ConnString()})
	a := locktest.Open(t, s, locktest.Patient)
	ups, plain := make(chan func(bool), 1), s.Open
	s.Open = func() (lock.Store, error) {
		store, err := plain()
		return deaf{store, ups}, err
	}
	b := locktest.Open(t, s, lock.Settings{Heartbeat: time.Hour, Poll: time.Hour, Patience: time.Hour})
	up := <-ups
	held := locktest.Acquire(t, a, "k", lock.Options{})
	next := locktest.Go(t.Context(), b, "k", lock.Options{})
	locktest.Queued(t, s, "k", 1)
	locktest.Release(t, held)
	up(false)
	up(true)
	r := locktest.Wait(t, "the lock", next)
	if r.Err != nil {
		t.Fatal(r.Err)
	}
	locktest.Release(t, r.Lease)
}

// TestListenerCut: while the listener's connection is gone waiters poll, and it comes back.
func TestListenerCut(t *testing.T) {
	t.Parallel()
	pool := pgtest.New(t)
	s := strategy(pool, postgres.Options{DSN: pool.Config().ConnString()})
	a, b := locktest.Open(t, s, locktest.Patient), locktest.Open(t, s, locktest.Patient)
	locktest.Eventually(t, "b listens", b.Listening)
	t.Logf("listening: %v", handOver(t, s, a, b, "k"))
	for range 3 {
		locktest.Within(t, time.Second, "the way of the lock beside a cut listener", func() time.Duration {
			held := locktest.Acquire(t, a, "k", lock.Options{})
			next := locktest.Go(t.Context(), b, "k", lock.Options{})
			locktest.Queued(t, s, "k", 1)
			if _, err := pool.Exec(t.Context(), `SELECT pg_terminate_backend(pid) FROM pg_stat_activity
			WHERE application_name = 'holdfast-lock-listen' AND datname = current_database()`); err != nil {
				t.Fatal(err)
			}
			begun := time.Now()
			locktest.Release(t, held)
			r := locktest.Wait(t, "the lock", next)
			if r.Err != nil {
				t.Fatal(r.Err)
			}
			took := time.Since(begun)
			locktest.Release(t, r.Lease)
			locktest.Eventually(t, "b listens again", b.Listening)
			return took
		})
	}
}

// TestCutConnectionsAreForgotten: once the listener has noticed that the server ended its connection, nobody meets another one that it ended.
func TestCutConnectionsAreForgotten(t *testing.T) {
	t.Parallel()
	pool := pgtest.New(t)
	const connections = 4
	s := strategy(pool, postgres.Options{DSN: pool.Config().ConnString(), Connections: connections})
	l := locktest.Open(t, s, lock.Settings{})
	locktest.Eventually(t, "it listens", l.Listening)
	all := func() {
		t.Helper()
		var group errgroup.Group
		for i := range 4 * connections {
			group.Go(func() error {
				lease, err := l.Acquire(t.Context(), fmt.Sprint(i), lock.Options{})
				if err != nil {
					return err
				}
				return lease.Release(t.Context())
			})
		}
		if err := group.Wait(); err != nil {
			t.Error(err)
		}
	}
	all()
	var cut []int32
	if err := pool.QueryRow(t.Context(), `SELECT array_agg(pid) FROM pg_stat_activity
		WHERE application_name LIKE 'holdfast-lock%' AND datname = current_database()`).Scan(&cut); err != nil {
		t.Fatal(err)
	}
	if len(cut) < 2 {
		t.Fatalf("there are %d connections", len(cut))
	}
	// Which of them the server ends itself does not matter: as soon as the listener's is gone, the pool closes the others.
	if _, err := pool.Exec(t.Context(), "SELECT pg_terminate_backend(pid) FROM unnest($1::int[]) AS pid", cut); err != nil {
		t.Fatal(err)
	}
	locktest.Eventually(t, "it listens again", func() bool {
		var again bool
		err := pool.QueryRow(t.Context(), `SELECT EXISTS (SELECT FROM pg_stat_activity
			WHERE application_name = 'holdfast-lock-listen' AND datname = current_database() AND pid <> ALL ($1))`, cut).Scan(&again)
		return err == nil && again
	})
	all()
}

// TestPolling: without LISTEN, and with one that stays silent because it went to a pooler, waiters poll.
func TestPolling(t *testing.T) {
	t.Parallel()
	pool := pgtest.New(t)
	for name, o := range map[string]postgres.Options{
		"no LISTEN":               {DSN: pool.Config().ConnString(), NoListen: true},
		"LISTEN through a pooler": {DSN: pgbouncer.Start(t, pool)},
	} {
		s := strategy(pool, o)
		a, b := locktest.Open(t, s, locktest.Patient), locktest.Open(t, s, locktest.Patient)
		for range 3 {
			locktest.Within(t, time.Second, name, func() time.Duration { return handOver(t, s, a, b, "k") })
			if b.Listening() {
				t.Errorf("%s: it believes that wakes get through", name)
			}
		}
	}
}

// TestWhatIsOnDisk: a lease is, when it is got; one that is fleeting, and its end, need not be.
func TestWhatIsOnDisk(t *testing.T) {
	t.Parallel()
	_, pool := server(t)
	l := locktest.Open(t, strategy(pool, postgres.Options{DSN: pool.Config().ConnString(), NoListen: true}), lock.Settings{Heartbeat: time.Minute, Patience: time.Minute, Poll: time.Minute})
	onDisk := func(what string, want bool) {
		t.Helper()
		var got bool
		if err := pool.QueryRow(t.Context(), "SELECT pg_current_wal_flush_lsn() >= pg_current_wal_insert_lsn()").Scan(&got); err != nil || got != want {
			t.Errorf("%s is on disk: %t, %v", what, got, err)
		}
	}
	lasting, fleeting := lock.Options{TTL: time.Minute}, lock.Options{TTL: time.Minute, Fleeting: true}
	first := locktest.Acquire(t, l, "k", lasting)
	onDisk("a lease", true)
	locktest.Release(t, first)
	onDisk("its end", false)
	second := locktest.Acquire(t, l, "k", lasting)
	onDisk("the next lease, with the end of the one before", true)
	handedOver := func(check func()) {
		other := locktest.Acquire(t, l, "other", fleeting)
		onDisk("a fleeting lease", false)
		waiting := locktest.Go(t.Context(), l, "other", lasting)
		locktest.Eventually(t, "somebody waits", func() bool {
			var n int
			return pool.QueryRow(t.Context(), "SELECT count(*) FROM lock_ticket").Scan(&n) == nil && n == 1
		})
		locktest.Release(t, other)
		check()
		r := locktest.Wait(t, "the lock", waiting)
		if r.Err != nil {
			t.Fatal(r.Err)
		}
		locktest.Release(t, r.Lease)
	}
	// The first who waits is looked at, and the next only a minute later. By a look, PostgreSQL may tidy up rows, and what it
	// writes of that need not be on disk.
	handedOver(func() {})
	handedOver(func() { onDisk("a lease that is handed over", true) })
	locktest.Release(t, second)
}

// server is a PostgreSQL of the test's own, which keeps over a crash what it has confirmed: a lease is promised to be on disk. What is not
// has to wait for the server's own writer, which comes rarely.
func server(t *testing.T) (*pgserver.Server, *pgxpool.Pool) {
	t.Helper()
	scratch, err := child.NewScratch("holdfast-lock-postgres")
	if err != nil {
		t.Fatal(err)
	}
	pg, err := pgserver.Start(t.Context(), pgserver.Options{Dir: filepath.Join(scratch.Dir, "postgres"), Volatile: true,
		Settings: map[string]string{"synchronous_commit": "on", "wal_writer_delay": "10s"}})
	if err != nil {
		t.Fatal(errors.Join(err, scratch.Remove()))
	}
	t.Cleanup(func() {
		if err := errors.Join(pg.Remove(), scratch.Remove()); err != nil {
			t.Error(err)
		}
	})
	if err := errors.Join(pg.EnsureDatabase(t.Context(), "app"), migrations.Up(t.Context(), pg.DSN("app"))); err != nil {
		t.Fatal(err)
	}
	pool, err := pgxpool.New(t.Context(), pg.DSN("app"))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(pool.Close)
	return pg, pool
}

// TestRestartMidQueue: those who wait keep their places over a restart of PostgreSQL. In a crash, places of the last moments are
// forgotten and taken again, so all get the lock, but not in order.
func TestRestartMidQueue(t *testing.T) {
	t.Parallel()
	pg, pool := server(t)
	s := strategy(pool, postgres.Options{DSN: pg.DSN("app")})
	settings := locktest.Patient
	options := lock.Options{TTL: 10 * time.Second, MaxWait: time.Minute}
	lockers := []*lock.Locker{locktest.Open(t, s, settings), locktest.Open(t, s, settings), locktest.Open(t, s, settings)}
	for name, again := range map[string]func() error{
		"restart": func() error { return pg.Restart(t.Context()) },
		"crash":   func() error { pg.Kill(); return pg.Resume(t.Context()) },
	} {
		held := locktest.Acquire(t, lockers[0], "k", options)
		const n = 9
		var mu sync.Mutex
		var order []int
		done := make(chan error, n)
		for i := range n {
			go func() {
				lease, err := lockers[i%3].Acquire(t.Context(), "k", options)
				if err == nil {
					mu.Lock()
					order = append(order, i)
					mu.Unlock()
					err = lease.Release(context.Background())
				}
				done <- err
			}()
			locktest.Queued(t, s, "k", i+1)
		}
		begun := time.Now()
		if err := again(); err != nil {
			t.Fatal(err)
		}
		t.Logf("%s: %v", name, time.Since(begun))
		pool.Reset()
		if err := held.Release(context.Background()); err != nil && !errors.Is(err, lock.ErrUnavailable) {
			t.Errorf("%s: release: %v", name, err)
		}
		for range n {
			if err := locktest.Wait(t, "a turn", done); err != nil {
				t.Errorf("%s: %v", name, err)
			}
		}
		t.Logf("%s: %v", name, order)
		for i, got := range order {
			if got != i && name == "restart" {
				t.Errorf("%s: the order is %v", name, order)
				break
			}
		}
	}
}

// TestAwayIsAnError: while PostgreSQL is away callers are told, quickly; those who may go on without it do so one at a time.
func TestAwayIsAnError(t *testing.T) {
	t.Parallel()
	pg, pool := server(t)
	s := strategy(pool, postgres.Options{DSN: pg.DSN("app")})
	registry := prometheus.NewRegistry()
	l := locktest.Open(t, s, lock.Settings{Patience: 2 * time.Second, Metrics: lock.NewMetrics(registry)})
	locktest.Eventually(t, "it is connected", l.Listening)
	locktest.Release(t, locktest.Acquire(t, l, "k", lock.Options{}))
	held := locktest.Acquire(t, l, "k", lock.Options{TTL: 2 * time.Second})
	waiting := locktest.Go(t.Context(), l, "k", lock.Options{})
	locktest.Queued(t, s, "k", 1)
	pg.Kill()
	if _, err := l.Acquire(t.Context(), "other", lock.Options{}); !errors.Is(err, lock.ErrUnavailable) {
		t.Errorf("an acquisition: %v", err)
	}
	if r := locktest.Wait(t, "the end of the wait", waiting); !errors.Is(r.Err, lock.ErrUnavailable) {
		t.Errorf("a wait: %v", r.Err)
	}
	locktest.Wait(t, "the loss", held.Context().Done())
	if err := held.Err(); !errors.Is(err, lock.ErrLost) || !errors.Is(err, lock.ErrExpired) {
		t.Errorf("the lease: %v", err)
	}

	// Known failure 33: a hundred calls that go on all at once.
	open := lock.Options{FailOpen: true}
	first := locktest.Acquire(t, l, "k", open)
	if !first.Degraded() || first.Fence() != 0 {
		t.Errorf("degraded %t, fence %d", first.Degraded(), first.Fence())
	}
	second := locktest.Go(t.Context(), l, "k", open)
	third := locktest.Acquire(t, l, "other", open)
	select {
	case <-second:
		t.Error("two went on at once")
	default:
	}
	locktest.Release(t, third)
	locktest.Release(t, first)
	r := locktest.Wait(t, "the second", second)
	if r.Err != nil {
		t.Fatal(r.Err)
	}
	locktest.Release(t, r.Lease)
	if n := locktest.Metric(t, registry, "holdfast_lock_errors_total"); n == 0 {
		t.Error("no error was counted")
	}

	if err := pg.Resume(t.Context()); err != nil {
		t.Fatal(err)
	}
	locktest.Eventually(t, "the lock is back", func() bool {
		lease, err := l.Acquire(t.Context(), "k", lock.Options{})
		return err == nil && lease.Release(t.Context()) == nil
	})
}

// TestNobodyWaitsForThoseWhoWereTurnedAway: while PostgreSQL was away nobody could give their place back. Each does once it is there again: whoever comes
// then does not wait until the lock was handed to all of them in turn, and has run out.
func TestNobodyWaitsForThoseWhoWereTurnedAway(t *testing.T) {
	t.Parallel()
	pg, pool := server(t)
	s := strategy(pool, postgres.Options{DSN: pg.DSN("app")})
	registry := prometheus.NewRegistry()
	l := locktest.Open(t, s, lock.Settings{Patience: 2 * time.Second, Metrics: lock.NewMetrics(registry)})
	held := locktest.Acquire(t, l, "k", lock.Options{TTL: 2 * time.Second})
	const n = 20
	var waiting []<-chan locktest.Result
	for range n {
		waiting = append(waiting, locktest.Go(t.Context(), l, "k", lock.Options{}))
	}
	locktest.Queued(t, s, "k", n)
	locktest.Acquire(t, l, "other", lock.Options{}).Drop() // the lease is on disk when it is got, and with it their places
	pg.Kill()
	for _, w := range waiting {
		if r := locktest.Wait(t, "the end of a wait", w); !errors.Is(r.Err, lock.ErrUnavailable) {
			t.Fatalf("a wait: %v", r.Err)
		}
	}
	locktest.Wait(t, "the loss", held.Context().Done())
	locktest.Eventually(t, "each has tried to give its place back, and has given up for now", func() bool {
		return locktest.Metric(t, registry, "holdfast_lock_errors_total", "leave") >= 3*(n+1)
	})
	if err := pg.Resume(t.Context()); err != nil {
		t.Fatal(err)
	}
	pool.Reset()
	var other *lock.Lease
	locktest.Eventually(t, "the lock is back", func() (ok bool) {
		var err error
		other, err = l.Acquire(t.Context(), "other", lock.Options{})
		return err == nil
	})
	waits := locktest.Go(t.Context(), l, "other", lock.Options{}) // with it the process counts as alive
	locktest.Queued(t, s, "other", 1)
	locktest.Within(t, 10*time.Second, "the way past twenty places of nobody", func() time.Duration {
		begun := time.Now()
		locktest.Release(t, locktest.Acquire(t, l, "k", lock.Options{}))
		return time.Since(begun)
	})
	locktest.Release(t, other)
	r := locktest.Wait(t, "the other lock", waits)
	if r.Err != nil {
		t.Fatal(r.Err)
	}
	locktest.Release(t, r.Lease)
}

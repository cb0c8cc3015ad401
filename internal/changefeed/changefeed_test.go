package changefeed

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"
	"go.uber.org/goleak"
	"golang.org/x/sync/errgroup"

	"github.com/a-seed-a7aed72f/holdfast/internal/dbconn"
	"github.com/a-seed-a7aed72f/holdfast/internal/pgtest"
)

func TestMain(m *testing.M) { pgtest.Main(m) }

// running is a feed that runs and hears the others, and does not wake subscribers without a reason. The function stops
// it.
func running(t *testing.T, pool *pgxpool.Pool) (*Feed, func()) {
	t.Helper()
	f := New(pool, slog.New(slog.DiscardHandler))
	f.wakeEvery = time.Hour
	return f, run(t, f)
}

func run(t *testing.T, f *Feed) (stop func()) {
	t.Helper()
	ctx, cancel := context.WithCancel(t.Context())
	var group errgroup.Group
	group.Go(func() error { return f.Run(ctx) })
	stop = func() {
		cancel()
		if err := group.Wait(); err != nil {
			t.Error(err)
		}
	}
	t.Cleanup(stop)
	select {
	case <-f.Listening():
	case <-time.After(20 * time.Second):
		t.Fatal("the feed does not listen")
	}
	return stop
}

const id = 15

func wantToken(t *testing.T, from <-chan struct{}) {
	t.Helper()
	wantTokenWithin(t, from, 20*time.Second)
}

func wantTokenWithin(t *testing.T, from <-chan struct{}, limit time.Duration) {
	t.Helper()
	select {
	case _, open := <-from:
		if !open {
			t.Error("the channel was closed")
		}
	case <-time.After(limit):
		t.Error("no token")
	}
}

func TestLocalChangesNeedNoDatabase(t *testing.T) {
	t.Parallel()
	f := New(nil, slog.New(slog.DiscardHandler))
	mine, other := f.Subscribe(t.Context(), 1), f.Subscribe(t.Context(), 2)
	f.Changed(1)
	if len(mine) != 1 || len(other) != 0 {
		t.Errorf("tokens: %d and %d, want 1 and 0", len(mine), len(other))
	}
}

func TestChangesReachAnotherProcess(t *testing.T) {
	t.Parallel()
	settings := pgtest.New(t).Config()
	dbconn.BoundPool(settings, time.Minute) // as the service's is: its connections keep no notifications
	pool, err := pgxpool.NewWithConfig(t.Context(), settings)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(pool.Close)
	here, _ := running(t, pool)
	there, _ := running(t, pool)
	from := there.Subscribe(t.Context(), id)
	begun := time.Now()
	here.Changed(id)
	wantToken(t, from)
	t.Logf("told after %s", time.Since(begun))
}

func TestManyChangesFewNotifications(t *testing.T) {
	t.Parallel()
	pool := pgtest.New(t)
	f, _ := running(t, pool)
	conn, err := pool.Acquire(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Release()
	if _, err := conn.Exec(t.Context(), "LISTEN "+channel); err != nil {
		t.Fatal(err)
	}
	const changes = 5000
	begun := time.Now()
	for id := range int64(changes) {
		f.Changed(id)
		f.Changed(id)
	}
	seen := map[string]bool{}
	messages := 0
	for len(seen) < changes {
		m, err := conn.Conn().WaitForNotification(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		messages++
		for _, id := range strings.Fields(m.Payload)[1:] {
			seen[id] = true
		}
	}
	// One at once, one for each pause, and a few more because a message has a size limit.
	if most := 4 + int(time.Since(begun)/notifyEvery); messages > most {
		t.Errorf("%d messages, want %d at most", messages, most)
	}
}

func TestPayloadsHaveABound(t *testing.T) {
	t.Parallel()
	ids := make([]int64, 3000)
	for i := range ids {
		ids[i] = 1<<62 + int64(i)
	}
	var all []string
	for _, p := range payloads("0123456789abcdef", ids) {
		if len(p) > 7999 {
			t.Errorf("a payload of %d bytes", len(p))
		}
		fields := strings.Fields(p)
		if fields[0] != "0123456789abcdef" {
			t.Errorf("sender %q", fields[0])
		}
		all = append(all, fields[1:]...)
	}
	slices.Sort(all)
	if len(slices.Compact(all)) != len(ids) {
		t.Errorf("%d ids of %d", len(all), len(ids))
	}
}

func TestOwnNotificationsAreIgnored(t *testing.T) {
	t.Parallel()
	f := New(nil, slog.New(slog.DiscardHandler))
	from := f.Subscribe(t.Context(), 5)
	f.receive(f.self + " 5")
	f.receive("")
	f.receive("other 6 nonsense")
	if len(from) != 0 {
		t.Error("woken by what is not for it")
	}
	f.receive("other 6 5")
	if len(from) != 1 {
		t.Error("not woken")
	}
}

func TestASlowReaderHoldsUpNobody(t *testing.T) {
	t.Parallel()
	pool := pgtest.New(t)
	here, _ := running(t, pool)
	there, _ := running(t, pool)
	slow := there.Subscribe(t.Context(), id) // never reads
	quick := there.Subscribe(t.Context(), id)
	for range 50 {
		here.Changed(id)
		wantToken(t, quick)
	}
	if len(slow) != 1 {
		t.Errorf("%d tokens wait for the slow reader, want 1", len(slow))
	}
}

func TestTheConnectionIsMadeAgain(t *testing.T) {
	t.Parallel()
	pool := pgtest.New(t)
	here, _ := running(t, pool)
	there, _ := running(t, pool)
	from := there.Subscribe(t.Context(), id)
	var cut int
	err := pool.QueryRow(t.Context(), `SELECT count(pg_terminate_backend(pid)) FROM pg_stat_activity
		WHERE datname = current_database() AND query = 'LISTEN holdfast_changed'`).Scan(&cut)
	if err != nil || cut != 2 {
		t.Fatalf("%d connections cut: %v", cut, err)
	}
	// What came while nobody listened is unknown, so a new connection wakes at once.
	wantToken(t, from)
	here.Changed(id)
	wantToken(t, from)
}

// One of several who watch an action leaves, and the others still hear of it.
func TestWhoLeavesTakesNobodyAlong(t *testing.T) {
	t.Parallel()
	f := New(nil, slog.New(slog.DiscardHandler))
	ctx, leave := context.WithCancel(t.Context())
	gone, stays := f.Subscribe(ctx, id), f.Subscribe(t.Context(), id)
	leave()
	for range gone { // until it is closed
	}
	f.Changed(id)
	if len(stays) != 1 {
		t.Error("not woken")
	}
}

// What others are told of, they are not told again: a process would tell them of all actions that it has ever seen.
func TestEachChangeIsToldOnce(t *testing.T) {
	t.Parallel()
	f := New(nil, slog.New(slog.DiscardHandler))
	for _, want := range []int64{1, 2} {
		f.Changed(want)
		if told := f.take(); len(told) != 1 || told[0] != want {
			t.Errorf("told of %d, want %d", told, want)
		}
	}
}

// noted passes on that something was logged.
type noted chan struct{}

func (n noted) Write(b []byte) (int, error) {
	n <- struct{}{}
	return len(b), nil
}

// A change that could not be told is not the last one.
func TestAfterAFailureOthersAreToldAgain(t *testing.T) {
	t.Parallel()
	pool := pgtest.New(t)
	var away atomic.Bool
	settings := pool.Config()
	settings.BeforeConnect = func(context.Context, *pgx.ConnConfig) error {
		if away.Load() {
			return errors.New("away")
		}
		return nil
	}
	own, err := pgxpool.NewWithConfig(t.Context(), settings)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(own.Close)
	failed := make(noted, 10)
	here := New(own, slog.New(slog.NewTextHandler(failed, nil)))
	run(t, here)
	there, _ := running(t, pool)
	from := there.Subscribe(t.Context(), id)
	own.Reset()
	away.Store(true)
	here.Changed(id)
	wantToken(t, failed)
	away.Store(false)
	here.Changed(id)
	wantToken(t, from)
}

// Once a restart of the server is noticed, the pool hands out no connection that the restart has ended.
func TestNoConnectionOfBeforeIsHandedOut(t *testing.T) {
	t.Parallel()
	pool := pgtest.New(t)
	f, _ := running(t, pool)
	f.Subscribe(t.Context(), id)
	all := func(do func(*pgxpool.Conn)) {
		t.Helper()
		taken := make([]*pgxpool.Conn, pool.Config().MaxConns)
		for i := range taken {
			var err error
			if taken[i], err = pool.Acquire(t.Context()); err != nil {
				t.Fatal(err)
			}
			do(taken[i])
		}
		for _, conn := range taken {
			conn.Release()
		}
	}
	all(func(*pgxpool.Conn) {})
	alone, err := pgx.ConnectConfig(t.Context(), pool.Config().ConnConfig)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = alone.Close(context.WithoutCancel(t.Context())) }()
	var cut []int32
	var asked int32 // some may have been closed by the pool already
	err = alone.QueryRow(t.Context(), `SELECT array_agg(pid), count(pg_terminate_backend(pid)) FROM pg_stat_activity
		WHERE datname = current_database() AND backend_type = 'client backend' AND pid <> pg_backend_pid()`).Scan(&cut, &asked)
	if err != nil || asked != pool.Config().MaxConns+1 {
		t.Fatalf("%d connections cut: %v", asked, err)
	}
	// It listens again. That everybody is woken does not prove it, because they are woken now and then anyway.
	for again := false; !again; {
		if err := alone.QueryRow(t.Context(), `SELECT EXISTS (SELECT FROM pg_stat_activity
			WHERE datname = current_database() AND backend_type = 'client backend' AND pid <> pg_backend_pid() AND pid <> ALL ($1))`, cut).Scan(&again); err != nil {
			t.Fatal(err)
		}
	}
	all(func(conn *pgxpool.Conn) {
		if _, err := conn.Exec(t.Context(), "SELECT"); err != nil {
			t.Error(err)
		}
	})
}

func TestEverybodyIsWokenNowAndThen(t *testing.T) {
	t.Parallel()
	f := New(pgtest.New(t), slog.New(slog.DiscardHandler))
	run(t, f)
	all := map[int64]<-chan struct{}{}
	for id := range int64(2 * wakeParts) {
		all[id] = f.Subscribe(t.Context(), id)
	}
	for id, from := range all {
		t.Run(fmt.Sprint(id), func(t *testing.T) { wantTokenWithin(t, from, 2*wakeEvery) })
	}
}

// Not parallel: it counts goroutines.
func TestNothingIsLeft(t *testing.T) {
	pool := pgtest.New(t)
	if err := pool.Ping(t.Context()); err != nil {
		t.Fatal(err)
	}
	before := goleak.IgnoreCurrent()
	f, stop := running(t, pool)
	ctx, cancel := context.WithCancel(t.Context())
	for range 100 {
		f.Subscribe(ctx, 1)
	}
	last := f.Subscribe(ctx, 2)
	cancel()
	for range last { // until it is closed
	}
	stop()
	goleak.VerifyNone(t, before)
	f.mu.Lock()
	for id, all := range f.subscribers {
		t.Errorf("%d subscribers of %d are left", len(all), id)
	}
	f.mu.Unlock()
	f.receive("other 1 2") // and nobody writes to a closed channel
}

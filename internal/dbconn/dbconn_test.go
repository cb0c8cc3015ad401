package dbconn_test

import (
	"context"
	"errors"
	"sync/atomic"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/a-seed-a7aed72f/holdfast/internal/dbconn"
	"github.com/a-seed-a7aed72f/holdfast/internal/pgtest"
)

func TestMain(m *testing.M) { pgtest.Main(m) }

// limit is how long an answer is waited for here.
const limit = time.Second

// bounded is a pool on a database with this URL.
func bounded(t *testing.T, url string) *pgxpool.Pool {
	t.Helper()
	settings, err := pgxpool.ParseConfig(url)
	if err != nil {
		t.Fatal(err)
	}
	dbconn.BoundPool(settings, limit)
	pool, err := pgxpool.NewWithConfig(t.Context(), settings)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(pool.Close)
	return pool
}

// ended returns the error of do, which must end by itself.
func ended(t *testing.T, do func() error) error {
	t.Helper()
	end := make(chan error, 1)
	go func() { end <- do() }()
	select {
	case err := <-end:
		return err
	case <-time.After(20 * time.Second):
		t.Fatal("waited for a connection that has gone silent")
		return nil
	}
}

// next matches the connection on which something is sent next, and no other.
func next() func([]byte) bool {
	var gone atomic.Bool
	return func([]byte) bool { return !gone.Swap(true) }
}

// Whatever a connection that has gone silent was asked, and by whom: the wait ends, and others get other connections.
func TestNobodyWaitsForASilentConnection(t *testing.T) {
	t.Parallel()
	patient := context.Background() // as one that must not be abandoned half-way
	for name, ask := range map[string]func(*pgxpool.Pool, pgx.Tx) error{
		"a statement": func(_ *pgxpool.Pool, tx pgx.Tx) error {
			_, err := tx.Exec(patient, "SELECT 1")
			return err
		},
		"rows": func(_ *pgxpool.Pool, tx pgx.Tx) error {
			rows, err := tx.Query(patient, "SELECT 1")
			if err == nil {
				_, err = pgx.CollectRows(rows, pgx.RowTo[int])
			}
			return err
		},
		"a batch": func(_ *pgxpool.Pool, tx pgx.Tx) error {
			batch := &pgx.Batch{}
			batch.Queue("SELECT 1")
			batch.Queue("SELECT 2")
			return tx.SendBatch(patient, batch).Close()
		},
		"a commit":   func(_ *pgxpool.Pool, tx pgx.Tx) error { return tx.Commit(patient) },
		"a rollback": func(_ *pgxpool.Pool, tx pgx.Tx) error { return tx.Rollback(patient) },
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			proxy := pgtest.NewProxy(t, pgtest.New(t))
			defer proxy.Reset() // pgx says goodbye to what is silent, too
			pool := bounded(t, proxy.URL)
			tx, err := pool.Begin(t.Context())
			if err != nil {
				t.Fatal(err)
			}
			proxy.Freeze(next())
			if err := ended(t, func() error { return ask(pool, tx) }); !errors.Is(err, context.DeadlineExceeded) {
				t.Error(err)
			}
			_ = tx.Rollback(patient)
			if _, err := pool.Exec(t.Context(), "SELECT 1"); err != nil {
				t.Errorf("the next one: %v", err)
			}
		})
	}
}

// A process that is stopped ends, though its pools have connections on which nobody answers.
func TestTheEndWaitsForNoSilentServer(t *testing.T) {
	t.Parallel()
	proxy := pgtest.NewProxy(t, pgtest.New(t))
	defer proxy.Reset()
	pool := bounded(t, proxy.URL)
	if err := pool.Ping(t.Context()); err != nil {
		t.Fatal(err)
	}
	proxy.Freeze(func([]byte) bool { return true })
	stopped, stop := context.WithCancel(t.Context())
	go func() { <-proxy.Frozen; stop() }()
	if _, err := pool.Exec(stopped, "SELECT 1"); !errors.Is(err, context.Canceled) {
		t.Fatal(err)
	}
	begun := time.Now()
	dbconn.Close(pool)
	if took := time.Since(begun); took > 10*time.Second {
		t.Errorf("closing took %v", took)
	}
}

// A connection that went silent while idle is noticed by its next user, before it is used.
func TestASilentConnectionIsNotHandedOut(t *testing.T) {
	t.Parallel()
	proxy := pgtest.NewProxy(t, pgtest.New(t))
	defer proxy.Reset()
	settings, err := pgxpool.ParseConfig(proxy.URL)
	if err != nil {
		t.Fatal(err)
	}
	dbconn.BoundPool(settings, limit)
	settings.PingTimeout = limit
	settings.ShouldPing = func(context.Context, pgxpool.ShouldPingParams) bool { return true } // however short it lay
	pool, err := pgxpool.NewWithConfig(t.Context(), settings)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(pool.Close)
	if _, err := pool.Exec(t.Context(), "SELECT 1"); err != nil {
		t.Fatal(err)
	}
	proxy.Freeze(next())
	if err := ended(t, func() error { _, err := pool.Exec(context.Background(), "SELECT 1"); return err }); err != nil {
		t.Error(err)
	}
}

// A database that was set to read only, because it was full, say, and back: a session keeps what it began with.
func TestWritesGoOnAfterADatabaseWasReadOnly(t *testing.T) {
	t.Parallel()
	operator := pgtest.New(t)
	set := func(value string) {
		t.Helper()
		name := pgx.Identifier{operator.Config().ConnConfig.Database}.Sanitize()
		if _, err := operator.Exec(t.Context(), "ALTER DATABASE "+name+" SET default_transaction_read_only = "+value); err != nil {
			t.Fatal(err)
		}
	}
	if err := operator.Ping(t.Context()); err != nil {
		t.Fatal(err)
	}
	set("on")
	pool := bounded(t, operator.Config().ConnString())
	write := func() error { _, err := pool.Exec(t.Context(), "CREATE TABLE IF NOT EXISTS written ()"); return err }
	var refused *pgconn.PgError
	if err := write(); !errors.As(err, &refused) || refused.Code != "25006" {
		t.Fatal(err)
	}
	set("off")
	if err := write(); err != nil {
		t.Error(err)
	}
}

// A caller whose statement takes longer says so, and is given the time.
func TestWhoAsksForMoreIsGivenIt(t *testing.T) {
	t.Parallel()
	pool := bounded(t, pgtest.New(t).Config().ConnString())
	const longer = "SELECT pg_sleep(1.5)"
	if _, err := pool.Exec(t.Context(), longer); !errors.Is(err, context.DeadlineExceeded) {
		t.Error(err)
	}
	if _, err := pool.Exec(dbconn.Within(t.Context(), time.Minute), longer); err != nil {
		t.Error(err)
	}
}

// A wait for notifications has no limit, and a pool's connections keep none of them.
func TestNotifications(t *testing.T) {
	t.Parallel()
	pool := bounded(t, pgtest.New(t).Config().ConnString())
	conn, err := pool.Acquire(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Release()
	if _, err := conn.Exec(t.Context(), "LISTEN test; NOTIFY test; NOTIFY test, 'again'"); err != nil {
		t.Fatal(err)
	}
	over, end := context.WithCancel(t.Context())
	end()
	if kept, err := conn.Conn().WaitForNotification(over); kept != nil || !errors.Is(err, context.Canceled) {
		t.Errorf("a connection of a pool kept %+v, %v", kept, err)
	}

	settings := pool.Config().ConnConfig
	dbconn.Listens(settings)
	listener, err := pgx.ConnectConfig(t.Context(), settings)
	if err != nil {
		t.Fatal(err)
	}
	defer listener.Close(t.Context())
	if _, err := listener.Exec(t.Context(), "LISTEN test"); err != nil {
		t.Fatal(err)
	}
	time.AfterFunc(3*limit/2, func() { _, _ = pool.Exec(t.Context(), "NOTIFY test, 'late'") })
	if heard, err := listener.WaitForNotification(t.Context()); err != nil || heard.Payload != "late" {
		t.Errorf("%+v, %v", heard, err)
	}
}

// What an address says of connecting holds, and what it leaves open is bounded.
func TestConnectingIsBounded(t *testing.T) {
	t.Parallel()
	for url, want := range map[string]time.Duration{"postgres://localhost/x": 10 * time.Second, "postgres://localhost/x?connect_timeout=3": 3 * time.Second} {
		settings, err := pgxpool.ParseConfig(url)
		if err != nil {
			t.Fatal(err)
		}
		dbconn.BoundPool(settings, limit)
		if got := settings.ConnConfig.ConnectTimeout; got != want {
			t.Errorf("%s: connecting may take %v, want %v", url, got, want)
		}
		if settings.PingTimeout <= 0 {
			t.Errorf("%s: a silent connection is asked for ever", url)
		}
	}
}

// counts counts statements.
type counts struct{ begun, ended atomic.Int64 }

func (c *counts) TraceQueryStart(ctx context.Context, _ *pgx.Conn, _ pgx.TraceQueryStartData) context.Context {
	c.begun.Add(1)
	return ctx
}

func (c *counts) TraceQueryEnd(context.Context, *pgx.Conn, pgx.TraceQueryEndData) { c.ended.Add(1) }

// Who watches the statements sees them, and bounds nothing less. Without a limit a statement takes as long as it takes.
func TestLimitsBesideATracer(t *testing.T) {
	t.Parallel()
	database := pgtest.New(t).Config().ConnString()
	for _, c := range []struct {
		limit time.Duration
		ends  error
	}{{limit, context.DeadlineExceeded}, {0, nil}} {
		settings, err := pgxpool.ParseConfig(database)
		if err != nil {
			t.Fatal(err)
		}
		watches := &counts{}
		settings.ConnConfig.Tracer = watches
		dbconn.BoundPool(settings, c.limit)
		pool, err := pgxpool.NewWithConfig(t.Context(), settings)
		if err != nil {
			t.Fatal(err)
		}
		defer pool.Close()
		if _, err := pool.Exec(t.Context(), "SELECT pg_sleep(1.5)"); !errors.Is(err, c.ends) {
			t.Errorf("with a limit of %v: %v", c.limit, err)
		}
		if watches.begun.Load() != 1 || watches.ended.Load() != 1 {
			t.Errorf("with a limit of %v: %d statements were seen to begin, and %d to end", c.limit, watches.begun.Load(), watches.ended.Load())
		}
	}
}

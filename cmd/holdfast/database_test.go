package main

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/jackc/pgx/v5/pgconn"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/a-seed-a7aed72f/holdfast/internal/config"
	"github.com/a-seed-a7aed72f/holdfast/internal/pgbouncer"
	"github.com/a-seed-a7aed72f/holdfast/internal/pgtest"
	"github.com/a-seed-a7aed72f/holdfast/migrations"
)

// opened is the service's own pool on a database, with its log.
func opened(t *testing.T, url string, bounds config.Bounds) (*pgxpool.Pool, *strings.Builder) {
	t.Helper()
	var said strings.Builder
	e := &environment{config: &config.Config{DatabaseURL: config.Database(url), DatabasePool: 4, Bounds: bounds}, log: slog.New(slog.NewTextHandler(&said, nil))}
	pool, err := openPool(t.Context(), e)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(pool.Close)
	return pool, &said
}

func shownBy(t *testing.T, pool *pgxpool.Pool) string {
	t.Helper()
	var stall, wait, statement string
	err := pool.QueryRow(t.Context(), `SELECT current_setting('idle_in_transaction_session_timeout'), current_setting('lock_timeout'), current_setting('statement_timeout')`).
		Scan(&stall, &wait, &statement)
	if err != nil {
		t.Fatal(err)
	}
	return fmt.Sprint(stall, " ", wait, " ", statement)
}

// stall holds a row's lock and stands still until PostgreSQL has ended the transaction. Others see that: they get the
// lock.
func stall(t *testing.T, pool *pgxpool.Pool, others *pgxpool.Pool) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 20*time.Second)
	defer cancel()
	tx, err := pool.Begin(ctx)
	if err != nil {
		t.Fatal(err)
	}
	defer tx.Rollback(ctx)
	const lock = `UPDATE account SET balance = balance WHERE id = 0`
	if _, err := tx.Exec(ctx, lock); err != nil {
		t.Fatal(err)
	}
	if _, err := others.Exec(ctx, lock); err != nil {
		t.Fatalf("the lock of a process that stands still was never free: %v", err)
	}
	if _, err := tx.Exec(ctx, lock); err == nil {
		t.Error("the transaction went on")
	}
}

// No page is sorted anew by an index that is nearly in its order, and no plan is compiled, unless the address says
// otherwise.
func TestPagesArePlannedAsTheyAreMeant(t *testing.T) {
	t.Parallel()
	url := pgtest.New(t).Config().ConnString()
	for address, want := range map[string]string{url: "off off", url + "&jit=on": "off on"} {
		pool, _ := opened(t, address, config.Bounds{})
		var sort, jit string
		if err := pool.QueryRow(t.Context(), "SELECT current_setting('enable_incremental_sort'), current_setting('jit')").Scan(&sort, &jit); err != nil {
			t.Fatal(err)
		}
		if got := sort + " " + jit; got != want {
			t.Errorf("%s, want %s", got, want)
		}
	}
}

// Each connection has this program's bounds, unless the address sets others.
func TestConnectionsAreBounded(t *testing.T) {
	t.Parallel()
	database := pgtest.New(t)
	url := database.Config().ConnString()
	bounds := config.Bounds{Stall: time.Second, LockWait: 2 * time.Second, Statement: 3 * time.Second}
	pool, said := opened(t, url, bounds)
	if got := shownBy(t, pool); got != "1s 2s 3s" || said.Len() != 0 {
		t.Errorf("%s, %s", got, said)
	}
	stall(t, pool, database)
	var refused *pgconn.PgError
	if _, err := pool.Exec(t.Context(), `SELECT pg_sleep(10)`); !errors.As(err, &refused) || refused.Code != "57014" {
		t.Errorf("%v", err)
	}
	own, _ := opened(t, url+"&statement_timeout=7000", bounds)
	if got := shownBy(t, own); got != "1s 2s 7s" {
		t.Error(got)
	}
	none, _ := opened(t, url, config.Bounds{})
	if got := shownBy(t, none); got != "0 0 0" {
		t.Error(got)
	}
}

// An answer is waited for a little longer than a statement may take. The same holds for a commit that never arrives.
func TestAnswersAreNotWaitedForWithoutAnEnd(t *testing.T) {
	t.Parallel()
	for parameter, want := range map[string]time.Duration{"": time.Minute + 5*time.Second, "2000": 7 * time.Second, "0": 0, "2min": 0} {
		if got := patience(time.Minute, parameter); got != want {
			t.Errorf("%q: %s", parameter, got)
		}
	}
	if got := patience(0, ""); got != 0 {
		t.Errorf("without a bound: %s", got)
	}

	proxy := pgtest.NewProxy(t, pgtest.New(t))
	pool, _ := opened(t, proxy.URL, config.Bounds{Statement: time.Second})
	defer proxy.Reset()
	tx, err := pool.Begin(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	proxy.Freeze(func([]byte) bool { return true })
	end := make(chan error, 1)
	go func() { end <- tx.Commit(context.WithoutCancel(t.Context())) }()
	select {
	case err := <-end:
		if !errors.Is(err, context.DeadlineExceeded) {
			t.Error(err)
		}
	case <-time.After(30 * time.Second):
		t.Error("a commit is waited for without an end")
	}
}

// A pooler in transaction mode accepts no parameters. The service goes on without them, says so, and the role's or the
// database's own apply.
func TestConnectionsBehindAPoolerAreBoundedByTheServer(t *testing.T) {
	t.Parallel()
	database := pgtest.New(t)
	bounds := config.Bounds{Stall: time.Second, LockWait: 2 * time.Second, Statement: 3 * time.Second}
	pool, said := opened(t, pgbouncer.Start(t, database), bounds)
	if got := shownBy(t, pool); got != "0 0 0" || !strings.Contains(said.String(), "ALTER ROLE") {
		t.Errorf("%s, %s", got, said)
	}
	pool.Close()
	if _, err := database.Exec(t.Context(), `DO $$ BEGIN EXECUTE format('ALTER ROLE CURRENT_USER IN DATABASE %I SET idle_in_transaction_session_timeout = 1000', current_database()); END $$`); err != nil {
		t.Fatal(err)
	}
	pool, said = opened(t, pgbouncer.Start(t, database), bounds)
	if got := shownBy(t, pool); got != "1s 0 0" || said.Len() != 0 {
		t.Errorf("%s, %s", got, said)
	}
	stall(t, pool, database)
}

// The direct address, for in-memory locks' guard, notifications and migrations, must lead to the database that is
// served, whatever addresses are used.
func TestTheDirectAddressLeadsToTheSameDatabase(t *testing.T) {
	t.Parallel()
	pool, other := pgtest.New(t), pgtest.New(t)
	pooled := settings(pool, "HOLDFAST_DATABASE_URL="+pgbouncer.Start(t, pool)+"&default_query_exec_mode=cache_describe")
	before, _, err := migrations.Version(t.Context(), other.Config().ConnString())
	if err != nil {
		t.Fatal(err)
	}
	ofPool := settings(pool, "HOLDFAST_DATABASE_URL="+pool.Config().ConnString()+"&pool_max_conn_lifetime=1h")
	for _, env := range [][]string{settings(pool), pooled, ofPool, append(pooled, "HOLDFAST_LOCK_STRATEGY=memory")} {
		for _, args := range []string{"serve", "migrate version", "migrate up", "migrate down --yes", "migrate force 0"} {
			code, out, said := command(t, append(env, "HOLDFAST_LOCK_DIRECT_URL="+other.Config().ConnString()), strings.Fields(args)...)
			if code != exitUsage || out != "" || !strings.Contains(said, "HOLDFAST_LOCK_DIRECT_URL") || !strings.Contains(said, other.Config().ConnConfig.Database) {
				t.Errorf("%s: exit code %d\n%s%s", args, code, out, said)
			}
		}
	}
	if after, _, err := migrations.Version(t.Context(), other.Config().ConnString()); err != nil || after != before {
		t.Errorf("the other database has version %d, it had %d: %v", after, before, err)
	}
	for name, direct := range map[string]string{"the same": pool.Config().ConnString() + "&application_name=x", "away": "postgres://u:topsecret@127.0.0.1:1/none"} {
		s := serve(t, append(pooled, "HOLDFAST_LOCK_DIRECT_URL="+direct))
		s.awaitReady(http.StatusOK)
		if warned := strings.Contains(s.said(), "it is not known whether HOLDFAST_LOCK_DIRECT_URL"); warned != (name == "away") || strings.Contains(s.said(), "topsecret") {
			t.Errorf("%s:\n%s", name, s.said())
		}
	}
}

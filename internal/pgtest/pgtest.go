// Package pgtest gives every test its own PostgreSQL database, with all migrations applied, in a few hundredths of a
// second: the migrations run once, on a template, and each test gets a copy. On a machine without PostgreSQL the tests
// fail.
//
// A server that is started here has a goroutine that waits for its end. A test that counts goroutines must take its
// count after [New].
package pgtest

import (
	"context"
	"database/sql"
	"strconv"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"
	_ "github.com/jackc/pgx/v5/stdlib" // pgtestdb uses database/sql
	"github.com/peterldowns/pgtestdb"

	"github.com/a-seed-a7aed72f/holdfast/migrations"
)

// New returns a pool on a fresh database, which is closed and dropped when the test ends. Connections that the code
// under test has left open are cut then. The database of a failed test is kept for inspection as long as the server
// lives; its DSN is in the test's log.
//
// A deadlock in that database fails the test, whatever the test is about: the code's own retries would hide it.
func New(t testing.TB) *pgxpool.Pool {
	t.Helper()
	return open(t, migrated{}, refuseDeadlocks)
}

// NewForDeadlocks is New for a test that causes deadlocks itself.
func NewForDeadlocks(t testing.TB) *pgxpool.Pool {
	t.Helper()
	return open(t, migrated{})
}

// open makes the database. Each function of after inspects it once the pool is closed, before it is dropped.
func open(t testing.TB, migrator pgtestdb.Migrator, after ...func(t testing.TB, admin *pgx.Conn, database string)) *pgxpool.Pool {
	t.Helper()
	dsn, err := adminDSN(t.Context())
	if err != nil {
		t.Fatalf("no PostgreSQL for the tests: %v", err)
	}
	admin, err := pgx.ParseConfig(dsn)
	if err != nil {
		t.Fatalf("%s: %v", Environment, err)
	}
	database := pgtestdb.Custom(t, pgtestdb.Config{
		DriverName: "pgx",
		Host:       admin.Host, Port: strconv.Itoa(int(admin.Port)),
		User: admin.User, Password: admin.Password, Database: admin.Database, Options: "sslmode=disable",
		ForceTerminateConnections: true,
	}, migrator)
	return connect(t, database.URL(), after...)
}

// connect makes the pool on a test's database.
func connect(t testing.TB, url string, after ...func(t testing.TB, admin *pgx.Conn, database string)) *pgxpool.Pool {
	t.Helper()
	pool, err := pgxpool.New(t.Context(), url)
	if err != nil {
		t.Fatalf("connect to the test's database: %v", err)
	}
	t.Cleanup(func() {
		// Close waits for every connection to be returned. A test that forgot one must fail for its own reasons, not
		// hang. The connection is cut with the database.
		closed := make(chan struct{})
		go func() { pool.Close(); close(closed) }()
		select {
		case <-closed:
		case <-time.After(5 * time.Second):
			t.Error("a connection of the test's pool was never given back")
		}
		if len(after) == 0 {
			return
		}
		ctx, cancel := context.WithTimeout(context.WithoutCancel(t.Context()), 10*time.Second)
		defer cancel()
		conn, err := superuser(ctx)
		if err != nil {
			t.Errorf("look at the test's database: %v", err)
			return
		}
		defer conn.Close(ctx)
		for _, look := range after {
			look(t, conn, pool.Config().ConnConfig.Database)
		}
	})
	return pool
}

// migrated fills the template.
type migrated struct{}

func (migrated) Hash() (string, error) { return migrations.Hash() }

func (migrated) Migrate(ctx context.Context, _ *sql.DB, template pgtestdb.Config) error {
	return migrations.Up(ctx, template.URL())
}

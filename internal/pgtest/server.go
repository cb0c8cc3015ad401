package pgtest

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"sync"
	"testing"

	"github.com/jackc/pgx/v5"

	"github.com/a-seed-a7aed72f/holdfast/internal/child"
	"github.com/a-seed-a7aed72f/holdfast/internal/pgserver"
)

// Environment is the variable with the DSN of a superuser of the server to use (a URL with host and port, not a
// socket). One server for all packages saves starting one for each.
const Environment = "HOLDFAST_TEST_POSTGRES"

// Throwaway is a server for tests: fast, not durable, in memory if there is room, else in a temporary directory.
type Throwaway struct {
	*pgserver.Server
	scratch *child.Scratch
}

// StartThrowaway starts a server that can take the connections of many packages' tests at once. Log is as in
// [pgserver.Options].
func StartThrowaway(ctx context.Context, log func(string, ...any)) (*Throwaway, error) {
	scratch, err := child.NewScratchIn(place(), "holdfast-test-postgres")
	if err != nil {
		return nil, err
	}
	server, err := pgserver.Start(ctx, pgserver.Options{
		Dir: filepath.Join(scratch.Dir, "postgres"), Volatile: true, MaxConnections: 300, Log: log,
	})
	if err != nil {
		return nil, errors.Join(err, scratch.Remove())
	}
	return &Throwaway{server, scratch}, nil
}

// Remove stops the server and deletes everything it had.
func (t *Throwaway) Remove() error { return errors.Join(t.Server.Remove(), t.scratch.Remove()) }

var shared struct {
	once   sync.Once
	inMain bool
	server *Throwaway // nil if the environment names one
	dsn    string
	err    error
}

// Main is a package's TestMain: it runs the tests, and removes the server if they started one.
//
//	func TestMain(m *testing.M) { pgtest.Main(m) }
func Main(m *testing.M) {
	shared.inMain = true
	code := m.Run()
	if shared.server != nil {
		if err := shared.server.Remove(); err != nil {
			fmt.Fprintln(os.Stderr, "remove the tests' PostgreSQL:", err)
			code = max(code, 1)
		}
	}
	os.Exit(code)
}

// adminDSN is the DSN of the server's superuser. The first call starts the server if need be, so that a run without
// database tests does not pay for it.
func adminDSN(ctx context.Context) (string, error) {
	shared.once.Do(func() {
		if shared.dsn = os.Getenv(Environment); shared.dsn != "" {
			return
		}
		if !shared.inMain {
			shared.err = errors.New("the package's TestMain must call pgtest.Main: nobody else removes the server")
			return
		}
		shared.server, shared.err = StartThrowaway(ctx, nil)
		if shared.err == nil {
			shared.dsn = shared.server.DSN("postgres")
		}
	})
	return shared.dsn, shared.err
}

// superuser connects to the server, not to a test's database.
func superuser(ctx context.Context) (*pgx.Conn, error) {
	dsn, err := adminDSN(ctx)
	if err != nil {
		return nil, err
	}
	return pgx.Connect(ctx, dsn)
}

// Package pgbouncer runs a PgBouncer for tests, in transaction mode: what a service meets behind a pooler.
package pgbouncer

import (
	"context"
	"errors"
	"fmt"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/a-seed-a7aed72f/holdfast/internal/aptget"
	"github.com/a-seed-a7aed72f/holdfast/internal/child"
	"github.com/a-seed-a7aed72f/holdfast/internal/freeport"
)

// Program is what the package needs.
var Program = aptget.Program{Name: "pgbouncer", Package: "pgbouncer"}

// connections is how many a pooler holds to the server at most.
const connections = 5

// Start starts a pooler in front of a test's database, for as long as the test lasts, and returns its address. The test
// fails if PgBouncer is not installed.
func Start(t testing.TB, database *pgxpool.Pool) (pooled string) {
	t.Helper()
	scratch, err := child.NewScratch("holdfast-test-pgbouncer")
	if err != nil {
		t.Fatal(err)
	}
	pooled, stop, err := onFreePort(t.Context(), scratch.Dir, database.Config().ConnString())
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		stop()
		if err := scratch.Remove(); err != nil {
			t.Error(err)
		}
	})
	return pooled
}

func onFreePort(ctx context.Context, dir, dsn string) (pooled string, stop func(), err error) {
	path, err := Program.Path()
	if err != nil {
		return "", nil, err
	}
	user, err := child.Unprivileged("postgres", "nobody") // PgBouncer refuses to run as root
	if err != nil {
		return "", nil, err
	}
	target, err := pgx.ParseConfig(dsn)
	if err != nil {
		return "", nil, err
	}
	for range 3 { // a port can be taken in between
		var ports []int
		if ports, err = freeport.Pick(1); err != nil {
			return "", nil, err
		}
		if pooled, stop, err = start(ctx, path, dir, user, target, ports[0]); err == nil {
			return pooled, stop, nil
		}
		if exit := (*exec.ExitError)(nil); !errors.As(err, &exit) {
			return "", nil, err
		}
	}
	return "", nil, err
}

func start(ctx context.Context, path, dir string, user *child.User, target *pgx.ConnConfig, port int) (string, func(), error) {
	quote := func(s string) string { return "'" + strings.ReplaceAll(s, "'", "''") + "'" }
	settings := fmt.Sprintf(`[databases]
%s = host=%s port=%d user=%s password=%s
[pgbouncer]
listen_addr = 127.0.0.1
listen_port = %d
unix_socket_dir =
pool_mode = transaction
default_pool_size = %d
max_client_conn = 500
auth_type = scram-sha-256
auth_file = %s
ignore_startup_parameters = extra_float_digits
`, target.Database, target.Host, target.Port, quote(target.User), quote(target.Password), port, connections, filepath.Join(dir, "users.txt"))
	files := map[string]string{
		"pgbouncer.ini": settings,
		"users.txt":     fmt.Sprintf("%q %q\n", target.User, target.Password),
	}
	for name, text := range files {
		file := filepath.Join(dir, name)
		if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
			return "", nil, err
		}
		if err := user.Own(file); err != nil {
			return "", nil, err
		}
	}
	server := child.NewServer(child.Command{
		Name: "PgBouncer", Path: path, Args: []string{filepath.Join(dir, "pgbouncer.ini")}, Dir: dir,
		Log: filepath.Join(dir, "pgbouncer.log"), User: user, Interrupt: syscall.SIGTERM,
	})
	if err := server.Start(); err != nil {
		return "", nil, err
	}
	address := url.URL{
		Scheme: "postgres", User: url.UserPassword(target.User, target.Password),
		Host: "127.0.0.1:" + strconv.Itoa(port), Path: "/" + target.Database, RawQuery: "sslmode=disable",
	}
	err := server.AwaitReady(ctx, 20*time.Second, func(ctx context.Context) error {
		conn, err := pgx.Connect(ctx, address.String())
		if err != nil {
			return err
		}
		return conn.Close(ctx)
	})
	if err != nil {
		server.Kill()
		return "", nil, err
	}
	return address.String(), server.Kill, nil
}

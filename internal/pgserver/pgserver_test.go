package pgserver

import (
	"context"
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"

	"github.com/a-seed-a7aed72f/holdfast/internal/child"
)

// directory is a temporary directory that the server's user can reach. It cannot reach t.TempDir when the tests run as
// root.
func directory(t *testing.T) string {
	t.Helper()
	scratch, err := child.NewScratch("holdfast-pgserver-test")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := scratch.Remove(); err != nil {
			t.Error(err)
		}
	})
	return filepath.Join(scratch.Dir, "postgres")
}

func start(t *testing.T, options Options) *Server {
	t.Helper()
	options.Log = t.Logf
	server, err := Start(t.Context(), options)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(server.Stop)
	return server
}

func connect(t *testing.T, dsn string) *pgx.Conn {
	t.Helper()
	connection, err := pgx.Connect(t.Context(), dsn)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = connection.Close(context.Background()) })
	return connection
}

func execute(t *testing.T, server *Server, statement string) {
	t.Helper()
	if _, err := connect(t, server.DSN("app")).Exec(t.Context(), statement); err != nil {
		t.Fatal(err)
	}
}

func count(t *testing.T, server *Server) (n int) {
	t.Helper()
	if err := connect(t, server.DSN("app")).QueryRow(t.Context(), "SELECT count(*) FROM kept").Scan(&n); err != nil {
		t.Fatal(err)
	}
	return n
}

func TestDataSurviveRestartCrashAndASecondStart(t *testing.T) {
	options := Options{Dir: directory(t)}
	begun := time.Now()
	server := start(t, options)
	t.Logf("first start: %v", time.Since(begun))
	if err := server.EnsureDatabase(t.Context(), "app"); err != nil {
		t.Fatal(err)
	}
	if err := server.EnsureDatabase(t.Context(), "app"); err != nil {
		t.Fatalf("a database that exists: %v", err)
	}
	execute(t, server, "CREATE TABLE kept (id int)")
	execute(t, server, "INSERT INTO kept VALUES (1)")

	dsn := server.DSN("app")
	if err := server.Restart(t.Context()); err != nil {
		t.Fatal(err)
	}
	execute(t, server, "INSERT INTO kept VALUES (2)")

	server.Kill()
	if _, err := pgx.Connect(t.Context(), dsn); err == nil {
		t.Error("a killed server accepts connections")
	}
	begun = time.Now()
	if err := server.Resume(t.Context()); err != nil {
		t.Fatal(err)
	}
	t.Logf("start after a crash: %v", time.Since(begun))
	if got := count(t, server); got != 2 {
		t.Errorf("%d rows after the crash, want 2", got)
	}
	if server.DSN("app") != dsn {
		t.Error("the address changed over a restart")
	}

	server.Stop()
	begun = time.Now()
	server = start(t, options)
	t.Logf("second start: %v", time.Since(begun))
	if got := count(t, server); got != 2 {
		t.Errorf("%d rows at the second start, want 2", got)
	}
}

func TestSettings(t *testing.T) {
	server := start(t, Options{
		Dir: directory(t), Volatile: true, MaxConnections: 31, SharedBuffers: "16MB", Settings: map[string]string{"work_mem": "5MB"},
	})
	connection := connect(t, server.DSN("postgres"))
	for name, want := range map[string]string{
		"fsync": "off", "max_connections": "31", "shared_buffers": "16MB", "work_mem": "5MB", "log_lock_waits": "on",
		"listen_addresses": "127.0.0.1",
	} {
		var got string
		if err := connection.QueryRow(t.Context(), "SELECT current_setting($1)", name).Scan(&got); err != nil {
			t.Fatal(err)
		}
		if got != want {
			t.Errorf("%s is %q, want %q", name, got, want)
		}
	}
}

func TestStrangersNeedThePassword(t *testing.T) {
	server := start(t, Options{Dir: directory(t), Volatile: true})
	config, err := pgx.ParseConfig(server.DSN("postgres"))
	if err != nil {
		t.Fatal(err)
	}
	config.Password = "guess"
	_, err = pgx.ConnectConfig(t.Context(), config)
	var refused *pgconn.PgError
	if !errors.As(err, &refused) || refused.Code != "28P01" {
		t.Errorf("a wrong password: %v", err)
	}
}

func TestOneServerPerDirectory(t *testing.T) {
	dir := directory(t)
	start(t, Options{Dir: dir, Volatile: true})
	ctx, cancel := context.WithTimeout(t.Context(), 100*time.Millisecond)
	defer cancel()
	if _, err := Start(ctx, Options{Dir: dir, Volatile: true}); !errors.Is(err, child.ErrClaimed) {
		t.Errorf("a second server in the same directory: %v", err)
	}
}

func TestRemoveLeavesNothing(t *testing.T) {
	dir := directory(t)
	server := start(t, Options{Dir: dir, Volatile: true})
	if err := server.Remove(); err != nil {
		t.Fatal(err)
	}
	if _, err := os.Lstat(dir); !os.IsNotExist(err) {
		t.Errorf("the directory is still there: %v", err)
	}
}

func TestMissingProgramsNameTheCommand(t *testing.T) {
	has := func(program string) func(string) (string, error) {
		return func(name string) (string, error) {
			if name == program {
				return "/usr/bin/" + name, nil
			}
			return "", exec.ErrNotFound
		}
	}
	for program, want := range map[string]string{
		"apt-get": "apt-get install -y postgresql", "dnf": "dnf install -y postgresql-server", "none": "",
	} {
		if got := notFound(has(program)).Command; got != want {
			t.Errorf("with %s: %q, want %q", program, got, want)
		}
	}
}

func TestNewestVersionFirst(t *testing.T) {
	root := t.TempDir()
	for _, version := range []string{"9.6", "15", "17"} {
		if err := os.MkdirAll(filepath.Join(root, "postgresql", version, "bin"), 0o700); err != nil {
			t.Fatal(err)
		}
	}
	var got []string
	for _, dir := range installed([]string{filepath.Join(root, "postgresql", "*", "bin")}) {
		got = append(got, filepath.Base(filepath.Dir(dir)))
	}
	if want := []string{"17", "15", "9.6"}; !slices.Equal(got, want) {
		t.Errorf("order %v, want %v", got, want)
	}
}

func TestACrashLosesNothingThatWasCommitted(t *testing.T) {
	server := start(t, Options{Dir: directory(t)})
	if err := server.EnsureDatabase(t.Context(), "app"); err != nil {
		t.Fatal(err)
	}
	execute(t, server, "CREATE TABLE kept (n int)")
	for committed := 1; committed <= 3; committed++ {
		execute(t, server, "INSERT INTO kept VALUES (1)")
		open, err := connect(t, server.DSN("app")).Begin(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		if _, err := open.Exec(t.Context(), "INSERT INTO kept VALUES (2)"); err != nil {
			t.Fatal(err)
		}
		server.Crash()
		if server.Running() {
			t.Fatal("it runs after the crash")
		}
		if err := server.Resume(t.Context()); err != nil {
			t.Fatal(err)
		}
		if n := count(t, server); n != committed {
			t.Errorf("%d rows after crash %d", n, committed)
		}
	}
}

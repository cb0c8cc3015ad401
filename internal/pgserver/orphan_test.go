package pgserver

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"strings"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/a-seed-a7aed72f/holdfast/internal/child"
)

// parentOf makes this test's program, run once more, a parent that starts a server in the directory and waits to be
// killed.
const parentOf = "PGSERVER_TEST_PARENT_OF"

func TestMain(m *testing.M) {
	if dir := os.Getenv(parentOf); dir != "" {
		server, err := Start(context.Background(), Options{Dir: dir, Volatile: true})
		if err != nil {
			fmt.Fprintln(os.Stderr, err)
			os.Exit(1)
		}
		fmt.Println(server.DSN("postgres"))
		select {}
	}
	os.Exit(m.Run())
}

func TestServerDiesWithItsParent(t *testing.T) {
	dir := directory(t)
	parent := exec.Command(os.Args[0])
	parent.Env = append(os.Environ(), parentOf+"="+dir)
	parent.Stderr = os.Stderr
	out, err := parent.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := parent.Start(); err != nil {
		t.Fatal(err)
	}
	dsn, err := bufio.NewReader(out).ReadString('\n')
	if err != nil {
		t.Fatal(errors.Join(err, parent.Wait()))
	}
	dsn = strings.TrimSpace(dsn)
	connect(t, dsn)

	if err := parent.Process.Kill(); err != nil {
		t.Fatal(err)
	}
	_ = parent.Wait() // "killed" is no news

	// The claim is free only when every process of the server is gone, because each has inherited it.
	ctx, cancel := context.WithTimeout(t.Context(), 10*time.Second)
	defer cancel()
	claim, err := child.ClaimDir(ctx, dir)
	if err != nil {
		t.Fatalf("after its parent was killed: %v", err)
	}
	claim.Release()
	if _, err := pgx.Connect(t.Context(), dsn); err == nil {
		t.Error("the server accepts connections after its parent was killed")
	}

	// What it left can be used at once.
	start(t, Options{Dir: dir, Volatile: true})
}

func TestADeathNobodyAskedForIsReported(t *testing.T) {
	server := start(t, Options{Dir: directory(t), Volatile: true})
	if err := server.Restart(t.Context()); err != nil {
		t.Fatal(err)
	}
	server.Kill()
	if err := server.Resume(t.Context()); err != nil {
		t.Fatal(err)
	}
	select {
	case err := <-server.Died():
		t.Fatalf("a restart is reported as a death: %v", err)
	default:
	}
	_, _ = connect(t, server.DSN("postgres")).Exec(t.Context(),
		"COPY (SELECT 1) TO PROGRAM 'kill -QUIT $(head -n 1 postmaster.pid)'") // the connection is cut meanwhile
	select {
	case <-server.Died():
	case <-t.Context().Done():
	case <-time.After(20 * time.Second):
		t.Error("the death was not reported")
	}
}

func TestAnUnreachableDirectoryIsReplaced(t *testing.T) {
	user, err := child.Unprivileged("postgres", "nobody")
	if err != nil {
		t.Fatal(err)
	}
	closed := t.TempDir()
	if err := os.Chmod(closed, 0o700); err != nil {
		t.Fatal(err)
	}
	wanted := closed + "/postgres"
	server := start(t, Options{Dir: wanted, Volatile: true})
	if reachable, err := user.Reaches(closed); err != nil {
		t.Fatal(err)
	} else if moved := isLink(wanted); moved == reachable {
		t.Errorf("the server's user reaches the directory: %v; the data are elsewhere: %v", reachable, moved)
	}
	server.Stop()
	server = start(t, Options{Dir: wanted, Volatile: true})
	elsewhere := server.dir
	if err := server.Remove(); err != nil {
		t.Fatal(err)
	}
	for _, path := range []string{wanted, elsewhere} {
		if _, err := os.Lstat(path); !os.IsNotExist(err) {
			t.Errorf("%s was not removed: %v", path, err)
		}
	}
}

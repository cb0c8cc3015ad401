package bench

import (
	"context"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"testing"

	"go.uber.org/goleak"

	"github.com/a-seed-a7aed72f/holdfast/internal/bench/bare"
	"github.com/a-seed-a7aed72f/holdfast/internal/bench/fakenode"
	"github.com/a-seed-a7aed72f/holdfast/internal/bench/load"
	"github.com/a-seed-a7aed72f/holdfast/internal/child"
)

// part makes this test's program one of a benchmark's separate processes.
const part = "BENCH_TEST_PART"

// parts are these processes.
var parts = map[string]func(context.Context, io.Reader, io.Writer) error{"load": load.Serve, "fake-node": fakenode.Serve,
	"bare": func(ctx context.Context, _ io.Reader, _ io.Writer) error {
		return bare.Serve(ctx, bare.Settings{Listen: os.Getenv("HOLDFAST_LISTEN"), DatabaseURL: os.Getenv("HOLDFAST_DATABASE_URL"), Connections: 2})
	}}

func TestMain(m *testing.M) {
	if serve := parts[os.Getenv(part)]; serve != nil {
		if err := serve(context.Background(), os.Stdin, os.Stdout); err != nil {
			os.Stderr.WriteString(err.Error())
			os.Exit(1)
		}
		return
	}
	goleak.VerifyTestMain(m)
}

// program is the service: built by make, or else here.
func program(t *testing.T) string {
	t.Helper()
	if bin := os.Getenv("HOLDFAST_BIN"); bin != "" {
		return filepath.Join(bin, "holdfast")
	}
	built := filepath.Join(t.TempDir(), "holdfast")
	if out, err := exec.CommandContext(t.Context(), "go", "build", "-o", built, "../../cmd/holdfast").CombinedOutput(); err != nil {
		t.Fatalf("build the service: %v\n%s", err, out)
	}
	return built
}

// command runs one of a benchmark's processes: this test's own program.
func command(t *testing.T, name string) []string {
	t.Helper()
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	return []string{"env", part + "=" + name, self}
}

// small are options with little to fill, also of the log: who creates its segments matters to figures alone.
func small(t *testing.T) Options {
	t.Helper()
	return Options{Users: 50, Items: 200, Segments: 2, Out: t.Output()}
}

// scratch is a directory that PostgreSQL's user can reach.
func scratch(t *testing.T) string {
	t.Helper()
	s, err := child.NewScratch("holdfast-bench-test")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := s.Remove(); err != nil {
			t.Error(err)
		}
	})
	return s.Dir
}

// databases are filled ones.
func databases(t *testing.T, dir string, o Options) *database {
	t.Helper()
	d, err := startDatabase(t.Context(), dir, o, nil)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(d.Stop)
	return d
}

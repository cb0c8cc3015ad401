package bench

import (
	"context"
	"os"
	"os/exec"
	"path/filepath"
	"testing"

	"go.uber.org/goleak"

	"github.com/a-seed-a7aed72f/holdfast/internal/bench/load"
	"github.com/a-seed-a7aed72f/holdfast/internal/child"
)

// asLoad makes this test's program the load generator.
const asLoad = "BENCH_TEST_LOAD"

func TestMain(m *testing.M) {
	if os.Getenv(asLoad) != "" {
		if err := load.Serve(context.Background(), os.Stdin, os.Stdout); err != nil {
			os.Stderr.WriteString(err.Error())
			os.Exit(1)
		}
		return
	}
	goleak.VerifyTestMain(m)
}

// program is the service: what make has built, or else built here.
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

// loadCommand is the load generator: this test's own program.
func loadCommand(t *testing.T) []string {
	t.Helper()
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	return []string{"env", asLoad + "=1", self}
}

// small are options with little to fill.
func small(t *testing.T) Options {
	t.Helper()
	return Options{Users: 50, Items: 200, Out: t.Output()}
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
func databases(t *testing.T, dir string) *database {
	t.Helper()
	d, err := startDatabase(t.Context(), dir, small(t), nil)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(d.Stop)
	return d
}

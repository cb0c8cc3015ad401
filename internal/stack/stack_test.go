package stack_test

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/a-seed-a7aed72f/holdfast/internal/child"
	"github.com/a-seed-a7aed72f/holdfast/internal/stack"
	"github.com/a-seed-a7aed72f/holdfast/lightning/devnet"
)

// The test's own program plays two other parts when the environment says so: the service, which for the stack only has
// to migrate, become ready and end; and a parent that runs a stack and is killed.
const (
	asService = "STACK_TEST_SERVICE=1"
	parentOf  = "STACK_TEST_PARENT_OF"
)

func TestMain(m *testing.M) {
	name, value, _ := strings.Cut(asService, "=")
	switch {
	case os.Getenv(name) == value:
		serve()
	case os.Getenv(parentOf) != "":
		parent(os.Getenv(parentOf))
	default:
		os.Exit(m.Run())
	}
}

func serve() {
	if os.Args[1] == "migrate" {
		return
	}
	http.HandleFunc("/readyz", func(w http.ResponseWriter, r *http.Request) {
		connection, err := pgx.Connect(r.Context(), os.Getenv("HOLDFAST_DATABASE_URL"))
		if err != nil {
			http.Error(w, err.Error(), http.StatusServiceUnavailable)
			return
		}
		_ = connection.Close(r.Context())
	})
	fmt.Fprintln(os.Stderr, http.ListenAndServe(os.Getenv("HOLDFAST_LISTEN"), nil))
	os.Exit(1)
}

func parent(dir string) {
	running, err := stack.Start(context.Background(), options(dir))
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
	fmt.Println(running.URL())
	select {}
}

func options(dir string) stack.Options {
	return stack.Options{Dir: filepath.Join(dir, "data"), Bin: filepath.Join(dir, "bin"), Environment: []string{asService}}
}

// directory is a directory that PostgreSQL's user can reach, with the programs: real ones, and this test's own as the
// service.
func directory(t *testing.T) string {
	t.Helper()
	scratch, err := child.NewScratch("holdfast-stack-test")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := scratch.Remove(); err != nil {
			t.Error(err)
		}
	})
	programs, err := devnet.Programs(t.Context(), os.Stderr)
	if err != nil {
		t.Fatal(err)
	}
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	bin := filepath.Join(scratch.Dir, "bin")
	if err := os.Mkdir(bin, 0o755); err != nil {
		t.Fatal(err)
	}
	for name, target := range map[string]string{
		"btcd": filepath.Join(programs, "btcd"), "lnd": filepath.Join(programs, "lnd"), "holdfast": self,
	} {
		if err := os.Symlink(target, filepath.Join(bin, name)); err != nil {
			t.Fatal(err)
		}
	}
	return scratch.Dir
}

func start(t *testing.T, options stack.Options) *stack.Stack {
	t.Helper()
	begun := time.Now()
	options.Log = t.Logf
	running, err := stack.Start(t.Context(), options)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(running.Stop)
	t.Logf("started in %v", time.Since(begun).Round(100*time.Millisecond))
	return running
}

func answers(url string) bool {
	response, err := http.Get(url + "/readyz")
	if err != nil {
		return false
	}
	response.Body.Close()
	return response.StatusCode == http.StatusOK
}

func TestPartsCanBeKilledAloneAndTheRestDiesWithTheParent(t *testing.T) {
	dir := directory(t)
	running := start(t, options(dir))
	if !answers(running.URL()) {
		t.Fatal("the service does not answer")
	}
	wantSettings(t, running, filepath.Join(dir, "data", stack.SettingsFile))
	running.ServiceKill()
	if answers(running.URL()) {
		t.Error("the service answers after it was killed")
	}
	if err := running.Postgres.Restart(t.Context()); err != nil {
		t.Fatal(err)
	}
	if err := running.ServiceStart(t.Context()); err != nil {
		t.Fatal(err)
	}
	if err := running.Network.RestartNode(t.Context(), devnet.Holdfast); err != nil {
		t.Fatal(err)
	}
	if err := running.Network.Mine(t.Context(), 1); err != nil {
		t.Fatal(err)
	}
	if !answers(running.URL()) {
		t.Error("the service does not answer after it was started again")
	}
	now, cancel := context.WithCancel(t.Context())
	cancel()
	if err := running.Died(now); err != nil {
		t.Errorf("a restart is taken for a death: %v", err)
	}
	begun := time.Now()
	running.Stop()
	t.Logf("stopped in %v", time.Since(begun).Round(100*time.Millisecond))
	if answers(running.URL()) {
		t.Error("the service answers after the stop")
	}

	killedParent(t, dir)
}

// wantSettings expects a file from which a command reads what the service was given, and that nobody else can read.
func wantSettings(t *testing.T, running *stack.Stack, file string) {
	t.Helper()
	text, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	var settings map[string]string
	if err := json.Unmarshal(text, &settings); err != nil {
		t.Fatal(err)
	}
	for name, value := range settings {
		if variable := "HOLDFAST_" + strings.ReplaceAll(strings.ToUpper(name), "-", "_") + "=" + value; !slices.Contains(running.Environment(), variable) {
			t.Errorf("the service is not given %s", variable)
		}
	}
	if settings["database-url"] != running.DSN() || settings["nodes"] == "" {
		t.Errorf("%s", text)
	}
	if about, err := os.Stat(file); err != nil || about.Mode() != 0o600 {
		t.Errorf("%v, %v", about.Mode(), err)
	}
}

// killedParent kills a process that runs the stack and expects every part to be gone.
func killedParent(t *testing.T, dir string) {
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
	url, err := bufio.NewReader(out).ReadString('\n')
	if err != nil {
		t.Fatal(errors.Join(err, parent.Wait()))
	}
	url = strings.TrimSpace(url)
	if !answers(url) {
		t.Fatal("the parent's service does not answer")
	}
	if err := parent.Process.Kill(); err != nil {
		t.Fatal(err)
	}
	_ = parent.Wait() // "killed" is no news

	// A claim is free when every process that holds it is gone.
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	for _, part := range []string{"network", "postgres"} {
		claim, err := child.ClaimDir(ctx, filepath.Join(dir, "data", part))
		if err != nil {
			t.Fatalf("after the parent was killed: %v", err)
		}
		claim.Release()
	}
	if answers(url) {
		t.Error("the service answers after its parent was killed")
	}
	start(t, options(dir)) // what the killed ones left can be used
}

func TestAMissingProgramIsNamed(t *testing.T) {
	dir := t.TempDir()
	if _, err := stack.Start(t.Context(), options(dir)); !errors.Is(err, stack.ErrNotBuilt) {
		t.Errorf("start without programs: %v", err)
	}
}

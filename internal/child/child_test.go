package child_test

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/a-seed-a7aed72f/holdfast/internal/child"
)

func TestStopIsPoliteFirst(t *testing.T) {
	for name, c := range map[string]struct {
		script string
		grace  time.Duration
		polite bool
	}{
		"obedient": {"trap 'exit 0' TERM; echo ready; while :; do sleep 0.01; done", 10 * time.Second, true},
		"stubborn": {"trap '' TERM; echo ready; while :; do sleep 0.01; done", 100 * time.Millisecond, false},
	} {
		t.Run(name, func(t *testing.T) {
			log := filepath.Join(t.TempDir(), "log")
			process, err := child.Start(child.Command{Name: name, Path: "sh", Args: []string{"-c", c.script}, Log: log})
			if err != nil {
				t.Fatal(err)
			}
			awaitLine(t, log, "ready")
			if polite := process.Stop(c.grace); polite != c.polite {
				t.Errorf("ended politely: %v, want %v", polite, c.polite)
			}
			if err := syscall.Kill(process.PID(), 0); !errors.Is(err, syscall.ESRCH) {
				t.Errorf("it is still there: %v", err)
			}
		})
	}
}

func TestAWholeGroupEndsTogether(t *testing.T) {
	dir := t.TempDir()
	claim, err := child.ClaimDir(t.Context(), dir)
	if err != nil {
		t.Fatal(err)
	}
	log := filepath.Join(t.TempDir(), "log")
	// A program that a shell runs in the background ignores the interrupt.
	process, err := child.Start(child.Command{
		Name: "shell", Path: "sh", Args: []string{"-c", "sleep 60 & echo ready; wait"}, Log: log,
		Interrupt: syscall.SIGINT, WholeGroup: true, Holds: claim,
	})
	if err != nil {
		t.Fatal(err)
	}
	claim.Release()
	awaitLine(t, log, "ready")
	process.Stop(10 * time.Second)

	ctx, cancel := context.WithTimeout(t.Context(), 10*time.Second)
	defer cancel()
	claim, err = child.ClaimDir(ctx, dir)
	if err != nil {
		t.Fatalf("the shell's child lives on: %v", err)
	}
	claim.Release()
}

func TestChildrenInGroupsOfTheirOwnDieToo(t *testing.T) {
	dir := t.TempDir()
	claim, err := child.ClaimDir(t.Context(), dir)
	if err != nil {
		t.Fatal(err)
	}
	log := filepath.Join(t.TempDir(), "log")
	process, err := child.Start(child.Command{
		Name: "shell", Path: "sh", Args: []string{"-c", "setsid sleep 60 & echo ready; wait"}, Log: log, Holds: claim,
	})
	if err != nil {
		t.Fatal(err)
	}
	claim.Release()
	awaitLine(t, log, "ready")
	process.KillTree()
	process.KillTree() // nothing is left to kill

	at, cancel := context.WithTimeout(t.Context(), time.Millisecond)
	defer cancel()
	claim, err = child.ClaimDir(at, dir)
	if err != nil {
		t.Fatalf("the shell's child lives on: %v", err)
	}
	claim.Release()
}

func TestWhatEndedByItselfCanBeStartedAgain(t *testing.T) {
	server := child.NewServer(child.Command{Name: "short", Path: "true"})
	for range 2 {
		if err := server.Start(); err != nil {
			t.Fatal(err)
		}
		select {
		case err := <-server.Died():
			if !errors.Is(err, child.ErrEnded) {
				t.Errorf("died of %v", err)
			}
		case <-time.After(10 * time.Second):
			t.Fatal("nobody hears that it has ended")
		}
		if server.Running() {
			t.Error("it runs after its end")
		}
	}
}

func TestNobodyWaitsForAServerThatIsGone(t *testing.T) {
	server := child.NewServer(child.Command{Name: "short", Path: "true"})
	if err := server.Start(); err != nil {
		t.Fatal(err)
	}
	notYet := errors.New("not yet")
	err := server.AwaitReady(t.Context(), time.Hour, func(context.Context) error { return notYet })
	if !errors.Is(err, child.ErrEnded) || !errors.Is(err, notYet) {
		t.Errorf("it was waited for until %v", err)
	}
}

func awaitLine(t *testing.T, log, line string) {
	t.Helper()
	deadline := time.After(10 * time.Second)
	again := time.NewTicker(5 * time.Millisecond)
	defer again.Stop()
	for {
		if text, err := os.ReadFile(log); err == nil && strings.Contains(string(text), line) {
			return
		}
		select {
		case <-deadline:
			t.Fatalf("%s never says %q", log, line)
		case <-again.C:
		}
	}
}

func TestAFailureShowsTheLog(t *testing.T) {
	process, err := child.Start(child.Command{
		Name: "program", Path: "sh", Args: []string{"-c", "echo out of luck; exit 7"}, Log: filepath.Join(t.TempDir(), "log"),
	})
	if err != nil {
		t.Fatal(err)
	}
	<-process.Exited()
	var exit *child.ExitError
	if err := process.Err(); !errors.As(err, &exit) || !strings.Contains(err.Error(), "out of luck") {
		t.Errorf("error %v", err)
	}
}

func TestAChildHoldsTheClaimOfADeadParent(t *testing.T) {
	dir := t.TempDir()
	claim, err := child.ClaimDir(t.Context(), dir)
	if err != nil {
		t.Fatal(err)
	}
	process, err := child.Start(child.Command{Name: "sleep", Path: "sleep", Args: []string{"60"}, Holds: claim})
	if err != nil {
		t.Fatal(err)
	}
	claim.Release() // as the system does for a process that dies

	soon, cancel := context.WithTimeout(t.Context(), 50*time.Millisecond)
	defer cancel()
	if _, err := child.ClaimDir(soon, dir); !errors.Is(err, child.ErrClaimed) {
		t.Errorf("claimed under a living child: %v", err)
	}
	process.Kill()
	claim, err = child.ClaimDir(t.Context(), dir)
	if err != nil {
		t.Fatal(err)
	}
	claim.Release()
}

func TestAbandonedScratchIsSwept(t *testing.T) {
	t.Setenv("TMPDIR", t.TempDir())
	abandoned, err := child.NewScratch("scratch")
	if err != nil {
		t.Fatal(err)
	}
	abandoned.Abandon()
	stranger := filepath.Join(os.Getenv("TMPDIR"), "scratch-of-somebody-else")
	if err := os.Mkdir(stranger, 0o700); err != nil {
		t.Fatal(err)
	}
	kept, err := child.NewScratch("scratch")
	if err != nil {
		t.Fatal(err)
	}
	again, err := child.NewScratch("scratch")
	if err != nil {
		t.Fatal(err)
	}
	for dir, want := range map[string]bool{abandoned.Dir: false, stranger: true, kept.Dir: true, again.Dir: true} {
		if _, err := os.Stat(dir); (err == nil) != want {
			t.Errorf("%s exists: %v, want %v", filepath.Base(dir), err == nil, want)
		}
	}
}

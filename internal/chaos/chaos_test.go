package chaos

import (
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/a-seed-a7aed72f/holdfast/internal/child"
	"github.com/a-seed-a7aed72f/holdfast/internal/stack"
	"github.com/a-seed-a7aed72f/holdfast/lightning/devnet"
)

// programs is a directory with the service as it is now, btcd and lnd.
func programs(t *testing.T) string {
	t.Helper()
	bin, err := devnet.Programs(t.Context(), os.Stderr, "../../cmd/holdfast")
	if err != nil {
		t.Fatal(err)
	}
	return bin
}

// TestNothingIsLostWhileThePartsAreKilled is a short make chaos. How soon the API serves again is reported but not
// judged here, because it depends on the machine's other work.
func TestNothingIsLostWhileThePartsAreKilled(t *testing.T) {
	t.Parallel()
	scratch, err := child.NewScratch("holdfast-chaos-test")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := scratch.Remove(); err != nil {
			t.Error(err)
		}
	})
	options := Stack()
	options.Dir, options.Bin, options.Log = filepath.Join(scratch.Dir, "data"), programs(t), t.Logf
	running, err := stack.Start(t.Context(), options)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(running.Stop)
	s, err := Run(t.Context(), running, Options{Duration: 25 * time.Second, Seed: 1, Every: 2 * time.Second, Out: t.Output()})
	if err != nil {
		t.Fatal(err)
	}
	t.Logf("%+v", *s)
	if s.Differences != 0 || s.Stuck != 0 {
		t.Errorf("%d differences, %d stuck", s.Differences, s.Stuck)
	}
	if s.Actions == 0 || s.Paid == 0 {
		t.Error("nothing was done")
	}
	ofServices := 0
	for _, own := range processes {
		ofServices += s.KillsBy[own.name]
	}
	ofNodes := s.Kills - ofServices - s.KillsBy["postgresql"]
	if s.Kills < 4 || ofServices == 0 || s.KillsBy["postgresql"] == 0 || ofNodes == 0 {
		t.Errorf("not every class was struck: %v", s.KillsBy)
	}
}

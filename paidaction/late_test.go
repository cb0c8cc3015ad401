package paidaction_test

import (
	"bytes"
	"fmt"
	"log/slog"
	"strings"
	"testing"

	"github.com/a-seed-a7aed72f/holdfast/internal/enginetest"
	"github.com/a-seed-a7aed72f/holdfast/lightning/simnode"
	"github.com/a-seed-a7aed72f/holdfast/paidaction"
)

// spec 01 §1.3: where the state has moved on, a fact changes nothing and is no error, and that is said at debug level
// alone: before the look at the node, and between the look and the step.
func TestAFactThatComesTooLateIsSaidAtDebugLevel(t *testing.T) {
	t.Parallel()
	w := enginetest.New(t, paidaction.Settings{})
	pa := zap(w, w.User("payer", 0, 0), paidaction.Optimistic)
	pay(w, pa, simnode.Payment{})
	var said bytes.Buffer
	late := func(want paidaction.Progress, line string) {
		t.Helper()
		said.Reset()
		w.Engine.Log = slog.New(slog.NewTextHandler(&said, &slog.HandlerOptions{Level: slog.LevelDebug}))
		progress, err := w.Engine.Advance(w.Ctx, pa.ID)
		if err != nil || progress != want {
			t.Errorf("progress %d, error %v", progress, err)
		}
		lines := strings.Split(strings.TrimSpace(said.String()), "\n")
		if last := lines[len(lines)-1]; !strings.Contains(last, "level=DEBUG") || !strings.Contains(last, line) || !strings.Contains(last, fmt.Sprint("action=", pa.ID)) {
			t.Errorf("it says:\n%s", said.String())
		}
		if strings.Contains(said.String(), "level=WARN") || strings.Contains(said.String(), "level=ERROR") {
			t.Errorf("it says more than that:\n%s", said.String())
		}
	}
	w.Node.After(simnode.MethodLookup, func(paidaction.Hash) { w.Advance(pa.ID) }) // another worker
	late(paidaction.Waiting, "another worker was faster")
	w.WantState(pa.ID, paidaction.Paid)
	late(paidaction.Done, "has ended")
	if n := w.Count(`SELECT count(*) FROM action_history WHERE action_id = $1`, pa.ID); n != 2 {
		t.Errorf("%d steps in the history", n)
	}
	w.WantConserved()
}

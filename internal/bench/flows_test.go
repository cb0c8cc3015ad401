package bench

import (
	"encoding/json"
	"os/exec"
	"strings"
	"testing"
	"time"

	"github.com/a-seed-a7aed72f/holdfast/internal/bench/fakenode"
	"github.com/a-seed-a7aed72f/holdfast/paidaction"
)

// A short run with a fake node, from the wallets to the last line: each flow is paid, committed, and compared with the
// payments.
func TestFlowsFromEndToEnd(t *testing.T) {
	t.Parallel()
	o := small(t)
	o.Holdfast, o.FakeNode, o.Rounds, o.Takes, o.Noisy = program(t), command(t, "fake-node"), 1, 250*time.Millisecond, true
	report, err := fakeFlows(t.Context(), o)
	if err != nil {
		t.Fatal(err)
	}
	line, err := json.Marshal(report)
	if err != nil {
		t.Fatal(err)
	}
	var read map[string]json.RawMessage
	if err := json.Unmarshal(line, &read); err != nil {
		t.Fatal(err)
	}
	for _, way := range flows {
		var f struct {
			PerS    float64 `json:"per_s"`
			Service float64 `json:"service_us"`
			PG      float64 `json:"postgres_us"`
			P50     float64 `json:"p50_ms"`
			P99     float64 `json:"p99_ms"`
			JobsP99 float64 `json:"jobs_p99_ms"`
			Flush   float64 `json:"flush_ms"`
		}
		if err := json.Unmarshal(read[way.name], &f); err != nil {
			t.Fatal(err)
		}
		// The wait of jobs is part of the payment's time; a fsync is never free.
		if f.PerS <= 0 || f.Service <= 0 || f.PG <= 0 || f.P50 <= f.Flush || f.P99 < f.P50 || f.JobsP99 < 0 || f.JobsP99 >= f.P99 || f.Flush <= 0 {
			t.Errorf("%s is not measured: %s", way.name, line)
		}
		if !strings.Contains(report.Table(), way.name) || !strings.Contains(report.markdown(time.Now()), way.name) {
			t.Errorf("%s is not told", way.name)
		}
	}
}

// The wait of several jobs at the same time counts once, and only between the event and the commit.
func TestWaitsAreNotCountedTwice(t *testing.T) {
	t.Parallel()
	zero := time.Now()
	at := func(ms int) time.Time { return zero.Add(time.Duration(ms) * time.Millisecond) }
	m := moment{span{at(10), at(100)}, []span{{at(50), at(60)}, {at(0), at(20)}, {at(55), at(70)}, {at(90), at(120)}, {at(130), at(140)}}}
	if got := m.waited(); got != 40*time.Millisecond {
		t.Errorf("10 + 20 + 10 ms, and not %v", got)
	}
}

// Unpaid and missing actions are found.
func paymentsThatAreMissingAreFound(t *testing.T, d *database) {
	self := command(t, "fake-node")
	node, err := fakenode.Start(exec.CommandContext(t.Context(), self[0], self[1:]...))
	if err != nil {
		t.Fatal(err)
	}
	if _, err := node.Pay(0, paidaction.Hash{1}); err == nil {
		t.Error("an invoice that nobody issued is paid")
	}
	if err := node.Stop(); err != nil {
		t.Error(err)
	}
	b, err := openBooks(t.Context(), d.DSN(holdfastDB))
	if err != nil {
		t.Fatal(err)
	}
	defer b.close(t.Context())
	if _, err := b.moments(t.Context(), make([]paidaction.Hash, 1), make([]time.Time, 1)); err == nil {
		t.Error("a payment of which nothing is in the database has a moment")
	}
}

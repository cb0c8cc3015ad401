package worker

import (
	"context"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	dto "github.com/prometheus/client_model/go"

	"github.com/a-seed-a7aed72f/holdfast/lightning/simnode"
	"github.com/a-seed-a7aed72f/holdfast/paidaction"
)

func gauge(t *testing.T, g prometheus.Metric) float64 {
	t.Helper()
	var m dto.Metric
	if err := g.Write(&m); err != nil {
		t.Fatal(err)
	}
	return m.GetGauge().GetValue()
}

// still is a clock that neither moves nor scatters.
type still struct{ RealClock }

func (still) Jitter(d time.Duration) time.Duration { return d }

func TestDo(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.config.Clock = still{}
	worker, err := New(w.config)
	if err != nil {
		t.Fatal(err)
	}
	pa := w.begin(paidaction.Optimistic)
	job := paidaction.Job{Kind: paidaction.JobAdvance, Action: pa.ID}

	// Too early by the engine's clock, whatever the clock of who schedules says: it comes back when it is time.
	early := job
	early.At = w.config.Engine.Now().Add(400 * time.Millisecond)
	calls := len(w.node.Calls())
	if again := worker.Do(w.ctx, early, 0); again <= 0 || again > 400*time.Millisecond {
		t.Errorf("a job that is 400 ms early comes back after %s", again)
	}
	early.At = w.config.Engine.Now().Add(time.Hour)
	if again := worker.Do(w.ctx, early, 0); again != maxPause {
		t.Errorf("a job that is an hour early comes back after %s", again)
	}
	if len(w.node.Calls()) != calls {
		t.Error("a job that is too early asked the node")
	}

	// Failures: ever later, but never later than five seconds, and without end.
	w.node.FailBefore(simnode.MethodLookup, 1<<30)
	for failures, want := range map[int]time.Duration{0: 50 * time.Millisecond, 1: 100 * time.Millisecond, 5: 1600 * time.Millisecond, 7: 5 * time.Second, 1e6: 5 * time.Second} {
		if again := worker.Do(w.ctx, job, failures); again != want {
			t.Errorf("after %d failures the pause is %s, want %s", failures, again, want)
		}
	}
	w.node.FailBefore(simnode.MethodLookup, 0)

	for name, done := range map[string]paidaction.Job{
		"waiting": job, "nobody's": {Kind: paidaction.JobAdvance, Action: 999}, "nobody's effect": {Kind: paidaction.JobAfterPaid, Action: 999},
		"due": {Kind: paidaction.JobAdvance, Action: pa.ID, At: w.config.Engine.Now()},
	} {
		if again := worker.Do(w.ctx, done, 0); again != 0 {
			t.Errorf("%s: comes back after %s", name, again)
		}
	}

	cancelled, cancel := context.WithCancel(w.ctx)
	cancel()
	if again := worker.Do(cancelled, job, 0); again == 0 {
		t.Error("a job that was cut off counts as done")
	}
}

func TestQueue(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	tx, err := w.pool.Begin(w.ctx)
	if err != nil {
		t.Fatal(err)
	}
	at := time.Now().Add(time.Hour).UTC().Truncate(time.Microsecond)
	err = w.config.Jobs.Insert(w.ctx, tx, paidaction.Job{Kind: paidaction.JobAdvance, Action: 7}, paidaction.Job{Kind: paidaction.JobAdvance, Action: 7},
		paidaction.Job{Kind: paidaction.JobAfterPaid, Action: 7}, paidaction.Job{Kind: paidaction.JobAdvance, Action: 8, At: at})
	if err != nil {
		t.Fatal(err)
	}
	if n := w.count(`SELECT count(*) FROM river_job`); n != 0 {
		t.Errorf("%d jobs are seen before the commit", n)
	}
	if err := w.config.Jobs.Insert(w.ctx, tx, paidaction.Job{Kind: "nonsense"}); err == nil {
		t.Error("an unknown kind was stored")
	}
	if err := w.config.Jobs.Insert(w.ctx, tx); err != nil {
		t.Errorf("no jobs: %v", err)
	}
	if err := tx.Commit(w.ctx); err != nil {
		t.Fatal(err)
	}
	for query, want := range map[string]int{
		`SELECT count(*) FROM river_job WHERE queue = 'money' AND kind = 'advance' AND state = 'available' AND args = '{"action": 7}'`: 2,
		`SELECT count(*) FROM river_job WHERE queue = 'effects' AND kind = 'after_paid' AND state = 'available'`:                       1,
		`SELECT count(*) FROM river_job WHERE queue = 'money' AND state = 'scheduled' AND (args->>'due')::timestamptz = scheduled_at`:  1,
		`SELECT count(*) FROM river_job WHERE unique_key IS NOT NULL`:                                                                  0,
	} {
		if n := w.count(query); n != want {
			t.Errorf("%s: %d, want %d", query, n, want)
		}
	}
}

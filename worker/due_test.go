package worker

import (
	"testing"
	"time"
)

// scheduled stores jobs that are due after so long, and says how many of them are available after one round.
func (w *world) scheduled(one *Worker, queue string, jobs int, due time.Duration) (available int) {
	w.Helper()
	w.count(`WITH made AS (
		INSERT INTO river_job (kind, queue, args, state, max_attempts, scheduled_at)
		SELECT 'advance', $1, '{"action": 0}', 'scheduled', 5, $2 FROM generate_series(1, $3) RETURNING id
	) SELECT count(*) FROM made`, queue, one.Clock.Now().Add(due), jobs)
	one.makeDue(w.ctx, w.pool)
	available = w.count(`SELECT count(*) FROM river_job WHERE state = 'available' AND queue = $1`, queue)
	w.count(`WITH gone AS (DELETE FROM river_job RETURNING id) SELECT count(*) FROM gone`)
	return available
}

// What is due by the time at which River looks next is available then, of all queues and however many there are: River has nothing left to compare.
func TestDueJobsAreMadeAvailableBeforeRiverLooks(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	one, err := New(w.config)
	if err != nil {
		t.Fatal(err)
	}
	for _, queue := range Queues() {
		for due, want := range map[time.Duration]int{-time.Hour: 3, riverAhead: 3, riverAhead + dueEvery: 3, 3 * riverAhead: 0} {
			if got := w.scheduled(one, queue, 3, due); got != want {
				t.Errorf("%s, due in %v: %d are available, want %d", queue, due, got, want)
			}
		}
	}
	if got := w.scheduled(one, moneyQueue, 2*duePage+500, time.Second); got != 2*duePage+500 {
		t.Errorf("of many %d are available", got)
	}
}

// Until it is due, a job that is available is not done.
func TestAnAvailableJobWaitsUntilItIsDue(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.started()
	w.count(`WITH made AS (
		INSERT INTO river_job (kind, queue, args, state, max_attempts, scheduled_at)
		SELECT 'advance', 'money', '{"action": 0}', 'scheduled', 5, now() + d * interval '1 second' FROM unnest(ARRAY[1, 8]) AS d RETURNING id
	) SELECT count(*) FROM made`)
	w.await("both available", func() bool { return w.count(`SELECT count(*) FROM river_job WHERE state = 'scheduled'`) == 0 })
	w.await("the first done", func() bool {
		return w.count(`SELECT count(*) FROM river_job WHERE state = 'completed' AND attempted_at >= scheduled_at`) == 1
	})
	if n := w.count(`SELECT count(*) FROM river_job WHERE attempted_at < scheduled_at`); n != 0 {
		t.Errorf("%d were done before they were due", n)
	}
}

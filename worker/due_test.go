package worker

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/a-seed-a7aed72f/holdfast/paidaction"
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

// What a process whose clock was ahead has put off, or taken for dead, is done all the same: all of it, in each queue
// but that of money, whose jobs wait for deadlines. What waits no longer than it may is left alone, and so is what is
// running.
func TestWhatIsPutOffTooFarIsBroughtForward(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	one, err := New(w.config)
	if err != nil {
		t.Fatal(err)
	}
	stored := func(queue, state string, jobs int, wait time.Duration) {
		t.Helper()
		w.count(`WITH made AS (
			INSERT INTO river_job (kind, queue, args, state, max_attempts, scheduled_at)
			SELECT 'advance', $1, '{"action": 0}', $2, 5, $3 FROM generate_series(1, $4) RETURNING id
		) SELECT count(*) FROM made`, queue, state, one.Clock.Now().Add(wait), jobs)
	}
	due := func() int {
		return w.count(`SELECT count(*) FROM river_job WHERE state = 'available' AND scheduled_at <= now()`)
	}
	for _, state := range []string{"available", "scheduled", "retryable", "running"} {
		stored(effectQueue, state, 1, 50*time.Second)
		stored(effectQueue, state, 1, 70*time.Second)
		stored(attemptQueue, state, 1, 50*time.Second)
		stored(attemptQueue, state, 1, 365*24*time.Hour)
		stored(deliveryQueue, state, 1, 47*time.Hour)
		stored(deliveryQueue, state, 1, 49*time.Hour)
		stored(moneyQueue, state, 1, 365*24*time.Hour)
	}
	one.Engine.ConfirmClock = func(context.Context) error { return errors.New("the clocks are apart") }
	if one.bringForward(w.ctx, w.pool); due() != 0 {
		t.Errorf("%d are brought forward by a clock that nobody confirms", due())
	}
	one.Engine.ConfirmClock = func(context.Context) error { return nil }
	if one.bringForward(w.ctx, w.pool); due() != 3*3 {
		t.Errorf("%d are due, want 3 of each queue but that of money", due())
	}
	stored(effectQueue, "scheduled", 2*duePage+500, time.Hour)
	if one.bringForward(w.ctx, w.pool); due() != 3*3+2*duePage+500 {
		t.Errorf("of many only so many are due: %d", due())
	}
}

// A side effect that fails while the clock is an hour ahead is done soon after the clock is right.
func TestASideEffectPutOffByAClockAheadIsDone(t *testing.T) {
	t.Parallel()
	done := make(chan struct{}, 10)
	w := newWorld(t, func(_ *world, c *paidaction.Config) {
		c.Actions = []paidaction.Definition{paidaction.Define(gift{after: func() error { done <- struct{}{}; return nil }})}
	})
	pa := w.begin(paidaction.Pessimistic)
	w.pay(pa)
	if _, err := w.config.Engine.Drive(w.ctx, pa.ID); err != nil {
		t.Fatal(err)
	}
	if n := w.count(`WITH off AS (
		UPDATE river_job SET state = 'scheduled', scheduled_at = now() + interval '1 hour' WHERE queue = $1 RETURNING id
	) SELECT count(*) FROM off`, effectQueue); n != 1 {
		t.Fatalf("%d side effects wait", n)
	}
	defer w.started().stop()
	select {
	case <-done:
	case <-w.ctx.Done():
		t.Error("it waits for an hour")
	}
}

package worker

import (
	"context"
	"fmt"
	"time"

	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/a-seed-a7aed72f/holdfast/internal/db"
)

// River makes jobs available when they are due, with one statement every five seconds for up to ten thousand of them.
// If PostgreSQL planned that statement while there were few jobs, it compares each with all others (to find unique
// jobs, of which there are none here): eight hundred took 0.4 s, ten thousand would take a minute. Each invoice leaves
// two such jobs. So we make them available before River gets to them.
const (
	// riverAhead is how long before a job is due River makes it available.
	riverAhead = 5 * time.Second
	dueEvery   = 250 * time.Millisecond
	duePage    = 1000
)

// A process whose clock is ahead puts jobs off by that much too far, and takes those that others run for dead. What is
// put off farther than a process with a right clock puts it is due at once: each job sees for itself whether it is too
// early. Money jobs wait for deadlines, and the sweeps do without them.
var tooFar = map[string]time.Duration{
	effectQueue:   time.Minute, // maxPause, and clocks that differ a little
	attemptQueue:  time.Minute,
	deliveryQueue: 48 * time.Hour, // twice as long as a server is left alone
}

const forwardEvery = time.Minute

// makeDue makes available what is due by River's next look.
func (w *Worker) makeDue(ctx context.Context, pool *pgxpool.Pool) {
	before := w.Clock.Now().Add(2 * riverAhead)
	for _, queue := range Queues() {
		for full := true; full; {
			n, err := db.New(pool).MakeDueAvailable(ctx, db.MakeDueAvailableParams{Queue: queue, Before: before, Page: duePage})
			if err != nil {
				w.failed(ctx, "due jobs", fmt.Errorf("make the jobs of queue %s available: %w", queue, err))
				return
			}
			full = n == duePage
		}
	}
}

// bringForward makes due what was put off too far.
func (w *Worker) bringForward(ctx context.Context, pool *pgxpool.Pool) {
	const loop = "jobs put off too far"
	if err := w.Engine.ConfirmClock(ctx); err != nil {
		w.failed(ctx, loop, err)
		return
	}
	now := w.Clock.Now()
	for queue, far := range tooFar {
		for full := true; full; {
			n, err := db.New(pool).BringJobsForward(ctx, db.BringJobsForwardParams{Queue: queue, Now: now, After: now.Add(far), Page: duePage})
			if err != nil {
				w.failed(ctx, loop, fmt.Errorf("bring the jobs of queue %s forward: %w", queue, err))
				return
			}
			if n > 0 {
				w.Log.WarnContext(ctx, "jobs were put off by a process whose clock was ahead, and are done now", "queue", queue, "jobs", n)
			}
			full = n == duePage
		}
	}
}

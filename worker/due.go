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

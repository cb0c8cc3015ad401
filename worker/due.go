package worker

import (
	"context"
	"fmt"
	"time"

	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/a-seed-a7aed72f/holdfast/internal/db"
)

// River makes jobs whose time has come available with one statement each five seconds, up to ten thousand at once. Where PostgreSQL has planned it while there were
// few, it compares each of them with all others (to find unique jobs, of which there are none here): eight hundred took 0.4 s, ten thousand would take a minute.
// And each invoice leaves two such jobs. So they are made available before River comes to them.
const (
	// riverAhead is how long before it is due River makes a job available.
	riverAhead = 5 * time.Second
	dueEvery   = 250 * time.Millisecond
	duePage    = 1000
)

// makeDue makes available what is due by the next time that River looks.
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

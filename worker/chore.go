package worker

import (
	"cmp"
	"context"
	"time"
)

// Chore is work by the clock: what is due each day or hour, and what has grown old. Every worker calls it, so Do must
// find in the database what is left to do, and do nothing twice.
type Chore struct {
	Name  string
	Every time.Duration
	Limit time.Duration // of one turn; default 1 minute
	Do    func(ctx context.Context) error
}

// choreTimeout is how long one turn of a chore may take unless it says otherwise; the next turn does the rest.
const choreTimeout = time.Minute

// Turn gives a chore its turn, once.
func (w *Worker) Turn(ctx context.Context, c Chore) {
	ctx, cancel := context.WithTimeout(ctx, cmp.Or(c.Limit, choreTimeout))
	defer cancel()
	w.failed(ctx, c.Name, c.Do(ctx))
}

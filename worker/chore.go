package worker

import (
	"cmp"
	"context"
	"fmt"
	"runtime/debug"
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
	w.failed(ctx, c.Name, c.guarded(ctx))
}

// guarded turns a panic into a failure. A chore is due again soon after a restart: it would end this process, in which
// payments are served, again and again.
func (c Chore) guarded(ctx context.Context) (err error) {
	defer func() {
		if p := recover(); p != nil {
			err = fmt.Errorf("panic: %v\n%s", p, debug.Stack())
		}
	}()
	return c.Do(ctx)
}

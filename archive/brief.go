package archive

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"

	"github.com/a-seed-a7aed72f/holdfast/internal/db"
)

// Whoever waits for one of these locks has all payments wait behind it. So the wait is short, with all that is done under the lock less than
// PostgreSQL's deadlock_timeout (1 s): who waits for us the other way round is still waiting when we give up, and nobody's transaction is broken.
const (
	lockWait = 200 * time.Millisecond // for one lock
	lockHeld = 500 * time.Millisecond // for all of them, and what is done under them
	tries    = 10
	// vacuumWait is for locks behind which nobody waits. PostgreSQL breaks off its own vacuum for who has waited for a second.
	vacuumWait = 5 * time.Second
)

// ErrBusy is returned when a lock could not be had within all tries: somebody reads or writes for long, such as a backup. Nothing was done.
var ErrBusy = errors.New("the tables were in use all the time")

// briefly runs do in a transaction of db, or in a savepoint if db is a transaction, in which each statement gives up rather than have others wait
// for long. It pauses and tries again; then it returns ErrBusy.
func briefly(ctx context.Context, in interface {
	Begin(ctx context.Context) (pgx.Tx, error)
}, pause time.Duration, do func(q *db.Queries) error) error {
	for try := 1; ; try++ {
		err := pgx.BeginFunc(ctx, in, func(tx pgx.Tx) error {
			q := db.New(tx)
			if err := q.BoundLocks(ctx, db.BoundLocksParams{Lock: lockWait.Milliseconds(), Statement: lockHeld.Milliseconds()}); err != nil {
				return fmt.Errorf("bound the locks: %w", err)
			}
			return do(q)
		})
		if err = tooLong(ctx, err); !errors.Is(err, ErrBusy) || try == tries {
			return err
		}
		timer := time.NewTimer(pause)
		select {
		case <-ctx.Done():
			timer.Stop()
			return ctx.Err()
		case <-timer.C:
		}
	}
}

// tooLong is err, as ErrBusy if it says that something took longer than it may.
func tooLong(ctx context.Context, err error) error {
	var refused *pgconn.PgError
	if errors.As(err, &refused) && (refused.Code == "55P03" || refused.Code == "57014") && ctx.Err() == nil {
		return fmt.Errorf("%w: %w", ErrBusy, err)
	}
	return err
}

// apart waits, for somewhat longer, for locks behind which nobody else waits, and leaves that bound for what follows in the transaction.
func apart(ctx context.Context, q *db.Queries, lock func(context.Context) error) error {
	if err := q.BoundLocks(ctx, db.BoundLocksParams{Lock: vacuumWait.Milliseconds()}); err != nil {
		return fmt.Errorf("bound the locks: %w", err)
	}
	return tooLong(ctx, lock(ctx))
}

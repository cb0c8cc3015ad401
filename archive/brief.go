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

// While we wait for one of these locks, all payments wait behind us. So the wait is short: together with all that is
// done under the lock, it is shorter than PostgreSQL's deadlock_timeout (1 s). A transaction that we wait for may
// itself be waiting for us. It is still waiting when we give up, so PostgreSQL aborts nobody's transaction as a
// deadlock.
const (
	lockWait = 200 * time.Millisecond // for one lock
	lockHeld = 500 * time.Millisecond // for all locks together, and what is done under them
	tries    = 10
	// vacuumWait is for locks behind which nobody else waits. PostgreSQL ends its own vacuum if somebody has waited a
	// second for it.
	vacuumWait = 5 * time.Second
)

var (
	// ErrBusy is returned if a lock could not be had in any of the tries: somebody reads or writes for long, a backup for
	// example. Nothing was done.
	ErrBusy = errors.New("the tables were in use all the time")
	// ErrSlow is ErrBusy where the locks were had, or most of them, and then the time was up.
	ErrSlow = fmt.Errorf("%w, or there is more to do under their locks than payments may wait for", ErrBusy)
)

// briefly runs do in a transaction begun by in, or in a savepoint if in is itself a transaction. Each statement gives
// up rather than make others wait for long; briefly then pauses and tries again. After the last try it returns ErrBusy.
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

// tooLong returns err, as ErrBusy or ErrSlow if it says that something took longer than allowed.
func tooLong(ctx context.Context, err error) error {
	var refused *pgconn.PgError
	if errors.As(err, &refused) && ctx.Err() == nil {
		switch refused.Code {
		case "55P03": // lock_not_available
			return fmt.Errorf("%w: %w", ErrBusy, err)
		case "57014": // query_canceled
			return fmt.Errorf("%w: %w", ErrSlow, err)
		}
	}
	return err
}

// apart takes locks behind which nobody else waits, and so waits somewhat longer for them. That limit also holds for
// what follows in the transaction.
func apart(ctx context.Context, q *db.Queries, lock func(context.Context) error) error {
	if err := q.BoundLocks(ctx, db.BoundLocksParams{Lock: vacuumWait.Milliseconds()}); err != nil {
		return fmt.Errorf("bound the locks: %w", err)
	}
	return tooLong(ctx, lock(ctx))
}

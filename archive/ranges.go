// Package archive keeps the history and the postings in partitions by ranges of actions. It makes the partitions that
// will be needed, and moves old ones out of what is read and backed up every day. A range is moved only if reconcile
// finds nothing wrong in it. Begin with Run and MakeRanges.
package archive

import (
	"context"
	"fmt"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/a-seed-a7aed72f/holdfast/internal/db"
)

const (
	// RangeSize is how many actions share a partition: about 5 GB. Reading a history merges the ends of all partitions,
	// so there should be dozens rather than hundreds. The first range is made by migrations/0036_archive.up.sql.
	RangeSize = 10_000_000
	// ahead is how many ranges follow the one with the newest action: enough for more than five hours at a thousand
	// actions a second.
	ahead = 2
	// Pause is the pause between two tries to get the locks.
	Pause = time.Second
)

// MakeRanges makes the missing partitions, of size actions each, until two whole ranges follow the newest action. It
// returns how many ranges it made, also with an error: those stay. Any number of processes may call it at any time: one
// makes the ranges, and the others find nothing to do. While it locks out payments, they wait for at most half a
// second; it returns ErrBusy if that was never enough. Rows that were written before their partition existed are moved
// to it.
func MakeRanges(ctx context.Context, pool *pgxpool.Pool, size int64, pause time.Duration) (made int64, err error) {
	for {
		one, err := makeRange(ctx, pool, size, pause)
		if err != nil {
			return made, fmt.Errorf("make partitions: %w", err)
		}
		if !one {
			return made, nil
		}
		made++
	}
}

// makeRange makes the next missing range, in a transaction of its own: the locks of several would add up.
func makeRange(ctx context.Context, pool *pgxpool.Pool, size int64, pause time.Duration) (made bool, err error) {
	err = pgx.BeginFunc(ctx, pool, func(tx pgx.Tx) error {
		q := db.New(tx)
		mine, err := q.HoldActionRanges(ctx)
		if err != nil || !mine {
			return err
		}
		lacks, err := q.LacksActionRanges(ctx, db.LacksActionRangesParams{Size: size, Ahead: ahead})
		if err != nil || !lacks {
			return err
		}
		if err := apart(ctx, q, q.HoldBackVacuum); err != nil {
			return fmt.Errorf("hold back vacuum: %w", err)
		}
		return briefly(ctx, tx, pause, func(q *db.Queries) error {
			made, err = q.MakeActionRange(ctx, db.MakeActionRangeParams{Size: size, Ahead: ahead})
			return err
		})
	})
	return made && err == nil, err
}

package archive

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/a-seed-a7aed72f/holdfast/internal/db"
	"github.com/a-seed-a7aed72f/holdfast/internal/dbclock"
	"github.com/a-seed-a7aed72f/holdfast/internal/dbconn"
	"github.com/a-seed-a7aed72f/holdfast/reconcile"
)

// MinAge is how long actions must at least have been at rest: longer than one can be retried (an hour), and as long as
// reconcile compares what has ended with the nodes.
const MinAge = 24 * time.Hour

// patience is how long an answer is waited for. To look through a range, or to sum it up, takes longer than a request's
// statement may: PostgreSQL is told not to end it, and we are not to give it up either.
const patience = 6 * time.Hour

// Config says what is archived. Pool and OlderThan are required.
type Config struct {
	Pool      *pgxpool.Pool
	OlderThan time.Duration    // only ranges in which nothing has changed for so long; at least MinAge
	DryRun    bool             // look at everything, but change nothing
	Now       func() time.Time // default time.Now
	Pause     time.Duration    // between two tries to get the locks; default Pause

	// ConfirmClock says why Now is not to be believed that something has been at rest for so long. By default
	// PostgreSQL's clock has to agree with it (dbclock.ErrApart).
	ConfirmClock func(ctx context.Context) error
}

// Range is the actions from First to Last.
type Range struct {
	First int64 `json:"first_action"`
	Last  int64 `json:"last_action"`
}

// Tables returns the tables that hold the history and the postings of an archived range.
func (r Range) Tables() []string {
	return []string{fmt.Sprintf("archive.action_history_%d", r.First), fmt.Sprintf("archive.posting_%d", r.First)}
}

// Archived is a range that was archived, and how many rows it had. In a dry run it is one that would be archived; its
// rows are not counted.
type Archived struct {
	Range
	Steps    int64 `json:"steps"`
	Postings int64 `json:"postings"`
}

// Kept is a range that cannot be archived now, and why. All later ranges are kept with it.
type Kept struct {
	Range
	Why    string            `json:"why"`
	Breaks []reconcile.Break `json:"breaks,omitempty"` // what reconcile has found
}

// Result is what was done.
type Result struct {
	Archived []Archived `json:"archived"`
	Kept     *Kept      `json:"kept,omitempty"` // nil: there was no further range
}

// Errors besides ErrBusy.
var (
	// ErrTooYoung is returned if OlderThan is below MinAge.
	ErrTooYoung = fmt.Errorf("only what has been at rest for %s and longer is archived", MinAge)
	// ErrOther is returned if another process is making or archiving ranges.
	ErrOther = errors.New("another process makes partitions or archives")
)

// Run archives the oldest ranges, one after the other, until it comes to one that must be kept. A range is archived as
// a whole, in one transaction: its tables move to the schema archive, and the sums of its postings for each account,
// its losses, and the number up to which everything is archived are written. So balances are, at every moment, the sum
// of what is archived and what is posted. After a crash a range is either untouched or archived.
//
// A range is archived only if all its actions have ended, and have been at rest for OlderThan, by a clock that is
// confirmed; if nothing in it is still needed (an outgoing payment under way, unpaid rewards, messages of webhooks); and
// if reconcile finds nothing wrong with the books or with its actions. Payments go on meanwhile, and wait for at most
// half a second. If there is an error, the Result has what was archived before it.
func Run(ctx context.Context, c Config) (Result, error) {
	if c.OlderThan < MinAge {
		return Result{}, ErrTooYoung
	}
	if c.Now == nil {
		c.Now = time.Now
	}
	if c.ConfirmClock == nil {
		c.ConfirmClock = func(ctx context.Context) error { return dbclock.Confirm(ctx, c.Pool, c.Now) }
	}
	c.Pause = cmp.Or(c.Pause, Pause)
	ctx = dbconn.Within(ctx, patience)
	result := Result{Archived: []Archived{}}
	var after int64
	for {
		row, err := db.New(c.Pool).NextActionRange(ctx, after)
		if errors.Is(err, pgx.ErrNoRows) {
			return result, nil
		}
		if err != nil {
			return result, fmt.Errorf("find the oldest range: %w", err)
		}
		r := Range{First: row.FirstAction, Last: row.LastAction}
		if row.Grows {
			result.Kept = &Kept{Range: r, Why: "its last action is still to come"}
			return result, nil
		}
		archived, kept, err := c.one(ctx, r, len(result.Archived) == 0)
		if err != nil {
			return result, fmt.Errorf("archive the actions from %d to %d: %w", r.First, r.Last, err)
		}
		if result.Kept = kept; kept != nil {
			return result, nil
		}
		result.Archived = append(result.Archived, archived)
		after = r.First
	}
}

// one checks a range, and the books too if first, and then archives it. By a clock that is ahead, what has just changed
// would be archived, and a retry would write to what is gone: all later ranges would stay for good.
func (c Config) one(ctx context.Context, r Range, first bool) (done Archived, kept *Kept, err error) {
	if err := c.ConfirmClock(ctx); err != nil {
		return done, nil, err
	}
	err = pgx.BeginTxFunc(ctx, c.Pool, pgx.TxOptions{AccessMode: pgx.ReadOnly}, func(tx pgx.Tx) error {
		kept, err = c.keeps(ctx, db.New(tx), r)
		return err
	})
	if err != nil || kept != nil {
		return done, kept, err
	}
	if kept, err = c.broken(ctx, r, first); err != nil || kept != nil {
		return done, kept, err
	}
	if c.DryRun {
		return Archived{Range: r}, nil, nil
	}
	err = pgx.BeginFunc(ctx, c.Pool, func(tx pgx.Tx) error {
		done, kept, err = c.take(ctx, tx, r)
		return err
	})
	return done, kept, err
}

// keeps says what in a range is not at rest; nil if everything is. From here on, the transaction's statements may run
// for long, but not wait for locks for long.
func (c Config) keeps(ctx context.Context, q *db.Queries, r Range) (*Kept, error) {
	if err := q.BoundLocks(ctx, db.BoundLocksParams{Lock: lockWait.Milliseconds()}); err != nil {
		return nil, fmt.Errorf("bound the locks: %w", err)
	}
	now := c.Now().UTC()
	unrewarded, err := q.FirstUnrewardedDay(ctx, now)
	if err != nil {
		return nil, fmt.Errorf("find the first day without rewards: %w", err)
	}
	k, err := q.WhatKeepsActionRange(ctx, db.WhatKeepsActionRangeParams{FirstOne: r.First, LastOne: r.Last, Since: now.Add(-c.OlderThan), Unrewarded: unrewarded})
	if err != nil {
		return nil, fmt.Errorf("look what is not at rest: %w", err)
	}
	for _, reason := range []struct {
		action int64
		why    string
	}{
		{k.Open, "action %d is not at its end"},
		{k.Leaving, "the outgoing payment of action %d is not at its end"},
		{k.Young, fmt.Sprintf("action %%d has changed within %s", c.OlderThan)},
		{k.Pooled, "what action %d gave to the rewards is still to be paid out"},
		{k.Told, "there are messages of webhooks about action %d"},
		{k.Caught, "rows of action %d are outside of its partitions: run holdfast reconcile"},
	} {
		if reason.action != 0 {
			return &Kept{Range: r, Why: fmt.Sprintf(reason.why, reason.action)}, nil
		}
	}
	return nil, nil
}

// broken says what reconcile finds wrong; nil if nothing is.
func (c Config) broken(ctx context.Context, r Range, books bool) (*Kept, error) {
	compared := reconcile.Config{Pool: c.Pool, Now: c.Now}
	var breaks []reconcile.Break
	if books {
		found, err := reconcile.Books(ctx, compared)
		if err != nil {
			return nil, fmt.Errorf("reconcile the books: %w", err)
		}
		breaks = found
	}
	found, err := reconcile.Range(ctx, compared, r.First, r.Last)
	if err != nil {
		return nil, fmt.Errorf("reconcile the range: %w", err)
	}
	if breaks = append(breaks, found...); len(breaks) == 0 {
		return nil, nil
	}
	return &Kept{Range: r, Why: "reconcile finds something broken: " + breaks[0].What, Breaks: breaks}, nil
}

// take archives a range inside tx, unless something in it has moved since it was checked. The slow part, the sums, is
// done under a lock that only holds back writes to this range, and nobody writes to it. Payments wait only for the very
// end.
func (c Config) take(ctx context.Context, tx pgx.Tx, r Range) (Archived, *Kept, error) {
	q := db.New(tx)
	switch mine, err := q.HoldActionRanges(ctx); {
	case err != nil:
		return Archived{}, nil, err
	case !mine:
		return Archived{}, nil, ErrOther
	}
	if err := apart(ctx, q, q.HoldBackVacuum); err != nil {
		return Archived{}, nil, fmt.Errorf("hold back vacuum: %w", err)
	}
	if next, err := q.NextActionRange(ctx, 0); err != nil || next.FirstAction != r.First {
		return Archived{}, nil, errors.Join(ErrOther, err)
	}
	if err := apart(ctx, q, func(ctx context.Context) error { return q.FreezeActionRange(ctx, r.First) }); err != nil {
		return Archived{}, nil, fmt.Errorf("hold back writes to the range: %w", err)
	}
	if kept, err := c.keeps(ctx, q, r); err != nil || kept != nil {
		return Archived{}, kept, err
	}
	if err := q.ArchiveBalances(ctx, db.ArchiveBalancesParams{FirstOne: r.First, LastOne: r.Last}); err != nil {
		return Archived{}, nil, fmt.Errorf("sum up the postings: %w", err)
	}
	if err := q.ArchiveLosses(ctx, db.ArchiveLossesParams{FirstOne: r.First, LastOne: r.Last}); err != nil {
		return Archived{}, nil, fmt.Errorf("keep the losses: %w", err)
	}
	rows, err := q.ArchiveActionRange(ctx, db.ArchiveActionRangeParams{FirstOne: r.First, LastOne: r.Last, At: c.Now()})
	if err != nil {
		return Archived{}, nil, fmt.Errorf("mark the range: %w", err)
	}
	err = briefly(ctx, tx, c.Pause, func(q *db.Queries) error { return q.DetachActionRange(ctx, r.First) })
	if err != nil {
		return Archived{}, nil, fmt.Errorf("detach the partitions: %w", err)
	}
	return Archived{Range: r, Steps: rows.Steps, Postings: rows.Postings}, nil, nil
}

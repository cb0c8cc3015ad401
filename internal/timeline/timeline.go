// Package timeline notices that the database goes on from another history than before: it was restored, or a copy took
// over. What was committed last may be missing, and the world knows of it: payments that were made, secrets that were
// given. So numbers are skipped before any is given, and the process is told to begin nothing new until an operator has
// accepted that history. Begin with Watch.
package timeline

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"strings"
	"sync/atomic"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/a-seed-a7aed72f/holdfast/internal/db"
	"github.com/a-seed-a7aed72f/holdfast/internal/dbclock"
)

// numbers is how many numbers of each sequence are skipped: more than can have been given since what was restored.
const numbers = 1_000_000

// Watch is what a process knows of the history that its database writes. It is safe for concurrent use.
type Watch struct {
	// FailsOver accepts a history by itself if only the timeline is another: where a copy can take over only if it has
	// all that was committed.
	FailsOver bool
	Log       *slog.Logger
	Now       func() time.Time // this process's clock, which may be wrong; nil: time.Now

	doubted atomic.Pointer[doubt] // the latest; nil: none
	blind   atomic.Bool           // it was said that the server does not tell
}

// doubt is about a history that no operator had accepted.
type doubt struct {
	name  string
	since time.Time // by the clock of this process
	at    time.Time // a moment before, by PostgreSQL's
	over  bool      // it was accepted since
}

// Database is a connection, or a pool.
type Database interface {
	db.DBTX
	BeginTx(ctx context.Context, options pgx.TxOptions) (pgx.Tx, error)
}

// Doubted reports whether this process has met a history that no operator has accepted, and when. since stays once it is
// accepted.
func (w *Watch) Doubted() (since time.Time, doubted bool) {
	d := w.doubted.Load()
	if d == nil {
		return time.Time{}, false
	}
	return d.since, !d.over
}

// follows marks a connection to a copy that only follows.
const follows = "holdfast follows"

// Guard has each connection of a pool looked at before its first use, and so before anything that could be done there: no
// connection outlives the server that it leads to. One to a copy that only follows is looked at before every use, since it
// lasts when that copy is promoted. A pooler keeps ours, too: so somebody has to Look now and then.
func (w *Watch) Guard(settings *pgxpool.Config) {
	then := settings.AfterConnect
	settings.AfterConnect = func(ctx context.Context, conn *pgx.Conn) error {
		if err := w.arrive(ctx, conn); err != nil || then == nil {
			return err
		}
		return then(ctx, conn)
	}
	settings.PrepareConn = func(ctx context.Context, conn *pgx.Conn) (bool, error) {
		if _, ok := conn.PgConn().CustomData()[follows]; !ok {
			return true, nil
		}
		err := w.arrive(ctx, conn)
		return err == nil, err
	}
}

func (w *Watch) arrive(ctx context.Context, conn *pgx.Conn) error {
	writes, err := w.look(ctx, conn)
	delete(conn.PgConn().CustomData(), follows)
	if err == nil && !writes {
		conn.PgConn().CustomData()[follows] = true
	}
	return err
}

// Look asks which history the database writes. One that was never met is noted, once its numbers are skipped. A server
// that cannot tell is not doubted.
func (w *Watch) Look(ctx context.Context, on Database) error {
	_, err := w.look(ctx, on)
	return err
}

// look is Look; writes is false on a copy that only follows.
func (w *Watch) look(ctx context.Context, on Database) (writes bool, err error) {
	here, err := db.New(on).ServerTimeline(ctx)
	var refused *pgconn.PgError
	switch {
	case errors.As(err, &refused) && mute(refused.Code):
		if !w.blind.Swap(true) {
			w.Log.WarnContext(ctx, "the database does not say whether it was restored, or another has taken over: read docs/production.md before either", "error", err)
		}
		return true, nil
	case err != nil:
		return false, fmt.Errorf("ask which timeline the database is on: %w", err)
	case here.Name == "":
		return false, nil
	case !here.Met:
		if here, err = w.meet(ctx, on); err != nil {
			return false, fmt.Errorf("note the timeline %s: %w", here.Name, err)
		}
	}
	if err := w.heard(ctx, on, here); err != nil {
		return false, fmt.Errorf("note since when the timeline %s is doubted: %w", here.Name, err)
	}
	return true, nil
}

// mute reports whether an error says that this server has no such function or table, or does not let us ask. A schema
// that lacks them is refused elsewhere.
func mute(code string) bool {
	switch code {
	case "42883", "42P01", "42501", "0A000": // undefined_function, undefined_table, insufficient_privilege, feature_not_supported
		return true
	}
	return false
}

// meet notes the history, unless another process was faster. The first of all is accepted.
func (w *Watch) meet(ctx context.Context, on Database) (here db.ServerTimelineRow, err error) {
	err = pgx.BeginTxFunc(ctx, on, pgx.TxOptions{IsoLevel: pgx.ReadCommitted}, func(tx pgx.Tx) error {
		q := db.New(tx)
		if err := q.LockTimelines(ctx); err != nil {
			return err
		}
		if here, err = q.ServerTimeline(ctx); err != nil || here.Met {
			return err
		}
		known, err := q.Timelines(ctx)
		if err != nil {
			return err
		}
		now, err := dbclock.Now(ctx, tx)
		if err != nil {
			return err
		}
		accept := len(known) == 0
		if n := len(known); n > 0 {
			last := known[n-1]
			accept = w.FailsOver && last.AcceptedAt != nil && database(last.Name) == database(here.Name)
			if err := q.SkipNumbers(ctx, numbers); err != nil {
				return err
			}
		}
		here.Met = true
		if accept {
			here.AcceptedAt = &now
		}
		return q.MeetTimeline(ctx, db.MeetTimelineParams{At: now, Accept: accept})
	})
	return here, err
}

// database is the part of a history's name that a fail-over leaves as it is.
func database(name string) string { return name[:strings.LastIndex(name, "/")+1] }

func (w *Watch) now() time.Time {
	if w.Now == nil {
		return time.Now()
	}
	return w.Now()
}

// heard takes note of what the database said. A doubt ends only once that very history is accepted, or another one was
// since, by PostgreSQL's clock: one that took its place before anybody had accepted it. During a fail-over an old
// connection may still lead to the server of before, whose history was accepted earlier.
func (w *Watch) heard(ctx context.Context, on Database, here db.ServerTimelineRow) error {
	before, accepted := w.doubted.Load(), here.AcceptedAt != nil
	switch {
	case !accepted && (before == nil || before.over || before.name != here.Name):
		at, err := dbclock.Now(ctx, on)
		if err != nil {
			return err
		}
		w.doubted.Store(&doubt{name: here.Name, since: w.now(), at: at})
		w.Log.ErrorContext(ctx, "the database was restored, or another has taken over: nothing new is begun until somebody has reconciled, and run holdfast timeline accept (docs/production.md)", "timeline", here.Name)
	case accepted && before != nil && !before.over && (before.name == here.Name || here.AcceptedAt.After(before.at)) &&
		w.doubted.CompareAndSwap(before, &doubt{before.name, before.since, before.at, true}):
		w.Log.InfoContext(ctx, "the timeline of the database was accepted: everything goes on", "timeline", here.Name)
	}
	return nil
}

// Known is a history from which the service went on.
type Known struct {
	Name     string     `json:"name"` // cluster, database and timeline
	Here     bool       `json:"here"` // the database writes it now
	Met      time.Time  `json:"met_at"`
	Accepted *time.Time `json:"accepted_at"` // null: nothing new is begun on it
}

// List returns all histories, in the order in which they were met.
func List(ctx context.Context, on Database) ([]Known, error) {
	q := db.New(on)
	here, err := q.ServerTimeline(ctx)
	if err != nil {
		return nil, fmt.Errorf("ask which timeline the database is on: %w", err)
	}
	rows, err := q.Timelines(ctx)
	if err != nil {
		return nil, fmt.Errorf("list timelines: %w", err)
	}
	list := make([]Known, len(rows))
	for i, row := range rows {
		list[i] = Known{Name: row.Name, Here: row.Name == here.Name, Met: row.MetAt, Accepted: row.AcceptedAt}
	}
	return list, nil
}

// Accept lets what is new be begun on the history that the database writes now. That it was ends the doubts of processes
// that have met another one (heard), so its moment is told by PostgreSQL's clock, not by that of the machine where an
// operator types.
func Accept(ctx context.Context, on Database) error {
	now, err := dbclock.Now(ctx, on)
	if err != nil {
		return err
	}
	if err := db.New(on).AcceptTimeline(ctx, now); err != nil {
		return fmt.Errorf("accept the timeline: %w", err)
	}
	return nil
}

// Doubt skips numbers, and has nothing new begun until the history is accepted again. It is for a restore that the
// server does not show, such as of its files, without recovery.
func Doubt(ctx context.Context, on Database) error {
	return pgx.BeginTxFunc(ctx, on, pgx.TxOptions{IsoLevel: pgx.ReadCommitted}, func(tx pgx.Tx) error {
		q := db.New(tx)
		if err := q.LockTimelines(ctx); err != nil {
			return err
		}
		if err := q.SkipNumbers(ctx, numbers); err != nil {
			return fmt.Errorf("skip numbers: %w", err)
		}
		if err := q.DoubtTimeline(ctx); err != nil {
			return fmt.Errorf("doubt the timeline: %w", err)
		}
		return nil
	})
}

package dbclock_test

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/a-seed-a7aed72f/holdfast/internal/db"
	"github.com/a-seed-a7aed72f/holdfast/internal/dbclock"
)

// server is a PostgreSQL with a clock of its own, which it may read late, and tell of late.
type server struct {
	db.DBTX
	ahead      time.Duration // of this machine's clock; below zero: behind it
	read, told time.Duration // after how long
	err        error
}

type row struct {
	now time.Time
	err error
}

func (s server) QueryRow(context.Context, string, ...any) pgx.Row {
	<-time.After(s.read)
	now := time.Now().Add(s.ahead)
	<-time.After(s.told)
	return row{now, s.err}
}

func (r row) Scan(to ...any) error {
	*to[0].(*time.Time) = r.now
	return r.err
}

// A clock is believed if PostgreSQL's is at most Apart ahead of it or behind. For how long the answer was on its way says
// nothing of either.
func TestClocksAgreeOrAreApart(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		server
		want error
	}{
		"the same":                     {server{}, nil},
		"just not too far ahead":       {server{ahead: dbclock.Apart}, nil},
		"too far ahead":                {server{ahead: dbclock.Apart + 1}, dbclock.ErrApart},
		"just not too far behind":      {server{ahead: -dbclock.Apart}, nil},
		"too far behind":               {server{ahead: -dbclock.Apart - 1}, dbclock.ErrApart},
		"told of late":                 {server{told: time.Hour}, nil},
		"read late":                    {server{read: time.Hour}, nil},
		"too far ahead, and read late": {server{ahead: dbclock.Apart + 1, read: time.Hour}, dbclock.ErrApart},
		"too far behind, told of late": {server{ahead: -dbclock.Apart - 1, told: time.Hour}, dbclock.ErrApart},
	} {
		synctest.Test(t, func(t *testing.T) {
			if err := dbclock.Confirm(t.Context(), c.server, time.Now); !errors.Is(err, c.want) {
				t.Errorf("%s: %v, want %v", name, err, c.want)
			}
		})
	}
}

// Where PostgreSQL does not say what time it is, no clock is confirmed.
func TestWithoutAnAnswerNoClockIsConfirmed(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		away := errors.New("away")
		if err := dbclock.Confirm(t.Context(), server{err: away}, time.Now); !errors.Is(err, away) {
			t.Error(err)
		}
	})
}

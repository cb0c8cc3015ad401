package db_test

import (
	"context"
	"crypto/rand"
	"errors"
	"testing"

	"github.com/jackc/pgx/v5/pgconn"

	"github.com/a-seed-a7aed72f/holdfast/internal/db"
)

// spec 01 §1.3: a transaction that the database broke is run again, each time counted, but not for ever; a lost race, a
// refusal or a fault of the action's own code is none, and is run once.
func TestConflictsAloneAreRepeated(t *testing.T) {
	t.Parallel()
	deadlock, serialisation := &pgconn.PgError{Code: "40P01"}, &pgconn.PgError{Code: "40001"}
	fault := errors.New("the action's own code")
	for name, c := range map[string]struct {
		errs   []error // of the runs; the last stands for all after it
		want   error
		runs   int
		counts int
	}{
		"at once":                     {[]error{nil}, nil, 1, 0},
		"after two conflicts":         {[]error{deadlock, serialisation, nil}, nil, 3, 2},
		"a fault":                     {[]error{fault}, fault, 1, 0},
		"a fault after a conflict":    {[]error{deadlock, fault}, fault, 2, 1},
		"a unique key":                {[]error{&pgconn.PgError{Code: "23505"}}, nil, 1, 0},
		"conflicts that do not cease": {[]error{deadlock}, deadlock, 9, 9},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			runs, counts := 0, 0
			err := db.Repeat(t.Context(), rand.Reader, func(string) { counts++ }, func() error {
				if runs++; runs > 20 {
					return nil
				}
				return c.errs[min(runs, len(c.errs))-1]
			})
			if runs != c.runs || counts != c.counts || (c.want != nil && !errors.Is(err, c.want)) || (c.errs[len(c.errs)-1] == nil) != (err == nil) {
				t.Errorf("%d runs, %d conflicts, %v", runs, counts, err)
			}
		})
	}
}

// Nobody waits for another run on behalf of a caller who is gone.
func TestNothingIsRepeatedForACallerWhoIsGone(t *testing.T) {
	t.Parallel()
	ctx, cancel := context.WithCancel(t.Context())
	runs := 0
	err := db.Repeat(ctx, rand.Reader, nil, func() error { runs++; cancel(); return &pgconn.PgError{Code: "40P01"} })
	if runs != 1 || !errors.Is(err, context.Canceled) {
		t.Errorf("%d runs, %v", runs, err)
	}
}

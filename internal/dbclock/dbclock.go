// Package dbclock asks PostgreSQL for its clock, which all processes share. By it is told what others compare with their
// own moments, wherever it is said, and nothing is done for good by a clock that differs from it.
package dbclock

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/a-seed-a7aed72f/holdfast/internal/db"
)

// Apart is how far a machine's clock may differ from PostgreSQL's for what is due to be done. It is less than the wait,
// after the end of a day, before its rewards are paid: until then another process may still book payments on that day.
const Apart = time.Minute

// ErrApart says that a clock is not to be believed.
var ErrApart = errors.New("nothing is done here that is due by the clock until they agree")

// Now is the present moment by PostgreSQL's clock.
func Now(ctx context.Context, on db.DBTX) (now time.Time, err error) {
	if err := on.QueryRow(ctx, "SELECT clock_timestamp()").Scan(&now); err != nil {
		return now, fmt.Errorf("ask PostgreSQL for its clock: %w", err)
	}
	return now, nil
}

// Confirm is nil if PostgreSQL's clock roughly agrees with this machine's, and ErrApart if it does not.
func Confirm(ctx context.Context, on db.DBTX, clock func() time.Time) error {
	begun := clock()
	theirs, err := Now(ctx, on)
	if err != nil {
		return err
	}
	if now := clock(); theirs.Before(begun.Add(-Apart)) || theirs.After(now.Add(Apart)) {
		return fmt.Errorf("this machine's clock and PostgreSQL's are %v apart: %w", now.Sub(theirs).Round(time.Second).Abs(), ErrApart)
	}
	return nil
}

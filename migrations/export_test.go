package migrations

import (
	"context"
	"errors"
	"time"
)

// OpenWithin takes the lock of migrations, for which it waits so long, and gives it back.
func OpenWithin(ctx context.Context, dsn string, wait time.Duration) error {
	m, err := open(ctx, dsn, wait)
	if err != nil {
		return err
	}
	return errors.Join(m.Close())
}

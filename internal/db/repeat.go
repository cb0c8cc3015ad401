package db

import (
	"context"
	"encoding/binary"
	"fmt"
	"io"
	"time"
)

// maxConflicts is how often a transaction is run again after the database aborted it to resolve a conflict.
const maxConflicts = 8

// Repeat runs do, which is one transaction. If PostgreSQL aborts it to resolve a conflict, Repeat runs all of it again
// after a pause with jitter, a bounded number of times (spec 01 §1.3). So do must keep nothing from a run that failed.
// conflict, if it is not nil, is told of each conflict.
func Repeat(ctx context.Context, random io.Reader, conflict func(code string), do func() error) error {
	for conflicts := 0; ; conflicts++ {
		err := do()
		code := Conflict(err)
		if code == "" {
			return err
		}
		if conflict != nil {
			conflict(code)
		}
		if conflicts == maxConflicts {
			return fmt.Errorf("gave up after %d conflicts: %w", conflicts, err)
		}
		if err := pause(ctx, random, conflicts); err != nil {
			return err
		}
	}
}

// pause waits a few milliseconds, longer after each conflict, and differently in each process.
func pause(ctx context.Context, random io.Reader, conflicts int) error {
	var b [2]byte
	if _, err := io.ReadFull(random, b[:]); err != nil {
		return fmt.Errorf("read randomness: %w", err)
	}
	jitter := time.Duration(binary.BigEndian.Uint16(b[:])) * time.Millisecond / 65536
	timer := time.NewTimer(jitter * time.Duration(uint(1)<<min(conflicts, 5)))
	defer timer.Stop()
	select {
	case <-ctx.Done():
		return ctx.Err()
	case <-timer.C:
		return nil
	}
}

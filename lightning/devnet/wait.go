package devnet

import (
	"context"
	"fmt"
	"time"
)

// until calls done again and again until it returns true. An error of done describes the present state and ends
// nothing: starting servers refuse connections at first. When the patience is over, or the context ends, the error says
// what was missing and what done returned last.
func until(ctx context.Context, patience time.Duration, missing string, done func(context.Context) (bool, error)) error {
	ctx, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	again := time.NewTicker(25 * time.Millisecond)
	defer again.Stop()
	var last error
	for {
		ok, err := done(ctx)
		if ok && err == nil {
			return nil
		}
		if err != nil && ctx.Err() == nil {
			last = err
		}
		select {
		case <-ctx.Done():
			err := fmt.Errorf("waited for %s: %w", missing, context.Cause(ctx))
			if last != nil {
				err = fmt.Errorf("%w (last answer: %w)", err, last)
			}
			return err
		case <-again.C:
		}
	}
}

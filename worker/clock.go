package worker

import (
	"context"
	"math/rand/v2"
	"time"
)

// Clock is the time for the loops of this package. Decisions about actions use the engine's clock.
type Clock interface {
	Now() time.Time
	// Wait returns nil after d, or earlier with the context's error.
	Wait(ctx context.Context, d time.Duration) error
	// Jitter shortens d at random, by at most a quarter, so that processes started together do not act together.
	Jitter(d time.Duration) time.Duration
}

// RealClock is the machine's clock.
type RealClock struct{}

// Now implements Clock.
func (RealClock) Now() time.Time { return time.Now() }

// Wait implements Clock.
func (RealClock) Wait(ctx context.Context, d time.Duration) error {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-ctx.Done():
		return ctx.Err()
	case <-timer.C:
		return nil
	}
}

// Jitter implements Clock.
func (RealClock) Jitter(d time.Duration) time.Duration {
	return d - time.Duration(rand.Float64()*float64(d)/4)
}

// The limits of a pause between two tries.
const (
	minPause = 50 * time.Millisecond
	maxPause = 5 * time.Second
)

// pause is how long to wait after so many failures in a row: twice as long each time, from minPause to maxPause.
func pause(failures int) time.Duration {
	return min(minPause<<min(max(failures, 0), 16), maxPause)
}

// retry calls do until it succeeds or ctx ends, and reports every failure.
func retry(ctx context.Context, clock Clock, failed func(error), do func(context.Context) error) error {
	for failures := 0; ; failures++ {
		err := do(ctx)
		if err == nil || ctx.Err() != nil {
			return ctx.Err()
		}
		failed(err)
		if err := clock.Wait(ctx, clock.Jitter(pause(failures))); err != nil {
			return err
		}
	}
}

// every calls do now and then after each interval, until ctx ends. do reports its own failures: they do not end the
// loop.
func every(ctx context.Context, clock Clock, interval time.Duration, do func(context.Context)) error {
	for {
		do(ctx)
		if err := clock.Wait(ctx, clock.Jitter(interval)); err != nil {
			return err
		}
	}
}

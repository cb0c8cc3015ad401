package worker

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"
	"time"
)

// What failed is done again until it succeeds, however often: an event or a height that was given up would be lost.
func TestWhatFailsIsDoneAgain(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		begun, calls, told := time.Now(), 0, 0
		const failures = 100
		err := retry(t.Context(), RealClock{}, func(error) { told++ }, func(context.Context) error {
			if calls++; calls <= failures {
				return errors.New("no")
			}
			return nil
		})
		if err != nil || calls != failures+1 || told != failures {
			t.Errorf("%v after %d calls, told of %d failures", err, calls, told)
		}
		if took := time.Since(begun); took > failures*maxPause {
			t.Errorf("it took %v", took)
		}
	})
}

// Work goes on until its context ends, and no longer: while it waits for the next turn, and between two tries.
func TestWorkEndsWithItsContext(t *testing.T) {
	t.Parallel()
	for name, loop := range map[string]func(context.Context, func()) error{
		"a loop": func(ctx context.Context, do func()) error {
			return every(ctx, RealClock{}, time.Hour, func(context.Context) { do() })
		},
		"a retry": func(ctx context.Context, do func()) error {
			return retry(ctx, RealClock{}, func(error) {}, func(context.Context) error { do(); return errors.New("no") })
		},
	} {
		synctest.Test(t, func(t *testing.T) {
			ctx, stop := context.WithCancel(t.Context())
			calls := 0
			over := make(chan error, 1)
			go func() { over <- loop(ctx, func() { calls++ }) }()
			<-time.After(100 * time.Hour)
			synctest.Wait()
			before := time.Now()
			if calls < 100 {
				t.Errorf("%s: %d calls", name, calls)
			}
			stop()
			if err := <-over; !errors.Is(err, context.Canceled) || !time.Now().Equal(before) {
				t.Errorf("%s: %v, %v later", name, err, time.Since(before))
			}
		})
	}
}

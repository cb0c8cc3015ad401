package lock_test

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/a-seed-a7aed72f/holdfast/lock"
	"github.com/a-seed-a7aed72f/holdfast/lock/locktest"
)

// TestACallersDeadlineIsALongestWait: who has less time left than the longest wait has waited for too long when that is
// over, first in the line of their process or not. Who does not want to wait any more has not.
func TestACallersDeadlineIsALongestWait(t *testing.T) {
	t.Parallel()
	errEnough := errors.New("enough")
	for name, c := range map[string]struct {
		end     func(context.Context) (context.Context, context.CancelFunc)
		late    bool
		because error
	}{
		"a deadline": {func(ctx context.Context) (context.Context, context.CancelFunc) {
			return context.WithTimeout(ctx, time.Second)
		}, true, context.DeadlineExceeded},
		"a deadline with a cause": {func(ctx context.Context) (context.Context, context.CancelFunc) {
			return context.WithTimeoutCause(ctx, time.Second, errEnough)
		}, true, errEnough},
		"no more interest": {func(ctx context.Context) (context.Context, context.CancelFunc) {
			ctx, cancel := context.WithCancelCause(ctx)
			time.AfterFunc(time.Second, func() { cancel(errEnough) })
			return ctx, func() { cancel(nil) }
		}, false, errEnough},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				registry := prometheus.NewRegistry()
				l := openedWith(t, lock.Queued, nil, lock.Settings{Metrics: lock.NewMetrics(registry)})
				unsure := l.Queue("behind") // it keeps the next one in the line of this process
				defer unsure.Leave()
				for n, key := range []string{"first", "behind"} {
					ctx, cancel := c.end(t.Context())
					_, err := l.Acquire(ctx, key, lock.Options{})
					cancel()
					if errors.Is(err, lock.ErrTimeout) != c.late || !errors.Is(err, c.because) {
						t.Errorf("%s: %v", key, err)
					}
					status := map[bool]string{true: "timeout", false: "cancelled"}[c.late]
					if counted := locktest.Metric(t, registry, "holdfast_lock_acquisitions_total", status); counted != float64(n+1) {
						t.Errorf("%s: %v are counted as %s", key, counted, status)
					}
					if counted := locktest.Metric(t, registry, "holdfast_lock_timeouts_total"); (counted == float64(n+1)) != c.late {
						t.Errorf("%s: %v have waited for too long", key, counted)
					}
				}
			})
		})
	}
}

package lock

import (
	"context"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/prometheus/client_golang/prometheus"
)

// hasty is a count of leases in which the end of one comes before its beginning.
type hasty struct {
	prometheus.Gauge
	ended chan struct{}
}

func (g hasty) Inc() { <-g.ended; g.Gauge.Inc() }
func (g hasty) Dec() { g.Gauge.Dec(); close(g.ended) }

// counting counts how often it is asked to touch leases.
type counting struct {
	*Memory
	asked atomic.Int64
}

func (s *counting) Touch(ctx context.Context, all []Touch) (map[string]time.Duration, error) {
	s.asked.Add(1)
	return s.Memory.Touch(ctx, all)
}

// TestALeaseThatIsOverAtBirthIsNotKept: a lease may be over before the keeper knows of it, since the store's answer was
// late or the process stood still. Nobody would take it away again, and its touch would be due for ever.
func TestALeaseThatIsOverAtBirthIsNotKept(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		store := &counting{Memory: NewMemory(0)}
		l, err := New(store, Settings{})
		if err != nil {
			t.Fatal(err)
		}
		defer func() {
			if err := l.Close(); err != nil {
				t.Error(err)
			}
		}()
		l.metrics.active = hasty{l.metrics.active, make(chan struct{})}
		now := time.Now()
		lease := newLease(t.Context(), l, Ticket{Key: "k", ID: "late", Process: l.process.ID}, l.settings.Options,
			news{fence: 1, since: now, until: now})
		if lease.Err() == nil {
			t.Fatal("it is not over")
		}
		if kept := l.keeper.all(); len(kept) != 0 {
			t.Fatalf("%d leases are kept", len(kept))
		}
		<-time.After(time.Hour)
		if n := store.asked.Load(); n != 0 {
			t.Errorf("the store was asked %d times to touch it", n)
		}
	})
}

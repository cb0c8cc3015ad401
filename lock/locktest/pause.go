package locktest

import (
	"context"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/a-seed-a7aed72f/holdfast/lock"
)

// breathless is a store that no heartbeat reaches.
type breathless struct{ lock.Store }

func (breathless) Beat(ctx context.Context, _ lock.Process, _ time.Duration) error {
	<-ctx.Done()
	return ctx.Err()
}

// KeepsPlaces fails the test if those who wait in a process lose their places because its heartbeats are late, as they
// are after a pause of the store, though the lock is handed over by that very process. dead says that it counts as dead.
func KeepsPlaces(t *testing.T, s Strategy, dead func() bool) {
	t.Helper()
	plain := s.Open
	s.Open = func() (lock.Store, error) {
		store, err := plain()
		return breathless{store}, err
	}
	registry := prometheus.NewRegistry()
	l := Open(t, s, lock.Settings{Heartbeat: 50 * time.Millisecond, Patience: Patience, Metrics: lock.NewMetrics(registry)})
	held := Acquire(t, l, "k", lock.Options{})
	const n = 10
	var waiting []<-chan Result
	for i := range n {
		waiting = append(waiting, Go(t.Context(), l, "k", lock.Options{}))
		Queued(t, s, "k", i+1)
	}
	Eventually(t, "its process counts as dead", dead)
	_, err := l.Acquire(t.Context(), "k", lock.Options{MaxQueue: n, MaxWait: time.Second})
	mustBe(t, "one more, for whom there is no place", err, lock.ErrQueueFull)
	fence := held.Fence()
	Release(t, held)
	if lost := Metric(t, registry, "holdfast_lock_dead_waiters_removed_total"); lost != 0 {
		t.Fatalf("%v lost their places", lost)
	}
	for i, w := range waiting {
		lease := got(t, "the lock", w)
		if lease.Fence() <= fence {
			t.Errorf("place %d has fence %d after %d", i, lease.Fence(), fence)
		}
		fence = lease.Fence()
		lease.Drop()
	}
}

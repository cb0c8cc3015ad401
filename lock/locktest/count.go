package locktest

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/a-seed-a7aed72f/holdfast/lock"
)

// Metric is the sum of a metric's values, over all labels or only where a label has this value.
func Metric(t testing.TB, registry *prometheus.Registry, name string, label ...string) (sum float64) {
	t.Helper()
	families, err := registry.Gather()
	if err != nil {
		t.Fatal(err)
	}
	for _, f := range families {
		if f.GetName() != name {
			continue
		}
		for _, m := range f.GetMetric() {
			if len(label) > 0 && (len(m.GetLabel()) == 0 || m.GetLabel()[0].GetValue() != label[0]) {
				continue
			}
			sum += m.GetCounter().GetValue() + m.GetGauge().GetValue() + float64(m.GetHistogram().GetSampleCount())
		}
	}
	return sum
}

// counted: who holds and who waits is shown, and every acquisition is counted by how it ended (spec 04 §4.1).
func counted(t *testing.T, s *suite) {
	registry := prometheus.NewRegistry()
	settings := Patient
	settings.Metrics = lock.NewMetrics(registry)
	l := s.open(t, settings)
	want := func(want float64, name string, label ...string) {
		t.Helper()
		if got := Metric(t, registry, "holdfast_lock_"+name, label...); got != want {
			t.Errorf("%s%v is %v, want %v", name, label, got, want)
		}
	}

	held := Acquire(t, l, s.key, lock.Options{})
	next := Go(t.Context(), l, s.key, lock.Options{})
	Queued(t, s.Strategy, s.key, 1)
	want(1, "active")
	want(1, "waiting")
	want(0, "hold_seconds")
	_, busy := l.TryAcquire(t.Context(), s.key, lock.Options{})
	_, full := l.Acquire(t.Context(), s.key, lock.Options{MaxQueue: 1})
	_, late := l.Acquire(t.Context(), s.key, lock.Options{MaxWait: 50 * time.Millisecond})
	mustBe(t, "TryAcquire", busy, lock.ErrBusy)
	mustBe(t, "a full queue", full, lock.ErrQueueFull)
	mustBe(t, "the longest wait", late, lock.ErrTimeout)
	Release(t, held)
	Release(t, got(t, "the lock", next))
	want(0, "active")
	want(0, "waiting")
	want(2, "wait_seconds")
	want(2, "hold_seconds")
	want(2, "acquisitions_total", "acquired")
	want(1, "acquisitions_total", "busy")
	want(1, "acquisitions_total", "full")
	want(1, "acquisitions_total", "timeout")
	want(1, "timeouts_total")
	want(0, "dead_waiters_removed_total")
	if s.Child != nil {
		s.deadAreCounted(t, l, registry)
	}
	s.nothingLeft(t)
}

// deadAreCounted: so is who waited in a process that is no more. A waiter that is not known to be dead when its turn
// comes gets the lock, and another one is tried.
func (s *suite) deadAreCounted(t *testing.T, l *lock.Locker, registry *prometheus.Registry) {
	t.Helper()
	store, err := s.Open()
	if err != nil {
		t.Fatal(err)
	}
	defer store.Close()
	const removed = "holdfast_lock_dead_waiters_removed_total"
	for try := 0; try < 20 && Metric(t, registry, removed) == 0; try++ {
		key := strings.ToLower(fmt.Sprint(s.key, try))
		held := Acquire(t, l, key, lock.Options{})
		dead := lock.Ticket{Key: key, ID: fmt.Sprint("dead ", try), Process: fmt.Sprint(key, " dead")}
		if _, err := store.Enter(t.Context(), lock.Entry{Ticket: dead, Name: "dead", Live: time.Millisecond, TTL: 50 * time.Millisecond,
			MaxHold: time.Minute, MaxQueue: 10, Wait: true}); err != nil {
			t.Fatal(err)
		}
		next := Go(t.Context(), l, key, lock.Options{})
		Queued(t, s.Strategy, key, 2)
		Release(t, held)
		Release(t, got(t, "the lock after a dead waiter", next))
	}
	if n := Metric(t, registry, removed); n != 1 {
		t.Errorf("%v dead waiters are counted, want 1", n)
	}
}

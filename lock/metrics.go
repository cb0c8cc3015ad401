package lock

import (
	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/promauto"
)

// Metrics are what a Locker counts. Keys are not used as labels: there are as many as users.
type Metrics struct {
	wait, hold   prometheus.Histogram
	waiting      prometheus.Gauge
	active       prometheus.Gauge
	acquisitions *prometheus.CounterVec
	timeouts     prometheus.Counter
	lost         *prometheus.CounterVec
	dead         prometheus.Counter
	wakes        prometheus.Counter
	listening    prometheus.Gauge
	errors       *prometheus.CounterVec
}

// NewMetrics makes the metrics and registers them, unless registry is nil.
func NewMetrics(registry prometheus.Registerer) *Metrics {
	in := promauto.With(registry)
	buckets := prometheus.ExponentialBuckets(0.0005, 2, 18)
	histogram := func(name, help string) prometheus.Histogram {
		return in.NewHistogram(prometheus.HistogramOpts{Namespace: "holdfast", Subsystem: "lock", Name: name, Help: help, Buckets: buckets})
	}
	counter := func(name, help string) prometheus.CounterOpts {
		return prometheus.CounterOpts{Namespace: "holdfast", Subsystem: "lock", Name: name, Help: help}
	}
	gauge := func(name, help string) prometheus.Gauge {
		return in.NewGauge(prometheus.GaugeOpts{Namespace: "holdfast", Subsystem: "lock", Name: name, Help: help})
	}
	return &Metrics{
		wait:         histogram("wait_seconds", "From asking for a lock until it was got."),
		hold:         histogram("hold_seconds", "From getting a lock until it was released or lost."),
		waiting:      gauge("waiting", "Acquisitions of this process that wait."),
		active:       gauge("active", "Leases that this process holds."),
		acquisitions: in.NewCounterVec(counter("acquisitions_total", "Acquisitions by how they ended."), []string{"status"}),
		timeouts:     in.NewCounter(counter("timeouts_total", "Acquisitions that waited for too long.")),
		lost:         in.NewCounterVec(counter("lost_total", "Leases that ended without being released, by cause."), []string{"cause"}),
		dead:         in.NewCounter(counter("dead_waiters_removed_total", "Waiters of dead processes that were skipped.")),
		wakes:        in.NewCounter(counter("wakes_total", "Waiters of this process that were woken to look.")),
		listening:    gauge("listening", "1 while wakes from other processes get through, 0 while waiters poll."),
		errors:       in.NewCounterVec(counter("errors_total", "Failed calls of the store, by operation."), []string{"operation"}),
	}
}

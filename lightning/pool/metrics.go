package pool

import (
	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/promauto"
)

// Metrics are what a pool measures.
type Metrics struct {
	eligible *prometheus.GaugeVec
	inFlight *prometheus.GaugeVec
	outbound *prometheus.GaugeVec
	disabled *prometheus.GaugeVec
	leases   *prometheus.CounterVec
	refused  *prometheus.CounterVec
	wait     prometheus.Histogram
}

// NewMetrics makes the metrics and registers them, unless registry is nil.
func NewMetrics(registry prometheus.Registerer) *Metrics {
	in := promauto.With(registry)
	gauge := func(name, help string, labels ...string) *prometheus.GaugeVec {
		return in.NewGaugeVec(prometheus.GaugeOpts{Namespace: "holdfast", Subsystem: "node", Name: name, Help: help}, labels)
	}
	counter := func(name, help string, labels ...string) *prometheus.CounterVec {
		return in.NewCounterVec(prometheus.CounterOpts{Namespace: "holdfast", Subsystem: "node", Name: name, Help: help}, labels)
	}
	return &Metrics{
		eligible: gauge("eligible", "1 while the node is given payments.", "node"),
		inFlight: gauge("in_flight", "Payments for which this process has leased the node.", "node"),
		outbound: gauge("outbound_msat", "What the node can send and is not promised to a payment, in millisatoshi.", "node"),
		disabled: gauge("disabled", "1 while the node is disabled for this reason: somebody should look.", "node", "reason"),
		leases:   counter("leases_total", "Leases that ended, by outcome.", "node", "outcome"),
		refused:  counter("refused_total", "Payments for which no node was found in time, by the reason of the node that came closest.", "reason"),
		wait: in.NewHistogram(prometheus.HistogramOpts{Namespace: "holdfast", Subsystem: "node", Name: "wait_seconds",
			Help: "From asking for a node until it was got or refused.", Buckets: prometheus.ExponentialBuckets(0.001, 2, 15)}),
	}
}

func (m *Metrics) show(s Status) {
	set := func(of *prometheus.GaugeVec, value float64, labels ...string) {
		of.WithLabelValues(labels...).Set(value)
	}
	yes := map[bool]float64{true: 1}
	set(m.eligible, yes[s.Eligible], s.Name)
	set(m.inFlight, float64(s.InFlight), s.Name)
	set(m.outbound, float64(s.Outbound), s.Name)
	for _, reason := range alarms {
		set(m.disabled, yes[reason == s.Reason], s.Name, string(reason))
	}
}

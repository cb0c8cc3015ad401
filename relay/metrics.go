package relay

import (
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/promauto"

	"github.com/a-seed-a7aed72f/holdfast/internal/db"
	"github.com/a-seed-a7aed72f/holdfast/paidaction"
)

// Metrics are what a Relay counts.
type Metrics struct {
	stages    *prometheus.GaugeVec
	oldest    *prometheus.GaugeVec
	crowded   *prometheus.GaugeVec
	sent      *prometheus.CounterVec
	succeeded *prometheus.CounterVec
	confirmed *prometheus.CounterVec
	failures  *prometheus.CounterVec
	refused   *prometheus.CounterVec
	already   prometheus.Counter
	lost      *prometheus.CounterVec
	took      prometheus.Histogram
}

// NewMetrics makes the metrics and registers them, unless registry is nil.
func NewMetrics(registry prometheus.Registerer) *Metrics {
	in := promauto.With(registry)
	gauge := func(name, help, label string) *prometheus.GaugeVec {
		return in.NewGaugeVec(prometheus.GaugeOpts{Namespace: "holdfast", Subsystem: "relay", Name: name, Help: help}, []string{label})
	}
	counter := func(name, help, label string) *prometheus.CounterVec {
		return in.NewCounterVec(prometheus.CounterOpts{Namespace: "holdfast", Subsystem: "relay", Name: name, Help: help}, []string{label})
	}
	return &Metrics{
		stages:    gauge("payments", "Outgoing payments that are not at their end, by stage, 10,000 each at most.", "stage"),
		oldest:    gauge("oldest_seconds", "Age of the oldest outgoing payment, by stage.", "stage"),
		crowded:   gauge("crowded", "1 while a node gets no payments to receivers because too many payments hang in its channels.", "node"),
		sent:      counter("sent_total", "Payments given to a node.", "node"),
		succeeded: counter("succeeded_total", "Payments whose preimage came back, by node.", "node"),
		confirmed: counter("confirmed_total", "Payments that are settled: the payer's payment was taken, or a withdrawal is final.", "flow"),
		failures:  counter("failed_total", "Payments given up for good, by reason (docs/relay.md).", "reason"),
		refused:   counter("refused_total", "Invoices that were not accepted for payment, by rule.", "rule"),
		already: in.NewCounter(prometheus.CounterOpts{Namespace: "holdfast", Subsystem: "relay", Name: "already_given_total",
			Help: "Payments that a node had already when they were to be sent."}),
		lost: counter("lost_by_node_total", "Times that a node did not know a payment it was given. Alarm: it was wiped or restored.", "node"),
		took: in.NewHistogram(prometheus.HistogramOpts{Namespace: "holdfast", Subsystem: "relay", Name: "seconds",
			Help: "From entering the pipeline until the preimage came back.", Buckets: prometheus.ExponentialBuckets(0.01, 2, 16)}),
	}
}

// Moved counts a step of an action that confirms its outgoing payment (paidaction.Hooks).
func (m *Metrics) Moved(s paidaction.Step) {
	if s.From == paidaction.Forwarded && s.Effect == paidaction.BookAndFinish {
		m.confirmed.WithLabelValues(string(s.Flow)).Inc()
	}
}

// Paid implements paidaction.Relay.
func (r *Relay) Paid(o paidaction.Outcome) {
	if o.Node == "" { // paid inside
		return
	}
	r.Metrics.succeeded.WithLabelValues(o.Node).Inc()
	r.Metrics.took.Observe(r.now().Sub(o.Since).Seconds())
}

func (m *Metrics) failed(reason string) { m.failures.WithLabelValues(reason).Inc() }

func (m *Metrics) showCrowded(node string, crowded bool) {
	value := 0.0
	if crowded {
		value = 1
	}
	m.crowded.WithLabelValues(node).Set(value)
}

// show sets the gauges from the database. Empty stages are shown as empty.
func (m *Metrics) show(rows []db.RelayStagesRow, now time.Time) {
	for _, stage := range []paidaction.Stage{paidaction.StageIncoming, paidaction.StageInWork, paidaction.StagePendingConfirmation} {
		m.stages.WithLabelValues(string(stage)).Set(0)
		m.oldest.WithLabelValues(string(stage)).Set(0)
	}
	for _, row := range rows {
		m.stages.WithLabelValues(row.Stage).Set(float64(row.Payments))
		m.oldest.WithLabelValues(row.Stage).Set(now.Sub(row.Oldest).Seconds())
	}
}

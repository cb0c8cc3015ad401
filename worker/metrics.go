package worker

import (
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/promauto"

	"github.com/a-seed-a7aed72f/holdfast/paidaction"
)

// Metrics are what this package and the engine count.
type Metrics struct {
	steps       *prometheus.CounterVec
	conflicts   *prometheus.CounterVec
	faults      prometheus.Counter
	jobWait     *prometheus.HistogramVec
	snoozes     *prometheus.CounterVec
	sweepMoves  *prometheus.CounterVec
	folds       *prometheus.CounterVec
	failures    *prometheus.CounterVec
	reconnects  *prometheus.CounterVec
	holdStreams *prometheus.GaugeVec
	holdsHeard  *prometheus.GaugeVec
	alarms      *prometheus.GaugeVec
	height      *prometheus.GaugeVec
}

// NewMetrics makes the metrics and registers them, unless registry is nil.
func NewMetrics(registry prometheus.Registerer) *Metrics {
	in := promauto.With(registry)
	counter := func(name, help string, labels ...string) *prometheus.CounterVec {
		return in.NewCounterVec(prometheus.CounterOpts{Namespace: "holdfast", Name: name, Help: help}, labels)
	}
	gauge := func(name, help string, labels ...string) *prometheus.GaugeVec {
		return in.NewGaugeVec(prometheus.GaugeOpts{Namespace: "holdfast", Name: name, Help: help}, labels)
	}
	m := &Metrics{
		steps:     counter("steps_total", "Steps that actions took.", "flow", "from", "to"),
		conflicts: counter("database_conflicts_total", "Transactions the database broke: 40P01 deadlock, 40001 serialisation.", "code"),
		faults: in.NewCounter(prometheus.CounterOpts{Namespace: "holdfast", Name: "action_faults_total",
			Help: "Failures of an action's own code that are no refusals."}),
		jobWait: in.NewHistogramVec(prometheus.HistogramOpts{Namespace: "holdfast", Name: "job_wait_seconds",
			Help: "From when a job was due until it was taken up.", Buckets: prometheus.ExponentialBuckets(0.0005, 2, 16)}, []string{"kind"}),
		snoozes:     counter("job_snoozes_total", "Jobs put off since they failed or still owe a call.", "kind"),
		sweepMoves:  counter("sweep_moves_total", "Steps taken by sweeps: what events and jobs had missed.", "sweep"),
		folds:       counter("folded_rows_total", "Rows that deltas were folded into.", "fold"),
		failures:    counter("loop_failures_total", "Failed rounds of loops; each is tried again.", "loop"),
		reconnects:  counter("node_reconnects_total", "Streams that ended and were opened again.", "node", "stream"),
		holdStreams: gauge("node_hold_streams", "Open streams of single hold invoices.", "node"),
		holdsHeard:  gauge("node_hold_streams_heard", "Streams of single hold invoices that have brought their invoice's present state.", "node"),
		alarms:      gauge("node_height_alarms", "Held payments close to their safety height.", "node"),
		height:      gauge("node_height", "Height of the node's best block.", "node"),
	}
	for _, code := range []string{"40P01", "40001"} {
		m.conflicts.WithLabelValues(code) // start at 0: an alert on increases would miss the first one of a process
	}
	return m
}

// Hooks are the engine's hooks for counting; the caller adds Changed.
func (m *Metrics) Hooks() paidaction.Hooks {
	return paidaction.Hooks{Moved: m.Moved, Conflict: m.Conflict, Fault: m.Fault}
}

// Moved counts a step.
func (m *Metrics) Moved(s paidaction.Step) {
	m.steps.WithLabelValues(string(s.Flow), string(s.From), string(s.To)).Inc()
}

// Conflict counts a transaction that the database broke.
func (m *Metrics) Conflict(code string) { m.conflicts.WithLabelValues(code).Inc() }

// Fault counts a failure of an action's own code.
func (m *Metrics) Fault(int64, error) { m.faults.Inc() }

func (m *Metrics) waited(kind paidaction.JobKind, d time.Duration) {
	m.jobWait.WithLabelValues(string(kind)).Observe(d.Seconds())
}

func (m *Metrics) snoozed(kind paidaction.JobKind) { m.snoozes.WithLabelValues(string(kind)).Inc() }

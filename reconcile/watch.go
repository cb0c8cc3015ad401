package reconcile

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"strconv"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/promauto"

	"github.com/a-seed-a7aed72f/holdfast/internal/db"
)

// overlap is how much of what an earlier run looked at is looked at again by the next: a transaction that began before
// that run may have committed after it.
const overlap = 5 * time.Minute

// Watch reconciles from time to time, in whichever process comes first. Every process shows what was found last.
type Watch struct {
	config  Config
	every   time.Duration
	log     *slog.Logger
	metrics *watchMetrics
}

type watchMetrics struct {
	broken   *prometheus.GaugeVec
	unknown  prometheus.Gauge
	last     prometheus.Gauge
	checked  prometheus.Gauge
	duration prometheus.Gauge
}

// NewWatch makes a watch. Of all processes, only one at a time does a partial run, and one begins at most once in
// every. The metrics are registered unless registry is nil.
func NewWatch(c Config, every time.Duration, log *slog.Logger, registry prometheus.Registerer) *Watch {
	in := promauto.With(registry)
	gauge := func(name, help string) prometheus.GaugeOpts {
		return prometheus.GaugeOpts{Namespace: "holdfast", Subsystem: "reconcile", Name: name, Help: help}
	}
	return &Watch{config: c.defaults(), every: every, log: log, metrics: &watchMetrics{
		broken:   in.NewGaugeVec(gauge("broken", "What the last periodic run found broken, by invariant and kind of break."), []string{"invariant", "kind"}),
		unknown:  in.NewGauge(gauge("unknown", "Nodes that the last periodic run could not ask.")),
		last:     in.NewGauge(gauge("last_run_timestamp_seconds", "When the last periodic run came to its end, in any process.")),
		checked:  in.NewGauge(gauge("checked_timestamp_seconds", "Up to when all that has changed was looked at, by any process.")),
		duration: in.NewGauge(gauge("duration_seconds", "How long it took.")),
	}}
}

// horizon is how far back a partial run looks at most. After a longer standstill, the rest is left to a full run.
const horizon = 24 * time.Hour

// everAhead is further than any clock is ahead.
const everAhead = 100 * 365 * 24 * time.Hour

// Limit is how long one turn may take: what it does not get to is left to the next turn.
func (w *Watch) Limit() time.Duration { return max(w.every, time.Minute) }

// Turn reconciles what has changed since the last run, if it is time. If not, or if another process is doing so, it
// shows what was found last. A run looks at whatever has moved since the last one, at everything open, and at what the
// last one found. It leaves what had ended before, and the sum of all postings, to Run with a zero Changed.
func (w *Watch) Turn(ctx context.Context) error {
	q := db.New(w.config.Pool)
	now := w.now()
	last, err := q.LastReconcile(ctx)
	if err != nil && !errors.Is(err, pgx.ErrNoRows) {
		return fmt.Errorf("read what was found last: %w", err)
	}
	n, err := q.BeginReconcile(ctx, db.BeginReconcileParams{At: now, Due: now.Add(-w.every), Ahead: now.Add(w.every)})
	if err != nil {
		return fmt.Errorf("begin: %w", err)
	}
	var before Report
	if last.EndedAt != nil {
		if err := json.Unmarshal(last.Report, &before); err != nil {
			return fmt.Errorf("read what was found last: %w", err)
		}
	}
	if n == 0 {
		if last.EndedAt != nil {
			w.show(&before, *last.EndedAt, last.CheckedTo)
		}
		return nil
	}
	c := w.config
	c.Within, c.Changed, c.Earlier = w.Limit(), now.Add(-horizon), before.breaks()
	// A CheckedTo in the future comes from a clock that was ahead: ignore it.
	if since := last.CheckedTo; since != nil && !since.After(now) && since.Add(-overlap).After(c.Changed) {
		c.Changed = since.Add(-overlap)
	}
	c.marks = before.MarksBefore
	newest, err := q.Marks(ctx, now.Add(everAhead))
	if err != nil {
		return fmt.Errorf("find out how far history and postings go: %w", err)
	}
	report, err := Run(ctx, c)
	if err != nil {
		return err
	}
	w.say(ctx, report)
	checked := report.leave(before, last.CheckedTo, c.Changed, now, Marks{History: newest.History, Posting: newest.Posting})
	text, err := json.Marshal(report)
	if err != nil {
		return fmt.Errorf("write down what was found: %w", err)
	}
	ended := w.now()
	if err := q.EndReconcile(ctx, db.EndReconcileParams{BeganAt: now, CheckedTo: checked, EndedAt: &ended, Report: text}); err != nil {
		return fmt.Errorf("write down what was found: %w", err)
	}
	w.show(report, ended, checked)
	return nil
}

// leave writes into the report of a run what the run leaves to the next one, and returns the moment up to which all
// changes were looked at by then. The previous run has left it the report before, and checked. This run began at began,
// when history and postings went as far as newest, and looked at what has changed since.
func (report *Report) leave(before Report, checked *time.Time, since, began time.Time, newest Marks) *time.Time {
	report.Unasked, report.Marks, report.MarksBefore = before.Unasked, before.Marks, before.MarksBefore
	silent := len(report.Unknown) > 0
	switch {
	case !report.reached.IsZero():
		// It got as far as its time allowed, and the next run goes on from there. Changes about which a node could not
		// be asked wait until there is time again.
		report.Marks, report.MarksBefore = nil, nil // with marks, the next run would not go on from there
		if silent && report.Unasked == nil {
			report.Unasked = new(since.Add(overlap))
		}
		return &report.reached
	case silent: // what a node could not be asked is looked at again
		return checked
	case report.Unasked != nil:
		checked, report.Unasked = report.Unasked, nil
		return checked
	}
	report.Marks, report.MarksBefore = &newest, before.Marks
	return &began
}

// now is the injected time in the precision of the database.
func (w *Watch) now() time.Time { return w.config.Now().UTC().Truncate(time.Microsecond) }

// said is how many breaks of one invariant are logged.
const said = 20

// say logs what is broken.
func (w *Watch) say(ctx context.Context, report *Report) {
	for _, i := range report.Invariants {
		told := i.Breaks[:min(len(i.Breaks), said)]
		for _, b := range told {
			w.log.ErrorContext(ctx, "an invariant is broken", "invariant", i.ID, "kind", b.Kind, "what", b.What, "actions", b.Actions, "node", b.Node, "mend", b.Mend)
		}
		if more := i.Broken - int64(len(told)); more > 0 {
			w.log.ErrorContext(ctx, "an invariant is broken in more places", "invariant", i.ID, "more", more)
		}
	}
	if !report.reached.IsZero() {
		w.log.WarnContext(ctx, "reconciling is behind: the next run goes on where this one's time was over", "reached", report.reached)
	}
	for _, u := range report.Unknown {
		w.log.WarnContext(ctx, "not everything could be reconciled", "reason", u)
	}
}

// show sets the metrics to what was found last, by whichever process. What was counted and not listed, or is of a kind
// that only another version of the program knows, is "more".
func (w *Watch) show(report *Report, ended time.Time, checked *time.Time) {
	for _, i := range report.Invariants {
		set := func(kind string, n int64) { w.metrics.broken.WithLabelValues(strconv.Itoa(i.ID), kind).Set(float64(n)) }
		listed := map[string]int64{}
		for _, b := range i.Breaks {
			listed[b.Kind]++
		}
		rest := i.Broken
		for _, k := range kinds {
			if k.Invariant == i.ID {
				set(k.Name, listed[k.Name])
				rest -= listed[k.Name]
			}
		}
		set("more", rest)
	}
	w.metrics.unknown.Set(float64(len(report.Unknown)))
	w.metrics.last.Set(float64(ended.UnixMilli()) / 1000)
	if checked != nil {
		w.metrics.checked.Set(float64(checked.UnixMilli()) / 1000)
	}
	w.metrics.duration.Set(report.Seconds)
}

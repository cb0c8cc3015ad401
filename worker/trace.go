package worker

import (
	"context"
	"encoding/json"
	"fmt"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/riverqueue/river/rivertype"
	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/codes"
	"go.opentelemetry.io/otel/propagation"
	"go.opentelemetry.io/otel/trace"

	"github.com/a-seed-a7aed72f/holdfast/internal/db"
	"github.com/a-seed-a7aed72f/holdfast/paidaction"
)

// traceContext encodes a trace in the W3C format. It names the trace and the span, and nothing else.
var traceContext propagation.TraceContext

// traced returns a job's metadata about the trace that it belongs to; nil if ctx is in none.
func traced(ctx context.Context) []byte {
	if !trace.SpanContextFromContext(ctx).IsValid() {
		return nil
	}
	carrier := propagation.MapCarrier{}
	traceContext.Inject(ctx, carrier)
	text, err := json.Marshal(carrier)
	if err != nil {
		return nil // impossible for a map of strings; without the trace the job is the same
	}
	return text
}

// begin begins a job's span, in the trace that its metadata name.
func (w *Worker) begin(ctx context.Context, row *rivertype.JobRow, kind string, action int64) (context.Context, func(again error)) {
	if w.Traces == nil {
		return ctx, func(error) {}
	}
	var carrier struct{ Traceparent, Tracestate string }
	_ = json.Unmarshal(row.Metadata, &carrier) // without it the job begins a new trace
	ctx = traceContext.Extract(ctx, propagation.MapCarrier{"traceparent": carrier.Traceparent, "tracestate": carrier.Tracestate})
	ctx, span := w.Traces.Tracer(tracer).Start(ctx, "job "+kind, trace.WithSpanKind(trace.SpanKindConsumer), trace.WithAttributes(
		attribute.Int64("holdfast.action", action), attribute.Int64("river.job", row.ID), attribute.String("river.queue", row.Queue), attribute.Int("river.attempt", row.Attempt)))
	return ctx, func(again error) {
		if again != nil {
			span.SetStatus(codes.Error, "to be done again") // the reason is in the log, under the action's id
		}
		span.End()
	}
}

// TraceRelay begins the spans of the relay's work on an action, in the trace of the request that began the action; nil
// if there is no tracing. A span ends with its payment, or with the process.
func TraceRelay(traces trace.TracerProvider, pool *pgxpool.Pool) func(ctx context.Context, action int64) (context.Context, func()) {
	if traces == nil {
		return nil
	}
	return func(ctx context.Context, action int64) (context.Context, func()) {
		return traceAction(ctx, traces, pool, "relay", action)
	}
}

// trace begins the span of the listener's work on an action after an event.
func (l *Listener) trace(ctx context.Context, action int64) (context.Context, func()) {
	if l.Traces == nil {
		return ctx, func() {}
	}
	return traceAction(ctx, l.Traces, l.Pool, "event", action)
}

// traceAction begins a span in the trace of the request that began the action.
func traceAction(ctx context.Context, traces trace.TracerProvider, pool *pgxpool.Pool, name string, action int64) (context.Context, func()) {
	rows, err := db.New(pool).TracesOfActions(ctx, []int64{action})
	if err == nil && len(rows) > 0 { // otherwise the span begins a new trace
		ctx = traceContext.Extract(ctx, propagation.MapCarrier{"traceparent": rows[0].Traceparent})
	}
	ctx, span := traces.Tracer(tracer).Start(ctx, name, trace.WithSpanKind(trace.SpanKindConsumer), trace.WithAttributes(attribute.Int64("holdfast.action", action)))
	return ctx, func() { span.End() }
}

const tracer = "github.com/a-seed-a7aed72f/holdfast/worker"

// insertTraced stores jobs for events, each in the trace of the request that began its action.
func (l *Listener) insertTraced(ctx context.Context, q *db.Queries, tx pgx.Tx, jobs []paidaction.Job) error {
	if l.Traces == nil || len(jobs) == 0 {
		return l.Jobs.Insert(ctx, tx, jobs...)
	}
	ids := make([]int64, len(jobs))
	for i, job := range jobs {
		ids[i] = job.Action
	}
	rows, err := q.TracesOfActions(ctx, ids)
	if err != nil {
		return fmt.Errorf("find the traces of actions: %w", err)
	}
	parents := map[int64]string{}
	for _, row := range rows {
		parents[row.Action] = row.Traceparent
	}
	for _, job := range jobs {
		own := traceContext.Extract(ctx, propagation.MapCarrier{"traceparent": parents[job.Action]})
		if err := l.Jobs.Insert(own, tx, job); err != nil {
			return err
		}
	}
	return nil
}

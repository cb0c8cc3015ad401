package worker

import (
	"context"
	"testing"

	"github.com/jackc/pgx/v5"
	"go.opentelemetry.io/otel/trace"
	"go.opentelemetry.io/otel/trace/noop"

	"github.com/a-seed-a7aed72f/holdfast/paidaction"
)

// Where requests are traced, the jobs of a batch of events are all stored too, each in the trace of the request that
// began its action, and without one where there was none.
func TestTheJobsOfEventsAreStoredInTheirTraces(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.config.Traces = noop.NewTracerProvider()
	l := w.listener(w.node)
	request := func(id byte) context.Context {
		return trace.ContextWithSpanContext(w.ctx, trace.NewSpanContext(trace.SpanContextConfig{TraceID: trace.TraceID{id}, SpanID: trace.SpanID{id}}))
	}
	begun := map[int64]context.Context{1: request(1), 2: request(2), 3: w.ctx}
	for action, ctx := range begun {
		err := pgx.BeginFunc(w.ctx, w.pool, func(tx pgx.Tx) error {
			return w.config.Jobs.Insert(ctx, tx, paidaction.Job{Kind: paidaction.JobAdvance, Action: action})
		})
		if err != nil {
			t.Fatal(err)
		}
	}
	before := w.count(`SELECT max(id) FROM river_job`)
	var jobs []paidaction.Job
	for action := range begun {
		jobs = append(jobs, paidaction.Job{Kind: paidaction.JobAdvance, Action: action})
	}
	if err := l.store(w.ctx, jobs...); err != nil {
		t.Fatal(err)
	}
	for action, ctx := range begun {
		parent := string(traced(ctx))
		if n := w.count(`SELECT count(*) FROM river_job WHERE id > $1 AND args->>'action' = $2::bigint::text
			AND metadata->>'traceparent' IS NOT DISTINCT FROM nullif($3, '')::jsonb->>'traceparent'`, before, action, parent); n != 1 {
			t.Errorf("action %d has %d jobs in %s", action, n, parent)
		}
	}
}

package main

import (
	"context"
	"fmt"
	"net/http"
	"strings"
	"time"

	"github.com/exaring/otelpgx"
	"github.com/jackc/pgx/v5"
	"go.opentelemetry.io/contrib/instrumentation/net/http/otelhttp"
	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/exporters/otlp/otlptrace/otlptracehttp"
	"go.opentelemetry.io/otel/propagation"
	"go.opentelemetry.io/otel/sdk/resource"
	sdktrace "go.opentelemetry.io/otel/sdk/trace"
	"go.opentelemetry.io/otel/trace"
)

// tracesTo is OpenTelemetry's own variable. It alone switches traces on. If it is not set nothing is made, wrapped or
// asked.
const tracesTo = "OTEL_EXPORTER_OTLP_ENDPOINT"

// tracesTimeout is how long sending the last spans may take when the process ends.
const tracesTimeout = 5 * time.Second

// tracesEndpoint is where traces go; empty: nowhere.
func tracesEndpoint(env []string) string {
	for _, setting := range env {
		if value, ok := strings.CutPrefix(setting, tracesTo+"="); ok {
			return value
		}
	}
	return ""
}

// openTraces begins to send traces, if that is wanted. closeTraces sends the rest.
func (e *environment) openTraces(ctx context.Context) (closeTraces func(), err error) {
	if e.tracesTo == "" {
		return func() {}, nil
	}
	exporter, err := otlptracehttp.New(ctx, otlptracehttp.WithEndpointURL(strings.TrimSuffix(e.tracesTo, "/")+"/v1/traces"))
	if err != nil {
		return nil, fmt.Errorf("%w: %s: %w", errSettings, tracesTo, err)
	}
	of, err := resource.Merge(resource.NewSchemaless(attribute.String("service.name", "holdfast")), resource.Environment())
	if err != nil {
		return nil, fmt.Errorf("%w: OTEL_RESOURCE_ATTRIBUTES: %w", errSettings, err)
	}
	provider := sdktrace.NewTracerProvider(sdktrace.WithBatcher(exporter), sdktrace.WithResource(of), sdktrace.WithSampler(sdktrace.ParentBased(entrances{})))
	e.traces = provider
	return func() {
		limited, cancel := context.WithTimeout(context.WithoutCancel(ctx), tracesTimeout)
		defer cancel()
		if err := provider.Shutdown(limited); err != nil {
			e.log.Warn("the last traces were not sent", "error", err)
		}
	}, nil
}

// entrances samples only traces that begin with a request or a job: sweeps, streams and readiness checks begin none.
type entrances struct{}

func (entrances) ShouldSample(p sdktrace.SamplingParameters) sdktrace.SamplingResult {
	result := sdktrace.SamplingResult{Decision: sdktrace.Drop, Tracestate: trace.SpanContextFromContext(p.ParentContext).TraceState()}
	if p.Kind == trace.SpanKindServer || p.Kind == trace.SpanKindConsumer {
		result.Decision = sdktrace.RecordAndSample
	}
	return result
}

func (entrances) Description() string { return "requests and jobs" }

// traced traces requests to the API, as parts of the trace that their header names. Streams are left out, because they
// last for hours.
func (e *environment) traced(next http.Handler) http.Handler {
	if e.traces == nil {
		return next
	}
	return otelhttp.NewHandler(next, "GraphQL", otelhttp.WithTracerProvider(e.traces), otelhttp.WithPropagators(propagation.TraceContext{}),
		otelhttp.WithSpanNameFormatter(func(operation string, _ *http.Request) string { return operation }),
		otelhttp.WithFilter(func(r *http.Request) bool {
			return r.Method == http.MethodPost && r.URL.Path == "/graphql" && !strings.Contains(r.Header.Get("Accept"), "text/event-stream")
		}))
}

// queryTracer traces statements by their text, which contains no values; nil if there are no traces.
func (e *environment) queryTracer() pgx.QueryTracer {
	if e.traces == nil {
		return nil
	}
	return otelpgx.NewTracer(otelpgx.WithTracerProvider(e.traces))
}

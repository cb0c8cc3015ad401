package main

import (
	"encoding/hex"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"

	collector "go.opentelemetry.io/proto/otlp/collector/trace/v1"
	spans "go.opentelemetry.io/proto/otlp/trace/v1"
	"google.golang.org/protobuf/proto"

	"github.com/a-seed-a7aed72f/holdfast/internal/pgtest"
)

// telemetry is a collector of OpenTelemetry that keeps what it gets in memory.
type telemetry struct {
	mu    sync.Mutex
	spans []*spans.Span
	asked []string
}

func (c *telemetry) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	body, err := io.ReadAll(r.Body)
	var request collector.ExportTraceServiceRequest
	if err == nil {
		err = proto.Unmarshal(body, &request)
	}
	if err != nil {
		http.Error(w, err.Error(), http.StatusBadRequest)
		return
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	c.asked = append(c.asked, r.URL.Path)
	for _, resource := range request.ResourceSpans {
		for _, scope := range resource.ScopeSpans {
			c.spans = append(c.spans, scope.Spans...)
		}
	}
}

// One payment is one trace, the one that the client began: its request, the statements of the transaction, the call that opens the invoice,
// the job that the node's word on the payment led to, the call that takes the money, and the job after it.
func TestOnePaymentIsOneTrace(t *testing.T) {
	t.Parallel()
	var c telemetry
	server := httptest.NewServer(&c)
	t.Cleanup(server.Close)
	node, setting := newNode(t)
	s := serve(t, settings(pgtest.New(t), setting, "HOLDFAST_LOG_LEVEL=debug", tracesTo+"="+server.URL))
	s.awaitReady(http.StatusOK)
	const trace, parent = "0af7651916cd43dd8448eb211c80319c", "b7ad6b7169203331"
	post(s, node, http.Header{"Traceparent": {"00-" + trace + "-" + parent + "-01"}})
	s.await("the payment's last job", func() bool { return strings.Contains(s.said(), `"job":"after_paid"`) })
	if code := s.stop(); code != exitOK { // what is left is sent then
		t.Fatal(code)
	}

	c.mu.Lock()
	defer c.mu.Unlock()
	byID := map[string]*spans.Span{}
	for _, span := range c.spans {
		byID[string(span.SpanId)] = span
	}
	// under says whether a span lies below one with this name, in the client's trace.
	under := func(span *spans.Span, name string) bool {
		for ; span != nil; span = byID[string(span.ParentSpanId)] {
			if hex.EncodeToString(span.TraceId) == trace && span.Name == name {
				return true
			}
		}
		return false
	}
	for _, want := range []struct{ above, name string }{
		{"GraphQL", "GraphQL"},
		{"GraphQL", "COMMIT"},
		{"GraphQL", "invoicesrpc.Invoices/AddHoldInvoice"},
		{"GraphQL", "job advance"},
		{"job advance", "invoicesrpc.Invoices/SettleInvoice"},
		{"job advance", "job after_paid"},
	} {
		found := false
		for _, span := range c.spans {
			found = found || span.Name == want.name && under(span, want.above)
		}
		if !found {
			t.Errorf("no span %s lies below %s", want.name, want.above)
		}
	}
	for _, span := range c.spans {
		text := span.String()
		if span.Name == "GraphQL" && hex.EncodeToString(span.ParentSpanId) != parent {
			t.Errorf("the request does not continue the client's trace: %s", text)
		}
		if strings.Contains(text, "lnbcrt") || strings.Contains(text, "Hello") || strings.Contains(strings.ToLower(text), "macaroon") {
			t.Errorf("a span tells what was paid for or with what: %s", text)
		}
		if strings.Contains(span.Name, "Subscribe") || strings.Contains(span.Name, "GetInfo") && len(span.ParentSpanId) == 0 {
			t.Errorf("a trace begins with %s", span.Name)
		}
	}
	if t.Failed() {
		for _, span := range c.spans {
			t.Logf("%x %x < %x %s", span.TraceId, span.SpanId, span.ParentSpanId, span.Name)
		}
	}
	if len(c.asked) == 0 || c.asked[0] != "/v1/traces" {
		t.Errorf("asked for %v", c.asked)
	}
}

// Without the variable nothing is traced, and no job carries a trace.
func TestNothingIsTracedUnlessWanted(t *testing.T) {
	t.Parallel()
	node, setting := newNode(t)
	pool := pgtest.New(t)
	s := serve(t, settings(pool, setting, "HOLDFAST_LOG_LEVEL=debug"))
	s.awaitReady(http.StatusOK)
	post(s, node, http.Header{"Traceparent": {"00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01"}})
	s.await("the payment's last job", func() bool { return strings.Contains(s.said(), `"job":"after_paid"`) })
	var traced int
	if err := pool.QueryRow(t.Context(), `SELECT count(*) FROM river_job WHERE metadata ? 'traceparent'`).Scan(&traced); err != nil || traced != 0 {
		t.Errorf("%d jobs are traced, %v", traced, err)
	}
	if e := (&environment{}); e.queryTracer() != nil {
		t.Error("statements are traced")
	}
}

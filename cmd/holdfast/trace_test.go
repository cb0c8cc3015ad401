package main

import (
	"encoding/hex"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	collector "go.opentelemetry.io/proto/otlp/collector/trace/v1"
	spans "go.opentelemetry.io/proto/otlp/trace/v1"
	"google.golang.org/protobuf/proto"

	"github.com/a-seed-a7aed72f/holdfast/internal/pgtest"
	"github.com/a-seed-a7aed72f/holdfast/lightning/lndtest"
	"github.com/a-seed-a7aed72f/holdfast/lightning/simnode"
	"github.com/a-seed-a7aed72f/holdfast/paidaction"
)

// telemetry is an OpenTelemetry collector that keeps what it gets in memory.
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

const clientsTrace, clientsSpan = "0af7651916cd43dd8448eb211c80319c", "b7ad6b7169203331"

var traceparent = "00-" + clientsTrace + "-" + clientsSpan + "-01"

// startTelemetry starts a collector, and returns the setting that names it.
func startTelemetry(t *testing.T) (c *telemetry, setting string) {
	t.Helper()
	c = &telemetry{}
	server := httptest.NewServer(c)
	t.Cleanup(server.Close)
	return c, tracesTo + "=" + server.URL
}

// wantSpans checks that the client's trace has each of these spans below another one: pairs of the other one's name and
// its own.
func (c *telemetry) wantSpans(t *testing.T, pairs ...[2]string) {
	t.Helper()
	c.mu.Lock()
	defer c.mu.Unlock()
	byID := map[string]*spans.Span{}
	for _, span := range c.spans {
		byID[string(span.SpanId)] = span
	}
	// under reports whether a span lies below one with this name, in the client's trace.
	under := func(span *spans.Span, name string) bool {
		for ; span != nil; span = byID[string(span.ParentSpanId)] {
			if hex.EncodeToString(span.TraceId) == clientsTrace && span.Name == name {
				return true
			}
		}
		return false
	}
	for _, want := range pairs {
		if !slices.ContainsFunc(c.spans, func(span *spans.Span) bool { return span.Name == want[1] && under(span, want[0]) }) {
			t.Errorf("no span %s lies below %s", want[1], want[0])
		}
	}
	for _, span := range c.spans {
		text := span.String()
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
}

// One payment is one trace, the one that the client began: its request, the statements of the transaction, the call
// that opens the invoice, what the node's report of the payment led to, the call that takes the money, and the job
// after it.
func TestOnePaymentIsOneTrace(t *testing.T) {
	t.Parallel()
	c, traces := startTelemetry(t)
	node, setting := newNode(t)
	s := serve(t, settings(pgtest.New(t), setting, "HOLDFAST_LOG_LEVEL=debug", traces))
	s.awaitReady(http.StatusOK)
	post(s, node, http.Header{"Traceparent": {traceparent}})
	s.await("the payment's last job", func() bool { return strings.Contains(s.said(), `"job":"after_paid"`) })
	if code := s.stop(); code != exitOK { // what is left is sent then
		t.Fatal(code)
	}
	c.wantSpans(t, [2]string{"GraphQL", "GraphQL"}, [2]string{"GraphQL", "COMMIT"}, [2]string{"GraphQL", "invoicesrpc.Invoices/AddHoldInvoice"},
		[2]string{"GraphQL", "event"}, [2]string{"event", "invoicesrpc.Invoices/SettleInvoice"}, [2]string{"event", "job after_paid"})
	for _, span := range c.spans {
		if span.Name == "GraphQL" && hex.EncodeToString(span.ParentSpanId) != clientsSpan {
			t.Errorf("the request does not continue the client's trace: %s", span)
		}
	}
	if len(c.asked) == 0 || c.asked[0] != "/v1/traces" {
		t.Errorf("asked for %v", c.asked)
	}
}

// So is a withdrawal: what the relay does for it once a node has a free slot, and what follows.
func TestOneWithdrawalIsOneTrace(t *testing.T) {
	t.Parallel()
	c, traces := startTelemetry(t)
	pool := pgtest.New(t)
	node, setting := newNode(t)
	node.SetLocalBalance(1_000_000)
	env := settings(pool, setting, traces)
	s := serve(t, env)
	s.awaitReady(http.StatusOK)
	alice := bearer(keyOf(s.t, env, "alice"))
	paid := func(want int) {
		s.await("the payment", func() (ok bool) {
			err := pool.QueryRow(t.Context(), `SELECT count(*) = $1 FROM paid_action WHERE state = 'PAID'`, want).Scan(&ok)
			return err == nil && ok
		})
	}
	var asked struct {
		Data struct {
			Receive struct{ Invoice struct{ Bolt11 string } }
		}
	}
	answer := s.graphql(alice, `mutation { receive(user: "1", msat: "100000") { invoice { bolt11 } } }`, nil)
	if err := json.Unmarshal([]byte(answer), &asked); err != nil {
		t.Fatalf("%v: %s", err, answer)
	}
	if err := node.Node.PayBolt11(asked.Data.Receive.Invoice.Bolt11, simnode.Payment{}); err != nil {
		t.Fatalf("%v: %s", err, answer)
	}
	paid(1)

	preimage := paidaction.Preimage{7}
	bolt11, err := lndtest.New(t, simnode.New("receiver", time.Now)).Client().OpenInvoice(t.Context(), paidaction.InvoiceRequest{
		Hash: preimage.Hash(), Preimage: preimage, Amount: 20_000, Memo: "withdrawn", Expiry: time.Hour, CLTVDelta: 40})
	if err != nil {
		t.Fatal(err)
	}
	node.ScriptPaid(preimage, 20_000, 1_000)
	alice.Set("Traceparent", traceparent)
	if answer := s.graphql(alice, fmt.Sprintf(`mutation { withdraw(to: %q, maxFeeSats: 5) { id } }`, bolt11), nil); !strings.Contains(answer, `"id"`) {
		t.Fatalf("%s", answer)
	}
	paid(2)
	if code := s.stop(); code != exitOK {
		t.Fatal(code)
	}
	c.wantSpans(t, [2]string{"GraphQL", "relay"}, [2]string{"relay", "routerrpc.Router/SendPaymentV2"}, [2]string{"relay", "COMMIT"})
}

// Without the variable nothing is traced, and no job carries a trace.
func TestNothingIsTracedUnlessWanted(t *testing.T) {
	t.Parallel()
	node, setting := newNode(t)
	pool := pgtest.New(t)
	s := serve(t, settings(pool, setting, "HOLDFAST_LOG_LEVEL=debug"))
	s.awaitReady(http.StatusOK)
	post(s, node, http.Header{"Traceparent": {traceparent}})
	s.await("the payment's last job", func() bool { return strings.Contains(s.said(), `"job":"after_paid"`) })
	var traced int
	if err := pool.QueryRow(t.Context(), `SELECT count(*) FROM river_job WHERE metadata ? 'traceparent'`).Scan(&traced); err != nil || traced != 0 {
		t.Errorf("%d jobs are traced, %v", traced, err)
	}
	if e := (&environment{}); e.queryTracer() != nil {
		t.Error("statements are traced")
	}
}

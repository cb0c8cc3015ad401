package graph_test

import (
	"encoding/json"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/coder/websocket/wsjson"

	"github.com/a-seed-a7aed72f/holdfast/graph"
)

// A client that breaks the rules of graphql-transport-ws is told which one by the code of the close.
func TestAWebsocketIsClosedAsTheProtocolSays(t *testing.T) {
	t.Parallel()
	a := serve(t, func(c *graph.Config) { c.Limits.Init = 50 * time.Millisecond })
	silent, _, err := a.dial(nil)
	if err != nil {
		t.Fatal(err)
	}
	silent.WantClosed("whoever says nothing", "4408 TIME_LIMIT_EXCEEDED")

	a = serve(t)
	payer := a.Person("payer", 0, 0)
	v, _, _ := a.holdPost(payer, "followed")
	s := a.Socket(payer)
	s.send(message{Type: "connection_init"})
	s.WantClosed("a second connection_init", "4429 OPERATION_LIMIT_EXCEEDED")

	s = a.Socket(payer)
	s.Subscribe("1", follow, v)
	s.WantState("1", "PENDING_HELD")
	s.Subscribe("2", follow, v)
	s.WantState("2", "PENDING_HELD")
	s.Subscribe("1", `{ itemPriceMsat }`, nil)
	s.WantClosed("an id that is in use", "4409 DUPLICATE")
}

// Once an operation has ended, whoever ended it, its id may be used again.
func TestAnIDIsFreeOnceItsOperationHasEnded(t *testing.T) {
	t.Parallel()
	a := serve(t)
	payer := a.Person("payer", 0, 0)
	v, _, _ := a.holdPost(payer, "followed")
	s := a.Socket(payer)
	for range 2 { // the server ends it
		s.Subscribe("1", `{ itemPriceMsat }`, nil)
		if r := s.next("1"); r.code() != "" {
			t.Errorf("%s", r.Raw)
		}
		s.WantComplete("1")
	}
	for range 3 { // the client ends it, and nothing more is said of it
		s.Subscribe("1", follow, v)
		s.WantState("1", "PENDING_HELD")
		s.send(message{Type: "complete", ID: "1"})
	}
	for range 3 { // what follows it is another operation, and ends by itself
		s.Subscribe("1", `{ itemPriceMsat }`, nil)
		if r := s.next("1"); r.code() != "" {
			t.Errorf("%s", r.Raw)
		}
		s.WantComplete("1")
	}
	s.Subscribe("1", `{ nothing }`, nil) // an error is its last word
	if m, err := s.read(); err != nil || m.Type != "error" || m.ID != "1" {
		t.Errorf("%+v, %v", m, err)
	}
	s.Subscribe("1", follow, v)
	s.WantState("1", "PENDING_HELD")
}

// A websocket can be seen to be alive from its beginning: a ping is answered also before connection_init.
func TestAPingIsAnsweredAtAnyTime(t *testing.T) {
	t.Parallel()
	a := serve(t)
	s, _, err := a.dial(nil)
	if err != nil {
		t.Fatal(err)
	}
	for _, said := range []string{"pong", "ping", "connection_init", "ping"} {
		s.send(message{Type: said, Payload: json.RawMessage(`{"said":7}`)})
		want := map[string]string{"ping": `{"said":7}`, "connection_init": ""}
		payload, answered := want[said]
		if !answered {
			continue
		}
		var m message
		if err := wsjson.Read(a.Ctx, s.conn, &m); err != nil || string(m.Payload) != payload || m.Type == "ping" {
			t.Fatalf("after %s: %+v %s, %v", said, m, m.Payload, err)
		}
	}
}

// handshake is the header of a request that opens a websocket.
func handshake() http.Header {
	return http.Header{"Connection": {"keep-alive, Upgrade"}, "Upgrade": {"websocket"}, "Sec-Websocket-Version": {"13"},
		"Sec-Websocket-Protocol": {"graphql-transport-ws"}, "Sec-Websocket-Key": {"dGhlIHNhbXBsZSBub25jZQ=="}}
}

// A handshake that is none is refused like any other request: with one answer, and a code.
func TestAHandshakeThatIsNone(t *testing.T) {
	t.Parallel()
	a := serve(t)
	for what, change := range map[string]func(http.Header){
		"a proxy that keeps Connection":  func(h http.Header) { h.Del("Connection") },
		"no version":                     func(h http.Header) { h.Del("Sec-WebSocket-Version") },
		"an old version":                 func(h http.Header) { h.Set("Sec-WebSocket-Version", "8") },
		"no key":                         func(h http.Header) { h.Del("Sec-WebSocket-Key") },
		"a key that is too short":        func(h http.Header) { h.Set("Sec-WebSocket-Key", "c2hvcnQ=") },
		"two keys":                       func(h http.Header) { h.Add("Sec-WebSocket-Key", h.Get("Sec-WebSocket-Key")) },
		"nothing wrong":                  func(h http.Header) {},
		"nothing wrong, asks for events": func(h http.Header) { h.Set("Accept", "text/event-stream") },
	} {
		req, err := http.NewRequestWithContext(a.Ctx, http.MethodGet, a.URL+"/graphql", nil)
		if err != nil {
			t.Fatal(err)
		}
		req.Header = handshake()
		change(req.Header)
		resp, err := http.DefaultTransport.RoundTrip(req)
		if err != nil {
			t.Fatal(err)
		}
		resp.Body.Close()
		if strings.HasPrefix(what, "nothing wrong") {
			if resp.StatusCode != http.StatusSwitchingProtocols {
				t.Errorf("%s: %d", what, resp.StatusCode)
			}
		} else if r := a.Send(req); r.Status != http.StatusBadRequest || r.code() != "INVALID_INPUT" {
			t.Errorf("%s: %d %s", what, r.Status, r.Raw)
		}
	}
}

package graph_test

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/coder/websocket"
	"github.com/coder/websocket/wsjson"
)

// message is a message of the protocol graphql-transport-ws.
type message struct {
	Type    string          `json:"type"`
	ID      string          `json:"id,omitempty"`
	Payload json.RawMessage `json:"payload,omitempty"`
}

// socket is a client of that protocol.
type socket struct {
	t    testing.TB
	conn *websocket.Conn
}

// dial opens a websocket; err is the error of the handshake.
func (a *api) dial(header http.Header) (*socket, *http.Response, error) {
	conn, resp, err := websocket.Dial(a.Ctx, strings.Replace(a.URL, "http", "ws", 1)+"/graphql",
		&websocket.DialOptions{Subprotocols: []string{"graphql-ws", "graphql-transport-ws"}, HTTPHeader: header})
	if err != nil {
		return nil, resp, err
	}
	a.Cleanup(func() { _ = conn.CloseNow() })
	return &socket{a.TB, conn}, resp, nil
}

// Socket opens a websocket as somebody, who signs in with the first message.
func (a *api) Socket(as person) *socket {
	a.Helper()
	s, _, err := a.dial(nil)
	if err != nil {
		a.Fatal(err)
	}
	payload := map[string]string{}
	if as != nobody {
		payload["Authorization"] = "Bearer " + as.Key
	}
	s.send(message{Type: "connection_init", Payload: encode(a.TB, payload)})
	if m, err := s.read(); err != nil || m.Type != "connection_ack" {
		a.Fatalf("%+v, %v", m, err)
	}
	return s
}

func encode(t testing.TB, v any) json.RawMessage {
	t.Helper()
	raw, err := json.Marshal(v)
	if err != nil {
		t.Fatal(err)
	}
	return raw
}

func (s *socket) send(m message) {
	s.t.Helper()
	if err := wsjson.Write(s.t.Context(), s.conn, m); err != nil {
		s.t.Fatal(err)
	}
}

// read returns the next message, skipping those that only keep the connection alive.
func (s *socket) read() (m message, err error) {
	s.t.Helper()
	ctx, cancel := context.WithTimeout(s.t.Context(), 20*time.Second)
	defer cancel()
	for {
		m = message{}
		if err := wsjson.Read(ctx, s.conn, &m); err != nil {
			return m, err
		}
		switch m.Type {
		case "ping":
			s.send(message{Type: "pong"})
		case "pong":
		default:
			return m, nil
		}
	}
}

// Subscribe begins an operation.
func (s *socket) Subscribe(id, query string, v vars) {
	s.t.Helper()
	s.send(message{Type: "subscribe", ID: id, Payload: encode(s.t, map[string]any{"query": query, "variables": v})})
}

// next returns the data of the next message, which must be for this operation.
func (s *socket) next(id string) answer {
	s.t.Helper()
	m, err := s.read()
	if err != nil || m.Type != "next" || m.ID != id {
		s.t.Fatalf("%+v %s, %v; want the next of %s", m, m.Payload, err, id)
	}
	r := answer{Raw: string(m.Payload)}
	if err := json.Unmarshal(m.Payload, &r); err != nil {
		s.t.Fatal(err)
	}
	return r
}

// WantState reads on, and fails the test if the next action is not in this state.
func (s *socket) WantState(id, state string) {
	s.t.Helper()
	if r := s.next(id); r.text("paidActionUpdated", "state") != state {
		s.t.Fatalf("%s, want %s", r.Raw, state)
	}
}

func (s *socket) WantComplete(id string) {
	s.t.Helper()
	if m, err := s.read(); err != nil || m.Type != "complete" || m.ID != id {
		s.t.Fatalf("%+v %s, %v; want %s completed", m, m.Payload, err, id)
	}
}

// WantClosed reads on until the websocket is closed, and fails the test unless that is with this code and reason.
func (s *socket) WantClosed(what, want string) {
	s.t.Helper()
	for {
		if _, err := s.read(); err != nil {
			var end websocket.CloseError
			if errors.As(err, &end); fmt.Sprint(int(end.Code), " ", end.Reason) != want {
				s.t.Errorf("%s: %v, want %s", what, err, want)
			}
			return
		}
	}
}

// events is a stream of server-sent events.
type events struct {
	t       testing.TB
	scanner *bufio.Scanner
	cancel  context.CancelFunc
}

// Events begins an operation over server-sent events.
func (a *api) Events(as person, query string, v vars) *events {
	a.Helper()
	ctx, cancel := context.WithTimeout(a.Ctx, time.Minute)
	a.Cleanup(cancel)
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, a.URL+"/graphql", strings.NewReader(string(encode(a.TB, map[string]any{"query": query, "variables": v}))))
	if err != nil {
		a.Fatal(err)
	}
	req.Header.Set("Content-Type", "application/json")
	req.Header.Set("Accept", "text/event-stream")
	if as != nobody {
		req.Header.Set("Authorization", "Bearer "+as.Key)
	}
	resp, err := http.DefaultTransport.RoundTrip(req)
	if err != nil {
		a.Fatal(err)
	}
	a.Cleanup(func() { resp.Body.Close() })
	if got := resp.Header.Get("Content-Type"); got != "text/event-stream" {
		a.Fatalf("%d, %s", resp.StatusCode, got)
	}
	return &events{a.TB, bufio.NewScanner(resp.Body), cancel}
}

// Next returns the next event and its data, as a browser reads them: an event without data is none. An empty name is
// the end of the stream.
func (e *events) Next() (name string, r answer) {
	e.t.Helper()
	hasData := false
	for e.scanner.Scan() {
		line := e.scanner.Text()
		if event, ok := strings.CutPrefix(line, "event: "); ok {
			name = event
		}
		if data, ok := strings.CutPrefix(line, "data:"); ok {
			r.Raw, hasData = strings.TrimSpace(data), true
		}
		if line != "" || !hasData {
			continue
		}
		if r.Raw != "" {
			if err := json.Unmarshal([]byte(r.Raw), &r); err != nil {
				e.t.Fatal(err)
			}
		}
		return name, r
	}
	return "", r
}

func (e *events) WantState(state string) {
	e.t.Helper()
	if name, r := e.Next(); name != "next" || r.text("paidActionUpdated", "state") != state {
		e.t.Fatalf("%q %s, want %s", name, r.Raw, state)
	}
}

func (e *events) WantComplete() {
	e.t.Helper()
	if name, r := e.Next(); name != "complete" {
		e.t.Fatalf("%q %s, want the end", name, r.Raw)
	}
}

// WantCut fails the test unless the stream has ended without calling itself complete.
func (e *events) WantCut() {
	e.t.Helper()
	if name, r := e.Next(); name != "" {
		e.t.Fatalf("%q %s, want the end of the stream", name, r.Raw)
	}
}

// Package nostrtest is the other side of Nostr Wallet Connect, for tests: a relay (NIP-01) and a wallet service (NIP-47) that are
// connected to it, by real websockets on loopback, with real signatures and encryption.
package nostrtest

import (
	"context"
	"encoding/json"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/coder/websocket"

	"github.com/a-seed-a7aed72f/holdfast/wallet/internal/nostr"
)

// Relay passes events on to those who subscribed to them, and keeps the info events of wallets.
type Relay struct {
	URL string
	// Greeting are messages that each connection gets first, and Noise those that it gets after each event of its own.
	Greeting, Noise []string
	// Refuses makes the relay refuse events of this kind.
	Refuses int
	// Lax makes it pass on whatever it gets to everybody.
	Lax bool
	// Closes makes it refuse subscriptions.
	Closes bool

	mu      sync.Mutex
	infos   []*nostr.Event
	clients map[*client]bool
}

type client struct {
	conn          *websocket.Conn
	subscriptions map[string]filter
}

// filter is what somebody wants to see (NIP-01).
type filter struct {
	Kinds   []int    `json:"kinds"`
	Authors []string `json:"authors"`
	E       []string `json:"#e"`
	P       []string `json:"#p"`
}

func (f filter) matches(e *nostr.Event) bool {
	tagged := func(name string, wanted []string) bool {
		return len(wanted) == 0 || slices.ContainsFunc(e.Tags, func(t []string) bool { return t[0] == name && slices.Contains(wanted, t[1]) })
	}
	return (len(f.Kinds) == 0 || slices.Contains(f.Kinds, e.Kind)) && (len(f.Authors) == 0 || slices.Contains(f.Authors, e.PubKey)) &&
		tagged("e", f.E) && tagged("p", f.P)
}

// NewRelay starts a relay, which stops with the test.
func NewRelay(t testing.TB) *Relay {
	t.Helper()
	r := &Relay{clients: map[*client]bool{}}
	ctx, stop := context.WithCancel(context.Background())
	var connections sync.WaitGroup
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, request *http.Request) {
		connections.Add(1)
		defer connections.Done()
		conn, err := websocket.Accept(w, request, nil)
		if err != nil {
			return
		}
		defer conn.CloseNow()
		r.serve(ctx, &client{conn: conn, subscriptions: map[string]filter{}})
	}))
	r.URL = "ws" + strings.TrimPrefix(server.URL, "http")
	t.Cleanup(func() { stop(); server.Close(); connections.Wait() })
	return r
}

func (r *Relay) serve(ctx context.Context, c *client) {
	r.mu.Lock()
	r.clients[c] = true
	r.mu.Unlock()
	defer func() { r.mu.Lock(); delete(r.clients, c); r.mu.Unlock() }()
	for _, m := range r.Greeting {
		_ = c.conn.Write(ctx, websocket.MessageText, []byte(m))
	}
	for {
		_, text, err := c.conn.Read(ctx)
		if err != nil {
			return
		}
		var parts []json.RawMessage
		var kind string
		if json.Unmarshal(text, &parts) != nil || len(parts) < 2 || json.Unmarshal(parts[0], &kind) != nil {
			return
		}
		switch kind {
		case "EVENT":
			r.event(ctx, c, parts[1])
		case "REQ":
			r.subscribe(ctx, c, parts)
		case "CLOSE":
			var id string
			_ = json.Unmarshal(parts[1], &id)
			r.mu.Lock()
			delete(c.subscriptions, id)
			r.mu.Unlock()
		}
	}
}

func (r *Relay) event(ctx context.Context, from *client, text json.RawMessage) {
	e := new(nostr.Event)
	if json.Unmarshal(text, e) != nil || !r.Lax && !e.Verify() || e.Kind == r.Refuses {
		say(ctx, from, "OK", e.ID, false, "blocked: not here")
		return
	}
	say(ctx, from, "OK", e.ID, true, "")
	for _, m := range r.Noise {
		_ = from.conn.Write(ctx, websocket.MessageText, []byte(m))
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	if e.Kind == kindInfo {
		r.infos = append(r.infos, e)
	}
	for c := range r.clients {
		for id, f := range c.subscriptions {
			if f.matches(e) || r.Lax {
				say(ctx, c, "EVENT", id, e)
			}
		}
	}
}

func (r *Relay) subscribe(ctx context.Context, c *client, parts []json.RawMessage) {
	var id string
	var f filter
	_ = json.Unmarshal(parts[1], &id)
	if len(parts) < 3 || json.Unmarshal(parts[2], &f) != nil || r.Closes {
		say(ctx, c, "CLOSED", id, "error: not here")
		return
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	c.subscriptions[id] = f
	for _, e := range r.infos {
		if f.matches(e) {
			say(ctx, c, "EVENT", id, e)
		}
	}
	say(ctx, c, "EOSE", id)
}

func say(ctx context.Context, c *client, message ...any) {
	text, err := json.Marshal(message)
	if err == nil {
		_ = c.conn.Write(ctx, websocket.MessageText, text) // who has gone misses it
	}
}

package graph

import (
	"bytes"
	"context"
	"encoding/json"
	"io"
	"net/http"
	"sync"
	"sync/atomic"

	"github.com/99designs/gqlgen/graphql"
	"github.com/99designs/gqlgen/graphql/handler/transport"
	coderws "github.com/coder/websocket"

	"github.com/a-seed-a7aed72f/holdfast/paidaction"
)

// Why a websocket is closed. The codes are the protocol's or, where it has none, those of RFC 6455. The reason is one
// of our codes.
const (
	closeTryAgainLater   = 1013
	closeBadRequest      = 4400
	closeUnauthorized    = 4401
	closeInitTimeout     = 4408
	closeIDTaken         = 4409
	closeTooManyRequests = 4429
)

// websockets accepts connections, and checks their messages before gqlgen sees them: gqlgen has no code for a message
// that it cannot read, and closes some connections without a word.
type websockets struct{}

func (websockets) Accept(w http.ResponseWriter, r *http.Request, options transport.WebsocketAcceptOptions) (transport.WebsocketConn, error) {
	// The door has already checked the origin (checkUpgrade).
	coder := transport.CoderWebsocketImplementation{AcceptOptions: coderws.AcceptOptions{InsecureSkipVerify: true}}
	conn, err := coder.Accept(w, r, options)
	if err != nil {
		return nil, err
	}
	return &checkedConn{boundedConn: conn.(boundedConn), active: map[string]bool{}}, nil
}

type boundedConn interface {
	transport.WebsocketConn
	transport.WebsocketReadLimiter
	transport.WebsocketReadDeadliner
}

// checkedConn closes the connection at a message that the protocol does not allow.
type checkedConn struct {
	boundedConn
	begun atomic.Bool // the first message has come

	mu     sync.Mutex
	active map[string]bool // the ids of operations under way
}

// violation is how a message breaks the protocol.
type violation struct {
	status int
	code   paidaction.Code
}

var noMessage = &violation{closeBadRequest, paidaction.CodeInvalidInput}

// NextReader implements transport.WebsocketConn.
func (c *checkedConn) NextReader() (int, io.Reader, error) {
	kind, r, err := c.boundedConn.NextReader()
	if err != nil {
		return kind, r, err
	}
	raw, err := io.ReadAll(r)
	if err != nil {
		return kind, nil, err
	}
	message, broken := c.check(raw)
	if broken != nil {
		_ = c.WriteClose(broken.status, string(broken.code))
		return kind, nil, transport.ErrWebsocketClosed
	}
	c.begun.Store(true)
	return kind, bytes.NewReader(message), nil
}

// What is kept in memory while a connection or an operation lasts.
const (
	longestInit = 16 << 10 // bytes of the first message: a token of a site has a few thousand
	longestID   = 128      // bytes
)

// check returns the message as gqlgen should see it, without what gqlgen would only keep. If a subscribe message holds no valid GraphQL request, it is
// passed on with an empty object, as somebody could send over HTTP: so it is counted and answered like any other
// operation.
func (c *checkedConn) check(raw []byte) ([]byte, *violation) {
	var m struct {
		ID      string          `json:"id,omitempty"`
		Type    string          `json:"type"`
		Payload json.RawMessage `json:"payload,omitempty"`
	}
	if json.Unmarshal(raw, &m) != nil || !c.begun.Load() && m.Type != "connection_init" {
		return nil, noMessage
	}
	switch m.Type {
	case "connection_init":
		if c.begun.Load() {
			return nil, &violation{closeTooManyRequests, codeOperationLimit}
		}
		if len(raw) > longestInit {
			return nil, noMessage
		}
		if len(m.Payload) > 0 && json.Unmarshal(m.Payload, &transport.InitPayload{}) != nil {
			return nil, noMessage
		}
	case "subscribe":
		if m.ID == "" || len(m.ID) > longestID {
			return nil, noMessage
		}
		if !c.begin(m.ID) {
			return nil, &violation{closeIDTaken, paidaction.CodeDuplicate}
		}
		if json.Unmarshal(m.Payload, &graphql.RawParams{}) != nil {
			m.Payload = json.RawMessage(`{}`)
			raw, _ = json.Marshal(m) // nothing in it can fail
		} else if len(raw) > mostFollowing {
			// Of a subscription gqlgen keeps all of the payload, with spaces and with what it does not know.
			var known struct {
				Query         string          `json:"query"`
				OperationName string          `json:"operationName,omitempty"`
				Variables     json.RawMessage `json:"variables,omitempty"`
			}
			_ = json.Unmarshal(m.Payload, &known) // as it was read above
			m.Payload, _ = json.Marshal(known)
			raw, _ = json.Marshal(m)
		}
	case "complete":
		c.end(m.ID)
	case "ping", "pong":
	default:
		return nil, noMessage
	}
	return raw, nil
}

// begin reports whether an operation may have this id: its answers would be taken for those of another one that has it.
func (c *checkedConn) begin(id string) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.active[id] {
		return false
	}
	c.active[id] = true
	return true
}

func (c *checkedConn) end(id string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	delete(c.active, id)
}

// WriteJSON implements transport.WebsocketConn. The id of an operation is free before the client hears that it has
// ended. Whatever else is written ends none, and is not read for it.
func (c *checkedConn) WriteJSON(v any) error {
	raw, err := json.Marshal(v)
	if err != nil {
		return err
	}
	if bytes.HasSuffix(raw, []byte(`"type":"complete"}`)) {
		var m struct {
			ID string `json:"id"`
		}
		if err := json.Unmarshal(raw, &m); err != nil {
			return err
		}
		c.end(m.ID)
	}
	return c.boundedConn.WriteJSON(json.RawMessage(raw))
}

// WriteClose implements transport.WebsocketConn. Before anything was said, gqlgen closes only because that took too
// long, with a code that is not the protocol's.
func (c *checkedConn) WriteClose(status int, reason string) error {
	if status == transport.WebsocketCloseProtocolError && !c.begun.Load() {
		status, reason = closeInitTimeout, string(codeTimeLimit)
	}
	return c.boundedConn.WriteClose(status, reason)
}

// closing makes gqlgen close a connection with this status. The reason is the code of err.
func (d *door) closing(ctx context.Context, status int, err error) (context.Context, *transport.InitPayload, error) {
	refusal := d.present(ctx, err)
	code, _ := refusal.Extensions["code"].(string)
	return transport.WithWebsocketCloseCode(transport.AppendCloseReason(ctx, code), status), nil, refusal
}

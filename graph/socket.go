package graph

import (
	"bytes"
	"context"
	"encoding/json"
	"io"
	"net/http"
	"reflect"
	"strconv"
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
	closeGoingAway       = 1001
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
	return &checkedConn{boundedConn: conn.(boundedConn), numbers: map[string]string{}, ids: map[string]string{}}, nil
}

type boundedConn interface {
	transport.WebsocketConn
	transport.WebsocketReadLimiter
	transport.WebsocketReadDeadliner
}

// checkedConn closes the connection at a message that the protocol does not allow. gqlgen gets a number of ours in
// place of the id that a client gives its operation. So what gqlgen still says of an operation that has ended reaches
// nobody: the client may have begun another one with the same id.
type checkedConn struct {
	boundedConn
	begun  atomic.Bool // connection_init has come
	closed atomic.Bool // nothing more is said, other than why

	mu      sync.Mutex
	last    int               // the number of the latest operation
	numbers map[string]string // of the operations under way, by their ids
	ids     map[string]string // the other way round
}

// violation is how a message breaks the protocol.
type violation struct {
	status int
	code   paidaction.Code
}

var noMessage = &violation{closeBadRequest, paidaction.CodeInvalidInput}

// envelope is a message of the protocol.
type envelope struct {
	ID      string          `json:"id,omitempty"`
	Type    string          `json:"type"`
	Payload json.RawMessage `json:"payload,omitempty"`
}

// What is kept in memory while a connection or an operation lasts.
const (
	longestInit = 16 << 10 // bytes of the first message's payload: a token of a site has a few thousand
	longestID   = 128      // bytes
)

// NextReader implements transport.WebsocketConn.
func (c *checkedConn) NextReader() (int, io.Reader, error) {
	for {
		kind, r, err := c.boundedConn.NextReader()
		if err != nil {
			return kind, r, err
		}
		raw, err := io.ReadAll(r)
		if err != nil {
			return kind, nil, err
		}
		var m envelope
		broken := noMessage
		if json.Unmarshal(raw, &m) == nil {
			broken = c.check(&m)
		}
		if broken != nil {
			_ = c.WriteClose(broken.status, string(broken.code))
			return kind, nil, transport.ErrWebsocketClosed
		}
		if !c.begun.Load() {
			// The protocol allows a ping and a pong at any time, gqlgen only after connection_init.
			if m.Type == "ping" {
				_ = c.boundedConn.WriteJSON(envelope{Type: "pong", Payload: m.Payload})
			}
			continue
		}
		raw, _ = json.Marshal(m) // nothing in it can fail
		return kind, bytes.NewReader(raw), nil
	}
}

// check makes the message what gqlgen should see, without what gqlgen would only keep. If a subscribe message holds no
// valid GraphQL request, it is passed on with an empty object, as somebody could send over HTTP: so it is counted and
// answered like any other operation.
func (c *checkedConn) check(m *envelope) *violation {
	switch begun := c.begun.Load(); m.Type {
	case "connection_init":
		if begun {
			return &violation{closeTooManyRequests, codeOperationLimit}
		}
		if len(m.Payload) > longestInit {
			return noMessage
		}
		if len(m.Payload) > 0 && json.Unmarshal(m.Payload, &transport.InitPayload{}) != nil {
			return noMessage
		}
		c.begun.Store(true)
	case "subscribe":
		if !begun {
			return &violation{closeUnauthorized, paidaction.CodeUnauthenticated}
		}
		if m.ID == "" || len(m.ID) > longestID {
			return noMessage
		}
		if m.ID = c.begin(m.ID); m.ID == "" {
			return &violation{closeIDTaken, paidaction.CodeDuplicate}
		}
		if json.Unmarshal(m.Payload, &graphql.RawParams{}) != nil {
			m.Payload = json.RawMessage(`{}`)
		} else if len(m.Payload) > mostFollowing {
			// Of a subscription gqlgen keeps all of the payload, with spaces and with what it does not know.
			var known struct {
				Query         string          `json:"query"`
				OperationName string          `json:"operationName,omitempty"`
				Variables     json.RawMessage `json:"variables,omitempty"`
			}
			_ = json.Unmarshal(m.Payload, &known) // as it was read above
			m.Payload, _ = json.Marshal(known)
		}
	case "complete":
		if !begun {
			return noMessage
		}
		m.ID = c.end(m.ID)
	case "ping", "pong":
	default:
		return noMessage
	}
	return nil
}

// begin numbers an operation. The number is empty if another operation under way has its id: the answers of the two
// could not be told apart.
func (c *checkedConn) begin(id string) (number string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.numbers[id] != "" {
		return ""
	}
	c.last++
	number = strconv.Itoa(c.last)
	c.numbers[id], c.ids[number] = number, id
	return number
}

// end forgets the operation that a client has ended, and returns its number; empty if there is none.
func (c *checkedConn) end(id string) (number string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	number = c.numbers[id]
	delete(c.numbers, id)
	delete(c.ids, number)
	return number
}

// idOf returns the id of an operation, empty if it is not under way. Whoever says its last word frees the id before the
// client hears it.
func (c *checkedConn) idOf(number string, last bool) (id string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	id = c.ids[number]
	if last {
		delete(c.numbers, id)
		delete(c.ids, number)
	}
	return id
}

// WriteJSON implements transport.WebsocketConn. The id is changed by reflection, since the type of the message is
// gqlgen's own: in its JSON it could be changed only by writing that twice. When the connection is being closed gqlgen
// calls every operation complete, which may come first: it is not, and a client that hears it would not ask again.
func (c *checkedConn) WriteJSON(v any) error {
	if c.closed.Load() {
		return nil
	}
	message := reflect.ValueOf(v).Elem()
	if number := message.FieldByName("ID"); number.String() != "" {
		kind := message.FieldByName("Type").String()
		// After an error there is no complete, though gqlgen sends one.
		id := c.idOf(number.String(), kind == "complete" || kind == "error")
		if id == "" {
			return nil
		}
		number.SetString(id)
	}
	return c.boundedConn.WriteJSON(v)
}

// WriteClose implements transport.WebsocketConn. Before anything was said, gqlgen closes only because that took too
// long, with a code that is not the protocol's. Later it closes of itself only because we shut down, and calls that
// normal: after a normal end, some clients do not come back.
func (c *checkedConn) WriteClose(status int, reason string) error {
	switch {
	case status == transport.WebsocketCloseProtocolError && !c.begun.Load():
		status, reason = closeInitTimeout, string(codeTimeLimit)
	case status == transport.WebsocketCloseNormalClosure:
		status, reason = closeGoingAway, string(paidaction.CodeTryAgain)
	}
	c.closed.Store(true)
	return c.boundedConn.WriteClose(status, reason)
}

// closing makes gqlgen close a connection with this status. The reason is the code of err.
func (d *door) closing(ctx context.Context, status int, err error) (context.Context, *transport.InitPayload, error) {
	refusal := d.present(ctx, err)
	code, _ := refusal.Extensions["code"].(string)
	return transport.WithWebsocketCloseCode(transport.AppendCloseReason(ctx, code), status), nil, refusal
}

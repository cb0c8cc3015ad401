package graph

import (
	"bytes"
	"context"
	"encoding/json"
	"io"
	"net/http"

	"github.com/99designs/gqlgen/graphql"
	"github.com/99designs/gqlgen/graphql/handler/transport"
	coderws "github.com/coder/websocket"

	"github.com/a-seed-a7aed72f/holdfast/paidaction"
)

// Why a websocket is closed, as the protocol has it, or RFC 6455 where the protocol says nothing. The reason beside it is a code of ours.
const (
	closeTryAgainLater   = 1013
	closeBadRequest      = 4400
	closeUnauthorized    = 4401
	closeTooManyRequests = 4429
)

// websockets accepts connections whose messages are looked at before gqlgen sees them, which has no code for what it cannot read, and
// leaves some of it without a word.
type websockets struct{}

func (websockets) Accept(w http.ResponseWriter, r *http.Request, options transport.WebsocketAcceptOptions) (transport.WebsocketConn, error) {
	// The origin is checked at the door, in the open.
	coder := transport.CoderWebsocketImplementation{AcceptOptions: coderws.AcceptOptions{InsecureSkipVerify: true}}
	conn, err := coder.Accept(w, r, options)
	if err != nil {
		return nil, err
	}
	return &checkedConn{boundedConn: conn.(boundedConn)}, nil
}

type boundedConn interface {
	transport.WebsocketConn
	transport.WebsocketReadLimiter
	transport.WebsocketReadDeadliner
}

// checkedConn closes the connection at a message that is none of the protocol.
type checkedConn struct {
	boundedConn
	begun bool // the first message has come
}

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
	message, ok := checkMessage(raw, !c.begun)
	if !ok {
		_ = c.WriteClose(closeBadRequest, string(paidaction.CodeInvalidInput))
		return kind, nil, transport.ErrWebsocketClosed
	}
	c.begun = true
	return kind, bytes.NewReader(message), nil
}

// checkMessage is the message as gqlgen is to see it. What asks for something that is no GraphQL asks for nothing, as it would over HTTP by
// an empty object: that is counted, and answered, as any other operation.
func checkMessage(raw []byte, first bool) (message []byte, ok bool) {
	var m struct {
		ID      string          `json:"id,omitempty"`
		Type    string          `json:"type"`
		Payload json.RawMessage `json:"payload,omitempty"`
	}
	if json.Unmarshal(raw, &m) != nil || first != (m.Type == "connection_init") {
		return nil, false
	}
	switch m.Type {
	case "connection_init":
		return raw, len(m.Payload) == 0 || json.Unmarshal(m.Payload, &transport.InitPayload{}) == nil
	case "subscribe":
		if m.ID == "" {
			return nil, false
		}
		if json.Unmarshal(m.Payload, &graphql.RawParams{}) != nil {
			m.Payload = json.RawMessage(`{}`)
			raw, err := json.Marshal(m)
			return raw, err == nil
		}
		return raw, true
	}
	return raw, m.Type == "complete" || m.Type == "ping" || m.Type == "pong"
}

// closing has gqlgen close a connection with this code and, as its reason, the code of err.
func (d *door) closing(ctx context.Context, status int, err error) (context.Context, *transport.InitPayload, error) {
	refusal := d.present(ctx, err)
	code, _ := refusal.Extensions["code"].(string)
	return transport.WithWebsocketCloseCode(transport.AppendCloseReason(ctx, code), status), nil, refusal
}

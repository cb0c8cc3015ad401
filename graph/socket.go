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

// Why a websocket is closed. The codes are the protocol's or, where it has none, those of RFC 6455. The reason is one
// of our codes.
const (
	closeTryAgainLater   = 1013
	closeBadRequest      = 4400
	closeUnauthorized    = 4401
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
	return &checkedConn{boundedConn: conn.(boundedConn)}, nil
}

type boundedConn interface {
	transport.WebsocketConn
	transport.WebsocketReadLimiter
	transport.WebsocketReadDeadliner
}

// checkedConn closes the connection at a message that is not part of the protocol.
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

// checkMessage returns the message as gqlgen should see it. If a subscribe message holds no valid GraphQL request, it
// is passed on with an empty object, as somebody could send over HTTP: so it is counted and answered like any other
// operation.
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

// closing makes gqlgen close a connection with this status. The reason is the code of err.
func (d *door) closing(ctx context.Context, status int, err error) (context.Context, *transport.InitPayload, error) {
	refusal := d.present(ctx, err)
	code, _ := refusal.Extensions["code"].(string)
	return transport.WithWebsocketCloseCode(transport.AppendCloseReason(ctx, code), status), nil, refusal
}

package outside

import (
	"context"
	"net/http"
	"strings"

	"github.com/coder/websocket"
)

// Socket is an open websocket. Its errors are those of this package.
type Socket struct{ conn *websocket.Conn }

// Websocket opens a websocket. It reads messages of at most MaxBody bytes, and not much more than that in all. The
// caller closes it.
func (c *Client) Websocket(ctx context.Context, address string) (*Socket, error) {
	target, err := c.Parse(address)
	if err != nil {
		return nil, err
	}
	dialing, cancel := context.WithTimeout(ctx, c.timeout)
	defer cancel()
	conn, _, err := websocket.Dial(dialing, target.String(), &websocket.DialOptions{
		HTTPClient: c.http(nil), HTTPHeader: http.Header{"User-Agent": {userAgent}},
	})
	if err != nil {
		return nil, explain(dialing, err)
	}
	conn.SetReadLimit(MaxBody)
	return &Socket{conn}, nil
}

// Read waits for a message. Once ctx has ended the socket cannot be used any more.
func (s *Socket) Read(ctx context.Context) ([]byte, error) {
	_, message, err := s.conn.Read(ctx)
	if err != nil {
		return nil, explain(ctx, err)
	}
	return message, nil
}

// Write sends a text message.
func (s *Socket) Write(ctx context.Context, message []byte) error {
	if err := s.conn.Write(ctx, websocket.MessageText, message); err != nil {
		return explain(ctx, err)
	}
	return nil
}

// Close closes the connection without a handshake.
func (s *Socket) Close() { _ = s.conn.CloseNow() } // nothing is lost by it

// websocketHeader reports whether a header belongs to the websocket handshake.
func websocketHeader(name string) bool {
	return name == "Connection" || name == "Upgrade" || strings.HasPrefix(name, "Sec-Websocket-")
}

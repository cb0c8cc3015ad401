package outside

import (
	"context"
	"net/http"
	"strings"

	"github.com/coder/websocket"
)

// Websocket opens one. It reads messages of MaxBody bytes at most, and not much more than that in all; Read and Write obey their
// contexts. The caller calls CloseNow.
func (c *Client) Websocket(ctx context.Context, address string) (*websocket.Conn, error) {
	target, err := c.Parse(address)
	if err != nil {
		return nil, err
	}
	conn, _, err := websocket.Dial(ctx, target.String(), &websocket.DialOptions{
		HTTPClient: c.http(nil), HTTPHeader: http.Header{"User-Agent": {userAgent}},
	})
	if err != nil {
		return nil, explain(ctx, err)
	}
	conn.SetReadLimit(MaxBody)
	return conn, nil
}

// websocketHeader says whether a header is of the websocket's handshake.
func websocketHeader(name string) bool {
	return name == "Connection" || name == "Upgrade" || strings.HasPrefix(name, "Sec-Websocket-")
}

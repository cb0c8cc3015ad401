package demo

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"strings"

	"github.com/coder/websocket"
	"github.com/coder/websocket/wsjson"

	"github.com/a-seed-a7aed72f/holdfast/internal/apiclient"
)

// client speaks GraphQL to the service as one person: signed in with a key, or anonymous without one.
type client struct {
	url string // of the service
	key string
}

// SignUp makes a user of a service in development mode, and returns their API key. The text of its error is the
// service's refusal.
func SignUp(ctx context.Context, url, name string) (key string, err error) {
	var answer struct {
		Key string `json:"key"`
	}
	err = client{url: url}.do(ctx, &answer, `mutation ($name: String!) { signUp(name: $name) { key } }`, map[string]any{"name": name})
	return answer.Key, err
}

// action is a paid action as the API shows it.
type action struct {
	ID        string `json:"id"`
	State     string `json:"state"`
	Method    string `json:"paymentMethod"`
	Secret    string `json:"secret"`
	Successor string `json:"successorId"`
	Invoice   *struct {
		Bolt11 string `json:"bolt11"`
		Hash   string `json:"paymentHash"`
	} `json:"invoice"`
	Failure *struct {
		Code string `json:"code"`
	} `json:"failure"`
	Result *struct {
		Item *struct {
			ID   string `json:"id"`
			Poll *struct {
				Options []struct {
					ID string `json:"id"`
				} `json:"options"`
			} `json:"poll"`
		} `json:"item"`
	} `json:"result"`
}

// fields are the fields requested of every action.
const fields = ` { id state paymentMethod secret successorId invoice { bolt11 paymentHash } failure { code } }`

// itemFields are fields, and the item that was made.
var itemFields = strings.TrimSuffix(fields, "}") + ` result { item { id } } }`

// do runs an operation with variables and reads its one field into a value.
func (c client) do(ctx context.Context, into any, query string, variables map[string]any) error {
	return apiclient.Ask(ctx, http.DefaultClient, c.url, c.key, into, query, variables)
}

// act runs a mutation that returns an action.
func (c client) act(ctx context.Context, query string, variables map[string]any) (action, error) {
	var a action
	err := c.do(ctx, &a, query, variables)
	return a, err
}

// follow subscribes to an action, and calls on for each state that it shows, beginning with the present one, until on
// returns false.
func (c client) follow(ctx context.Context, a action, on func(action) (more bool)) error {
	conn, _, err := websocket.Dial(ctx, "ws"+strings.TrimPrefix(c.url, "http")+"/graphql",
		&websocket.DialOptions{Subprotocols: []string{"graphql-transport-ws"}})
	if err != nil {
		return err
	}
	defer conn.CloseNow()
	type message struct {
		ID      string          `json:"id,omitempty"`
		Type    string          `json:"type"`
		Payload json.RawMessage `json:"payload,omitempty"`
	}
	hello := json.RawMessage(`{}`)
	if c.key != "" {
		hello, _ = json.Marshal(map[string]string{"Authorization": "Bearer " + c.key}) // strings always encode
	}
	if err := wsjson.Write(ctx, conn, message{Type: "connection_init", Payload: hello}); err != nil {
		return err
	}
	for {
		var m message
		if err := wsjson.Read(ctx, conn, &m); err != nil {
			return err
		}
		switch m.Type {
		case "connection_ack":
			payload, err := json.Marshal(map[string]any{
				"query":     `subscription ($id: ID!, $secret: String) { paidActionUpdated(id: $id, secret: $secret)` + fields + ` }`,
				"variables": map[string]any{"id": a.ID, "secret": nonEmpty(a.Secret)},
			})
			if err != nil {
				return err
			}
			if err := wsjson.Write(ctx, conn, message{ID: "1", Type: "subscribe", Payload: payload}); err != nil {
				return err
			}
		case "ping":
			if err := wsjson.Write(ctx, conn, message{Type: "pong"}); err != nil {
				return err
			}
		case "next":
			var answer apiclient.Answer
			var now action
			if err := json.Unmarshal(m.Payload, &answer); err != nil {
				return err
			}
			if err := answer.Field(&now); err != nil {
				return err
			}
			if !on(now) {
				return conn.Close(websocket.StatusNormalClosure, "")
			}
		case "error", "complete":
			return fmt.Errorf("the subscription ended with %s %s", m.Type, m.Payload)
		}
	}
}

// await follows an action until it is in one of the states, and returns it. It subscribes again when the connection
// breaks, because the service may be restarted meanwhile.
func (c client) await(ctx context.Context, a action, states ...string) (action, error) {
	for {
		last := a
		found := false
		err := c.follow(ctx, a, func(now action) bool {
			last = now
			for _, s := range states {
				found = found || now.State == s
			}
			return !found
		})
		switch {
		case found:
			return last, nil
		case ctx.Err() != nil:
			return last, fmt.Errorf("action %s is %s, not %s: %w", a.ID, last.State, strings.Join(states, " or "), context.Cause(ctx))
		case err != nil:
			if refused := (*apiclient.Refusal)(nil); errors.As(err, &refused) {
				return last, err
			}
			if err := pause(ctx); err != nil {
				return last, err
			}
		}
	}
}

// cancel cancels an action and returns it once the node has confirmed that: until then it is CANCELING.
func (c client) cancel(ctx context.Context, a action) (action, error) {
	now, err := c.act(ctx, cancelAction, map[string]any{"id": a.ID})
	if err != nil || now.State != "CANCELING" {
		return now, err
	}
	return c.await(ctx, a, "FAILED")
}

// nonEmpty is null for an empty string.
func nonEmpty(s string) *string {
	if s == "" {
		return nil
	}
	return &s
}

package lightning

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/lightningnetwork/lnd/lnrpc"
	"github.com/lightningnetwork/lnd/lnrpc/chainrpc"
	"github.com/lightningnetwork/lnd/lnrpc/invoicesrpc"
	"github.com/lightningnetwork/lnd/lnrpc/routerrpc"

	"github.com/a-seed-a7aed72f/holdfast/paidaction"
)

// Client is one LND node. It is safe for concurrent use.
type Client struct {
	cfg      Config
	conn     *grpc.ClientConn
	macaroon macaroonCredentials
	silence  silence
	known    known
	ends     ends       // calls that go on when their callers have given up
	large    sync.Mutex // whoever has it reads an answer of any size

	main     mainRPC
	invoices invoicesRPC
	router   routerRPC
	chain    chainRPC
}

var (
	_ paidaction.SendingNode = (*Client)(nil)
	_ paidaction.NodeEvents  = (*Client)(nil)
)

func newClient(cfg Config, conn *grpc.ClientConn, macaroon macaroonCredentials) *Client {
	return &Client{
		cfg:      cfg,
		conn:     conn,
		macaroon: macaroon,
		main:     lnrpc.NewLightningClient(conn),
		invoices: invoicesrpc.NewInvoicesClient(conn),
		router:   routerrpc.NewRouterClient(conn),
		chain:    chainrpc.NewChainNotifierClient(conn),
	}
}

// Name is the name in the configuration.
func (c *Client) Name() string { return c.cfg.Name }

// closeTimeout is how long Close waits for calls that must not be broken off.
const closeTimeout = 5 * time.Second

// Close ends the connection and every stream on it. Before that it waits, no longer than closeTimeout, for calls that
// change an invoice: their callers have given up, but that a process is told to end must not break them off (toEnd). No
// further such call reaches the node once Close has begun.
func (c *Client) Close() error {
	end := sync.OnceValue(c.conn.Close)
	late := time.AfterFunc(closeTimeout, func() { _ = end() }) // ends the calls, too
	defer late.Stop()
	c.ends.close()
	return end()
}

// rpc is a unary method of a generated client.
type rpc[Request, Response any] func(context.Context, *Request, ...grpc.CallOption) (*Response, error)

// call makes one unary call under the client's own deadline. Its errors are classified by the table in errors.go.
func call[Request, Response any](
	ctx context.Context, c *Client, name string, method rpc[Request, Response], request *Request, options ...grpc.CallOption,
) (*Response, error) {
	leave, ok := c.silence.enter()
	if !ok {
		return nil, c.silent(name)
	}
	began := time.Now()
	limited, cancel := context.WithTimeout(ctx, c.cfg.CallTimeout)
	defer cancel()
	response, err := method(limited, request, options...)
	c.cfg.Log.DebugContext(ctx, "the node was asked", "node", c.cfg.Name, "call", name, "took", time.Since(began), "error", err)
	// Measure by the clock: gRPC may give up at the deadline a moment before limited ends.
	late := time.Since(began) >= c.cfg.CallTimeout && ctx.Err() == nil
	leave(err == nil || !errors.Is(meaningOf(err), ErrUnreachable), late)
	if err != nil {
		return nil, c.explain(ctx, name, err)
	}
	return response, nil
}

// toEnd makes a call go on at the node after its caller has given up. If a call ends early, LND with native SQL aborts
// its transaction, although PostgreSQL may have committed it (for instance while no replica answers). Then the invoice
// is settled or cancelled, but LND tells no channel of it, and says when asked again that this was done already. The
// payment would hang until the node or its peer is restarted, or the channel is force-closed.
func toEnd[Request, Response any](c *Client, own change, method rpc[Request, Response]) rpc[Request, Response] {
	return func(ctx context.Context, request *Request, options ...grpc.CallOption) (*Response, error) {
		type answer struct {
			response *Response
			err      error
		}
		answers := make(chan answer, 1)
		err := c.ends.begin(own, func() {
			limited, cancel := context.WithTimeout(context.WithoutCancel(ctx), endTimeout)
			defer cancel()
			response, err := method(limited, request, options...)
			c.ends.leave(own) // before the caller hears of it, who may call again at once
			answers <- answer{response, err}
		})
		if err != nil {
			return nil, status.Error(codes.Canceled, err.Error())
		}
		select {
		case a := <-answers:
			return a.response, a.err
		case <-ctx.Done():
			return nil, status.FromContextError(ctx.Err()).Err()
		}
	}
}

// endTimeout is longer than any database stands still.
const endTimeout = time.Hour

// silent refuses a call to a node that does not answer.
func (c *Client) silent(method string) error {
	return fmt.Errorf("lightning node %s: %s: %w: it does not answer, and somebody else is asking", c.cfg.Name, method, ErrUnreachable)
}

// explain wraps an error with the node, the method, and its meaning.
func (c *Client) explain(ctx context.Context, method string, err error) error {
	meaning := meaningOf(err)
	if ctx.Err() != nil {
		// The caller gave up; the node may still act on the call.
		return fmt.Errorf("lightning node %s: %s: %w: %w", c.cfg.Name, method, ErrUnreachable, context.Cause(ctx))
	}
	if meaning == nil {
		return fmt.Errorf("lightning node %s: %s: %w", c.cfg.Name, method, err)
	}
	return fmt.Errorf("lightning node %s: %s: %w: %w", c.cfg.Name, method, meaning, err)
}

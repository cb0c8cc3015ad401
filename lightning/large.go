package lightning

import (
	"context"
	"fmt"
	"math"
	"sync"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/lightningnetwork/lnd/lnrpc"

	"github.com/a-seed-a7aed72f/holdfast/paidaction"
)

// unlimited lets an answer be as large as LND can send it. Strangers choose how large an invoice becomes (inPages), and
// with any smaller limit they could keep its action open for ever, with the money at the node. LND has had to hold as
// much itself.
var unlimited = grpc.MaxCallRecvMsgSize(math.MaxInt32)

// largeTimeout is how long one of them may keep others away, where other calls have less: as long as a job may take.
const largeTimeout = 30 * time.Second

// tooLarge reports whether an answer was larger than maxMessageBytes.
func tooLarge(err error) bool { return status.Code(err) == codes.ResourceExhausted }

// takeTurn makes the caller the only one who reads a large answer, lest many take all the memory there is. Who finds
// another reading does not wait, since the same workers serve all nodes, and comes back later.
func (c *Client) takeTurn(method string) (leave func(), err error) {
	if !c.large.TryLock() {
		return nil, fmt.Errorf("lightning node %s: %s: %w: its answer is large, and another such is being read", c.cfg.Name, method, ErrUnreachable)
	}
	return sync.OnceFunc(c.large.Unlock), nil
}

// lookupLarge looks an invoice up that is too large for call. A node takes long to tell so much and may answer all else
// at once, so it does not count as silent.
func (c *Client) lookupLarge(ctx context.Context, h paidaction.Hash) (*lnrpc.Invoice, error) {
	leave, err := c.takeTurn("LookupInvoice")
	if err != nil {
		return nil, err
	}
	defer leave()
	limited, cancel := context.WithTimeout(ctx, max(largeTimeout, c.cfg.CallTimeout))
	defer cancel()
	found, err := c.main.LookupInvoice(limited, &lnrpc.PaymentHash{RHash: h[:]}, unlimited)
	if err != nil {
		return nil, c.explain(ctx, "LookupInvoice", err)
	}
	return found, nil
}

// watchLarge watches an invoice that is too large for other streams. These open one after the other: after a restart
// all would tell at the same time.
func (c *Client) watchLarge(ctx context.Context, h paidaction.Hash, on func(paidaction.InvoiceEvent) error) error {
	leave, err := c.takeTurn("SubscribeSingleInvoice")
	if err != nil {
		return fmt.Errorf("%w: %w", ErrStreamEnded, err)
	}
	defer leave()
	late := time.AfterFunc(max(largeTimeout, c.cfg.CallTimeout), leave) // the node may no longer know the invoice, and say nothing
	defer late.Stop()
	return c.watchInvoice(ctx, h, func(e paidaction.InvoiceEvent) error { leave(); return on(e) }, unlimited)
}

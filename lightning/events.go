package lightning

import (
	"context"
	"errors"
	"fmt"
	"io"
	"sync"

	"github.com/lightningnetwork/lnd/lnrpc"
	"github.com/lightningnetwork/lnd/lnrpc/chainrpc"
	"github.com/lightningnetwork/lnd/lnrpc/invoicesrpc"
	"golang.org/x/sync/errgroup"
	"google.golang.org/grpc"

	"github.com/a-seed-a7aed72f/holdfast/paidaction"
)

// WatchInvoices implements paidaction.NodeEvents. LND replays added invoices in their present state but leaves out
// those that are now ACCEPTED or CANCELED, so add indices have gaps there. LND compares both indices with every event,
// so an index that the node has not reached silences the stream. That happens if the node was wiped or restored, or
// moved to native SQL, which counts settled invoices from 1 again. A second stream reports what the first one leaves
// out, until the node is known to be beyond both indices.
func (c *Client) WatchInvoices(ctx context.Context, addIndex, settleIndex uint64, on func(paidaction.InvoiceEvent) error) error {
	group, ctx := errgroup.WithContext(ctx)
	var turn sync.Mutex // on is called by one stream at a time
	tell := func(e paidaction.InvoiceEvent) error {
		turn.Lock()
		defer turn.Unlock()
		return on(e)
	}
	group.Go(func() error {
		return c.subscribeInvoices(ctx, addIndex, settleIndex, func(e paidaction.InvoiceEvent) (bool, error) { return false, tell(e) })
	})
	added, settled := addIndex == 0, settleIndex == 0 // the node is beyond that index
	if added && settled {
		return group.Wait()
	}
	group.Go(func() error {
		return c.subscribeInvoices(ctx, 0, 0, func(e paidaction.InvoiceEvent) (bool, error) { // what happens from now on
			index, from, beyond := e.AddIndex, addIndex, &added
			if e.State == paidaction.InvoiceSettled {
				index, from, beyond = e.SettleIndex, settleIndex, &settled
			}
			if index <= from {
				return false, tell(e)
			}
			*beyond = true
			return added && settled, nil
		})
	})
	return group.Wait()
}

// subscribeInvoices passes the node's stream of invoices after these indices to on. Index 0 replays nothing. A
// spontaneous AMP payment has no hash: its events come with the zero hash, because of their indices.
func (c *Client) subscribeInvoices(
	ctx context.Context, addIndex, settleIndex uint64, on func(paidaction.InvoiceEvent) (stop bool, err error),
) error {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel() // ends the stream at the node when on gives up
	// No event can be left out: the stream would end at it, and begin with it again, for ever.
	stream, err := c.main.SubscribeInvoices(ctx, &lnrpc.InvoiceSubscription{AddIndex: addIndex, SettleIndex: settleIndex}, unlimited)
	return receive(ctx, c, "SubscribeInvoices", stream, err, func(m *lnrpc.Invoice) (bool, error) {
		if len(m.RHash) == 0 {
			m.RHash = make([]byte, len(paidaction.Hash{}))
		}
		event, err := invoiceEvent(m)
		if err != nil {
			return false, err
		}
		return on(event)
	})
}

// WatchInvoice implements paidaction.NodeEvents. If the node does not know the invoice, it waits until there is one.
func (c *Client) WatchInvoice(ctx context.Context, h paidaction.Hash, on func(paidaction.InvoiceEvent) error) error {
	err := c.watchInvoice(ctx, h, on)
	if tooLarge(err) {
		return c.watchLarge(ctx, h, on)
	}
	return err
}

func (c *Client) watchInvoice(ctx context.Context, h paidaction.Hash, on func(paidaction.InvoiceEvent) error, options ...grpc.CallOption) error {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	stream, err := c.invoices.SubscribeSingleInvoice(ctx, &invoicesrpc.SubscribeSingleInvoiceRequest{RHash: h[:]}, options...)
	return receive(ctx, c, "SubscribeSingleInvoice", stream, err, func(m *lnrpc.Invoice) (bool, error) {
		event, err := invoiceEvent(m)
		if err != nil {
			return false, err
		}
		event.AddIndex = 0
		final := event.State == paidaction.InvoiceSettled || event.State == paidaction.InvoiceCanceled
		return final, on(event)
	})
}

// WatchBlocks implements paidaction.NodeEvents.
func (c *Client) WatchBlocks(ctx context.Context, on func(height uint32) error) error {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	stream, err := c.chain.RegisterBlockEpochNtfn(ctx, &chainrpc.BlockEpoch{}) // empty: the best block first
	return receive(ctx, c, "RegisterBlockEpochNtfn", stream, err, func(m *chainrpc.BlockEpoch) (bool, error) {
		return false, on(m.Height)
	})
}

// receive passes every message of a stream to on until on says stop or fails, the context ends, or the stream ends,
// which gives ErrStreamEnded.
func receive[Message any, Stream interface{ Recv() (*Message, error) }](
	ctx context.Context, c *Client, method string, stream Stream, err error, on func(*Message) (stop bool, err error),
) error {
	c.cfg.Log.DebugContext(ctx, "the node tells", "node", c.cfg.Name, "call", method, "error", err)
	for {
		var message *Message
		if err == nil {
			message, err = stream.Recv()
		}
		switch {
		case err == nil:
		case ctx.Err() != nil:
			return ctx.Err()
		case errors.Is(err, io.EOF):
			return fmt.Errorf("lightning node %s: %s: %w", c.cfg.Name, method, ErrStreamEnded)
		default:
			return fmt.Errorf("%w: %w", ErrStreamEnded, c.explain(ctx, method, err))
		}
		if stop, err := on(message); err != nil || stop {
			return err
		}
	}
}

func invoiceEvent(m *lnrpc.Invoice) (paidaction.InvoiceEvent, error) {
	state, err := invoiceState(m.State)
	if err != nil {
		return paidaction.InvoiceEvent{}, err
	}
	event := paidaction.InvoiceEvent{State: state, AddIndex: m.AddIndex, SettleIndex: m.SettleIndex}
	if copy(event.Hash[:], m.RHash) != len(event.Hash) {
		return paidaction.InvoiceEvent{}, fmt.Errorf("payment hash of %d bytes", len(m.RHash))
	}
	return event, nil
}

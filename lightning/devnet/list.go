package devnet

import (
	"context"
	"encoding/hex"
	"fmt"

	"github.com/lightningnetwork/lnd/lnrpc"
)

// listPage is how many payments or invoices are read at a time.
const listPage = 1000

// Payments are all payments that the node has tried, by hash (hex).
func (n *Node) Payments(ctx context.Context) (map[string]Payment, error) {
	all := map[string]Payment{}
	for from := uint64(0); ; {
		page, err := n.lightning().ListPayments(ctx, &lnrpc.ListPaymentsRequest{IncludeIncomplete: true, IndexOffset: from, MaxPayments: listPage})
		if err != nil {
			return nil, fmt.Errorf("%s: list payments: %w", n.name, err)
		}
		for _, p := range page.Payments {
			all[p.PaymentHash] = paymentOf(p)
		}
		if len(page.Payments) == 0 {
			return all, nil
		}
		from = page.LastIndexOffset
	}
}

// Invoices are all invoices that the node has issued, by hash (hex).
func (n *Node) Invoices(ctx context.Context) (map[string]Invoice, error) {
	all := map[string]Invoice{}
	for from := uint64(0); ; {
		page, err := n.lightning().ListInvoices(ctx, &lnrpc.ListInvoiceRequest{IndexOffset: from, NumMaxInvoices: listPage})
		if err != nil {
			return nil, fmt.Errorf("%s: list invoices: %w", n.name, err)
		}
		for _, i := range page.Invoices {
			all[hex.EncodeToString(i.RHash)] = invoiceOf(i)
		}
		if len(page.Invoices) == 0 {
			return all, nil
		}
		from = page.LastIndexOffset
	}
}

// Forgotten are the payments (by hash, in hex) that are in flight according to the node, although none of its channels
// carries them. An LND that is killed between recording a payment and committing it to the channel never hears of it
// again. For a moment this is so of every payment, so only those for which it stays so are forgotten.
func (n *Node) Forgotten(ctx context.Context) (map[string]bool, error) {
	payments, err := n.Payments(ctx)
	if err != nil {
		return nil, err
	}
	channels, err := n.lightning().ListChannels(ctx, &lnrpc.ListChannelsRequest{})
	if err != nil {
		return nil, fmt.Errorf("%s: list channels: %w", n.name, err)
	}
	forgotten := map[string]bool{}
	for hash, p := range payments {
		if !p.Settled && p.Failure == "" {
			forgotten[hash] = true
		}
	}
	for _, channel := range channels.Channels {
		for _, htlc := range channel.PendingHtlcs {
			delete(forgotten, hex.EncodeToString(htlc.HashLock))
		}
	}
	return forgotten, nil
}

package lightning

import (
	"context"
	"errors"
	"fmt"
	"time"

	"google.golang.org/grpc"

	"github.com/lightningnetwork/lnd/lnrpc"
	"github.com/lightningnetwork/lnd/lnrpc/invoicesrpc"
	"github.com/lightningnetwork/lnd/record"

	"github.com/a-seed-a7aed72f/holdfast/lightning/internal/request"
	"github.com/a-seed-a7aed72f/holdfast/paidaction"
)

// OpenInvoice implements paidaction.Node.
func (c *Client) OpenInvoice(ctx context.Context, r paidaction.InvoiceRequest) (string, error) {
	if err := request.Check(r); err != nil {
		return "", err
	}
	bolt11, err := c.addInvoice(ctx, r)
	if !errors.Is(err, ErrInvoiceExists) {
		return bolt11, err
	}
	found, err := c.LookupInvoice(ctx, r.Hash)
	if err != nil {
		return "", err
	}
	if err := found.IsFor(r); err != nil {
		return "", fmt.Errorf("lightning node %s: invoice %s over %d msat: %w", c.cfg.Name, r.Hash, found.Amount, err)
	}
	return found.Bolt11, nil
}

func (c *Client) addInvoice(ctx context.Context, r paidaction.InvoiceRequest) (string, error) {
	expiry := int64(r.Expiry.Seconds())
	var description []byte // LND puts it into the bolt11 in place of the memo, but keeps the memo
	if r.DescriptionHash != ([32]byte{}) {
		description = r.DescriptionHash[:]
	}
	if r.Hold {
		added, err := call(ctx, c, "AddHoldInvoice", c.invoices.AddHoldInvoice, &invoicesrpc.AddHoldInvoiceRequest{
			Hash: r.Hash[:], ValueMsat: int64(r.Amount), Memo: r.Memo, DescriptionHash: description, Expiry: expiry, CltvExpiry: uint64(r.CLTVDelta),
		})
		return added.GetPaymentRequest(), err
	}
	added, err := call(ctx, c, "AddInvoice", c.main.AddInvoice, &lnrpc.Invoice{
		RPreimage: r.Preimage[:], ValueMsat: int64(r.Amount), Memo: r.Memo, DescriptionHash: description, Expiry: expiry, CltvExpiry: uint64(r.CLTVDelta),
	})
	return added.GetPaymentRequest(), err
}

// LookupInvoice implements paidaction.Node.
func (c *Client) LookupInvoice(ctx context.Context, h paidaction.Hash) (paidaction.NodeInvoice, error) {
	found, err := call(ctx, c, "LookupInvoice", c.main.LookupInvoice, &lnrpc.PaymentHash{RHash: h[:]})
	if tooLarge(err) {
		found, err = c.lookupLarge(ctx, h)
	}
	if err != nil {
		return paidaction.NodeInvoice{}, err
	}
	return nodeInvoice(h, found)
}

// nodeInvoice is an invoice as its node sees it now.
func nodeInvoice(h paidaction.Hash, found *lnrpc.Invoice) (view paidaction.NodeInvoice, err error) {
	view = paidaction.NodeInvoice{
		Hash: h, Bolt11: found.PaymentRequest, Memo: found.Memo, CLTVDelta: uint32(found.CltvExpiry), Amount: paidaction.Msat(found.ValueMsat),
		// LND shows the preimage of a plain invoice from the start, that of a hold invoice only once it is settled.
		Holds: len(found.RPreimage) == 0 || found.State == lnrpc.Invoice_SETTLED,
	}
	if view.State, err = invoiceState(found.State); err != nil {
		return paidaction.NodeInvoice{}, err
	}
	// Do not use amt_paid_msat: LND does not reset it when it cancels a held invoice, so it includes money that went
	// back. The HTLCs are what the node really holds or took (spec 01 §1.5).
	for _, htlc := range found.Htlcs {
		switch htlc.State {
		case lnrpc.InvoiceHTLCState_ACCEPTED:
			if height := uint32(htlc.ExpiryHeight); view.ExpiryHeight == 0 || height < view.ExpiryHeight {
				view.ExpiryHeight = height
			}
		case lnrpc.InvoiceHTLCState_SETTLED:
		default:
			continue
		}
		amount := paidaction.Msat(htlc.AmtMsat)
		view.Received += amount
		_, keysend := htlc.CustomRecords[uint64(record.KeySendType)]
		switch { // each part is said apart once, however it came: both sums are taken off what was received
		case htlc.State == lnrpc.InvoiceHTLCState_SETTLED && htlc.AcceptHeight == 0: // LND found it in a channel that was closed by force (contractcourt)
			view.OnChain += amount
		case keysend:
			view.Keysend += amount
		}
	}
	return view, nil
}

// SettleInvoice implements paidaction.Node. It fails with ErrInvoiceOpen while nothing is held, with
// paidaction.ErrInvoiceCanceled once the held payment was given back, and with paidaction.ErrInvoiceNotFound.
func (c *Client) SettleInvoice(ctx context.Context, p paidaction.Preimage) error {
	method := toEnd(c, change{"SettleInvoice", p.Hash()}, c.invoices.SettleInvoice)
	_, err := call(ctx, c, "SettleInvoice", method, &invoicesrpc.SettleInvoiceMsg{Preimage: p[:]})
	if errors.Is(err, ErrInvoiceSettled) {
		return nil
	}
	return err
}

// CancelInvoice implements paidaction.Node.
func (c *Client) CancelInvoice(ctx context.Context, h paidaction.Hash) error {
	method := toEnd(c, change{"CancelInvoice", h}, c.invoices.CancelInvoice)
	_, err := call(ctx, c, "CancelInvoice", method, &invoicesrpc.CancelInvoiceMsg{PaymentHash: h[:]})
	if errors.Is(err, ErrInvoiceSettled) || errors.Is(err, paidaction.ErrInvoiceCanceled) {
		return nil
	}
	return err
}

// EachSettled implements paidaction.Node.
func (c *Client) EachSettled(ctx context.Context, since time.Time, on func(paidaction.NodeInvoice) error) error {
	return inPages(func(after, most uint64, options ...grpc.CallOption) ([]*lnrpc.Invoice, uint64, error) {
		page, err := call(ctx, c, "ListInvoices", c.main.ListInvoices, &lnrpc.ListInvoiceRequest{
			IndexOffset: after, NumMaxInvoices: most, CreationDateStart: uint64(max(since.Unix(), 0)),
		}, options...)
		return page.GetInvoices(), page.GetLastIndexOffset(), err
	}, func(found *lnrpc.Invoice) error {
		if found.State != lnrpc.Invoice_SETTLED || found.IsKeysend || found.IsAmp {
			return nil
		}
		event, err := invoiceEvent(found)
		if err != nil {
			return err
		}
		view, err := nodeInvoice(event.Hash, found)
		if err != nil {
			return err
		}
		return on(view)
	})
}

func invoiceState(s lnrpc.Invoice_InvoiceState) (paidaction.InvoiceState, error) {
	switch s {
	case lnrpc.Invoice_OPEN:
		return paidaction.InvoiceOpen, nil
	case lnrpc.Invoice_ACCEPTED:
		return paidaction.InvoiceAccepted, nil
	case lnrpc.Invoice_SETTLED:
		return paidaction.InvoiceSettled, nil
	case lnrpc.Invoice_CANCELED:
		return paidaction.InvoiceCanceled, nil
	}
	return "", fmt.Errorf("unknown invoice state %v", s)
}

package devnet

import (
	"context"
	"crypto/rand"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"time"

	"github.com/lightningnetwork/lnd/lnrpc"
	"github.com/lightningnetwork/lnd/lnrpc/invoicesrpc"
)

// Invoice is an invoice that a node has issued.
type Invoice struct {
	State    string // LND's state: OPEN, ACCEPTED (a payment is held), SETTLED or CANCELED
	Msat     int64  // the amount asked for
	PaidMsat int64  // what arrived and is held, or kept
}

// terms are what an invoice should say.
type terms struct {
	msat            int64
	memo            string
	descriptionHash []byte // used instead of the memo
}

var errOfNothing = errors.New("an invoice of nothing")

// Invoice makes an invoice of the node for an amount in millisatoshi.
func (n *Node) Invoice(ctx context.Context, msat int64, memo string) (bolt11 string, err error) {
	return n.issue(ctx, terms{msat: msat, memo: memo})
}

func (n *Node) issue(ctx context.Context, t terms) (bolt11 string, err error) {
	if t.msat <= 0 {
		return "", errOfNothing
	}
	invoice, err := n.lightning().AddInvoice(ctx, &lnrpc.Invoice{ValueMsat: t.msat, Memo: t.memo, DescriptionHash: t.descriptionHash})
	if err != nil {
		return "", fmt.Errorf("%s: add invoice: %w", n.name, err)
	}
	return invoice.PaymentRequest, nil
}

// HoldInvoice is as Invoice, but its payment is held: see Settle and Cancel.
func (n *Node) HoldInvoice(ctx context.Context, msat int64, memo string) (bolt11, hash string, err error) {
	return n.hold(ctx, terms{msat: msat, memo: memo})
}

// hold makes an invoice whose payment is held until the node is told to settle or to cancel it, or LND gives it back
// shortly before it expires. The hash is in hex.
func (n *Node) hold(ctx context.Context, t terms) (bolt11, hash string, err error) {
	if t.msat <= 0 {
		return "", "", errOfNothing
	}
	var preimage [32]byte
	rand.Read(preimage[:]) // never fails
	raw := sha256.Sum256(preimage[:])
	n.preimages.Store(raw, preimage)
	invoice, err := n.invoices().AddHoldInvoice(ctx, &invoicesrpc.AddHoldInvoiceRequest{
		Hash: raw[:], ValueMsat: t.msat, Memo: t.memo, DescriptionHash: t.descriptionHash,
	})
	if err != nil {
		return "", "", fmt.Errorf("%s: add hold invoice: %w", n.name, err)
	}
	return invoice.PaymentRequest, hex.EncodeToString(raw[:]), nil
}

// Settle settles the payment that a hold invoice of this network holds. The hash is in hex.
func (n *Node) Settle(ctx context.Context, hash string) error {
	raw, err := parseHash(hash)
	if err != nil {
		return err
	}
	preimage, ok := n.preimages.Load(raw)
	if !ok {
		return fmt.Errorf("%s: settle %s: no hold invoice was made under it", n.name, hash)
	}
	secret := preimage.([32]byte)
	if _, err := n.invoices().SettleInvoice(ctx, &invoicesrpc.SettleInvoiceMsg{Preimage: secret[:]}); err != nil {
		return fmt.Errorf("%s: settle %s: %w", n.name, hash, err)
	}
	return nil
}

// Cancel cancels an invoice, and gives back what it holds. The hash is in hex.
func (n *Node) Cancel(ctx context.Context, hash string) error {
	raw, err := parseHash(hash)
	if err != nil {
		return err
	}
	if _, err := n.invoices().CancelInvoice(ctx, &invoicesrpc.CancelInvoiceMsg{PaymentHash: raw[:]}); err != nil {
		return fmt.Errorf("%s: cancel %s: %w", n.name, hash, err)
	}
	return nil
}

// Issued is the node's invoice with this hash (hex). If the node has none, it returns an error.
func (n *Node) Issued(ctx context.Context, hash string) (Invoice, error) {
	raw, err := parseHash(hash)
	if err != nil {
		return Invoice{}, err
	}
	invoice, err := n.lightning().LookupInvoice(ctx, &lnrpc.PaymentHash{RHash: raw[:]})
	if err != nil {
		return Invoice{}, fmt.Errorf("%s: look up invoice %s: %w", n.name, hash, err)
	}
	return invoiceOf(invoice), nil
}

func invoiceOf(i *lnrpc.Invoice) Invoice {
	found := Invoice{State: i.State.String(), Msat: i.ValueMsat}
	if i.State != lnrpc.Invoice_CANCELED { // LND still shows amounts that were given back
		found.PaidMsat = i.AmtPaidMsat
	}
	return found
}

// AwaitHeld returns once a payment of the node's invoice with this hash (hex) is held.
func (n *Node) AwaitHeld(ctx context.Context, hash string) error {
	return until(ctx, 30*time.Second, n.name+" to hold a payment", func(ctx context.Context) (bool, error) {
		invoice, err := n.Issued(ctx, hash)
		return invoice.State == lnrpc.Invoice_ACCEPTED.String(), err
	})
}

func (n *Node) invoices() invoicesrpc.InvoicesClient {
	return invoicesrpc.NewInvoicesClient(n.connection)
}

func parseHash(text string) (hash [32]byte, err error) {
	raw, err := hex.DecodeString(text)
	if err != nil || len(raw) != len(hash) {
		return hash, fmt.Errorf("%q is no payment hash", text)
	}
	return [32]byte(raw), nil
}

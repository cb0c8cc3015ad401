package simnode

import (
	"context"
	"fmt"
	"time"

	"github.com/a-seed-a7aed72f/holdfast/lightning/internal/request"
	"github.com/a-seed-a7aed72f/holdfast/paidaction"
)

// Invoice is everything that the node knows of an invoice.
type Invoice struct {
	Request     paidaction.InvoiceRequest // CLTVDelta is the effective one; Preimage is zero until a hold invoice is settled
	Bolt11      string
	State       paidaction.InvoiceState
	Created     time.Time
	Settled     time.Time // zero unless State is SETTLED
	AddIndex    uint64    // from 1, without gaps
	SettleIndex uint64    // from 1, without gaps; 0 unless State is SETTLED
	Parts       []Part
}

// Expires is the moment after which an open invoice can no longer be paid.
func (i Invoice) Expires() time.Time { return i.Created.Add(i.Request.Expiry) }

// NodeInvoice is what the engine is told. Cancelled parts do not count (spec 01 §1.5).
func (i Invoice) NodeInvoice() paidaction.NodeInvoice {
	v := paidaction.NodeInvoice{Hash: i.Request.Hash, State: i.State, Bolt11: i.Bolt11, Memo: i.Request.Memo, CLTVDelta: i.Request.CLTVDelta,
		Amount: i.Request.Amount, Holds: i.Request.Hold}
	for _, p := range i.Parts {
		if p.State == PartCanceled {
			continue
		}
		v.Received += p.Msat
		switch {
		case p.State == PartSettled && p.AcceptHeight == 0:
			v.OnChain += p.Msat
		case p.Total == 0:
			v.Keysend += p.Msat
		}
		if p.State == PartAccepted && (v.ExpiryHeight == 0 || p.ExpiryHeight < v.ExpiryHeight) {
			v.ExpiryHeight = p.ExpiryHeight
		}
	}
	return v
}

// invoice is the node's own copy; it is copied out under the lock.
type invoice struct{ Invoice }

func (i *invoice) copy() Invoice {
	c := i.Invoice
	c.Parts = append([]Part(nil), i.Parts...)
	return c
}

func (i *invoice) final() bool {
	return i.State == paidaction.InvoiceSettled || i.State == paidaction.InvoiceCanceled
}

// Add adds an invoice as LND's AddInvoice and AddHoldInvoice do. If there is one with this hash, Add returns that one
// and ErrDuplicate.
func (n *Node) Add(ctx context.Context, r paidaction.InvoiceRequest) (added Invoice, err error) {
	if err := request.Check(r); err != nil {
		return Invoice{}, err
	}
	if r.CLTVDelta == 0 {
		r.CLTVDelta = defaultCLTV
	}
	if r.CLTVDelta < minCLTVDelta {
		return Invoice{}, fmt.Errorf("CLTV delta of %v must be greater than minimum of %v", r.CLTVDelta, minCLTVDelta)
	}
	if r.Hold {
		r.Preimage = paidaction.Preimage{} // LND is not given it either
	}
	err = n.call(ctx, MethodOpen, r.Hash, func() error {
		if old, ok := n.invoices[r.Hash]; ok {
			added = old.copy()
			return ErrDuplicate
		}
		inv := &invoice{Invoice{Request: r, State: paidaction.InvoiceOpen, Created: n.now()}}
		bolt11, err := n.encode(r, inv.Created)
		if err != nil {
			return err
		}
		inv.Bolt11 = bolt11
		n.invoices[r.Hash] = inv
		n.added = append(n.added, inv)
		n.live = append(n.live, inv)
		inv.AddIndex = uint64(len(n.added))
		n.publish(inv)
		added = inv.copy()
		return nil
	})
	return added, err
}

// Lookup returns the invoice or paidaction.ErrInvoiceNotFound.
func (n *Node) Lookup(ctx context.Context, h paidaction.Hash) (found Invoice, err error) {
	err = n.call(ctx, MethodLookup, h, func() error {
		inv, ok := n.invoices[h]
		if !ok {
			return paidaction.ErrInvoiceNotFound
		}
		found = inv.copy()
		return nil
	})
	return found, err
}

// Settle settles an accepted hold invoice. It returns ErrAlreadySettled if it was settled before.
func (n *Node) Settle(ctx context.Context, p paidaction.Preimage) error {
	return n.call(ctx, MethodSettle, p.Hash(), func() error {
		inv, ok := n.invoices[p.Hash()]
		if !ok {
			return paidaction.ErrInvoiceNotFound
		}
		switch inv.State {
		case paidaction.InvoiceOpen:
			return ErrStillOpen
		case paidaction.InvoiceSettled:
			return ErrAlreadySettled
		case paidaction.InvoiceCanceled:
			return ErrAlreadyCanceled
		}
		inv.Request.Preimage = p
		n.settle(inv)
		return nil
	})
}

// Cancel cancels an open or accepted invoice as LND does: it may be repeated, but returns ErrAlreadySettled if the
// invoice was settled.
func (n *Node) Cancel(ctx context.Context, h paidaction.Hash) error {
	return n.call(ctx, MethodCancel, h, func() error {
		inv, ok := n.invoices[h]
		if !ok {
			return paidaction.ErrInvoiceNotFound
		}
		switch inv.State {
		case paidaction.InvoiceSettled:
			return ErrAlreadySettled
		case paidaction.InvoiceCanceled:
			return nil
		}
		n.cancel(inv)
		return nil
	})
}

// Inspect shows an invoice to a test. It is not a call: it is not recorded, and works while the node is away.
func (n *Node) Inspect(h paidaction.Hash) (Invoice, bool) {
	n.mu.Lock()
	defer n.mu.Unlock()
	inv, ok := n.invoices[h]
	if !ok {
		return Invoice{}, false
	}
	return inv.copy(), true
}

// Invoices shows all invoices to a test, by add index.
func (n *Node) Invoices() []Invoice {
	n.mu.Lock()
	defer n.mu.Unlock()
	all := make([]Invoice, len(n.added))
	for i, inv := range n.added {
		all[i] = inv.copy()
	}
	return all
}

// settle settles every accepted part. n.mu is held.
func (n *Node) settle(inv *invoice) {
	inv.State = paidaction.InvoiceSettled
	inv.Settled = n.now()
	n.settled = append(n.settled, inv)
	inv.SettleIndex = uint64(len(n.settled))
	n.balance += inv.resolveParts(PartSettled)
	n.publish(inv)
}

// cancel returns every accepted part. n.mu is held.
func (n *Node) cancel(inv *invoice) {
	inv.State = paidaction.InvoiceCanceled
	inv.resolveParts(PartCanceled)
	n.publish(inv)
}

// resolveParts ends every accepted part, and returns the sum that arrived with them.
func (i *invoice) resolveParts(to PartState) (sum paidaction.Msat) {
	for p := range i.Parts {
		if i.Parts[p].State == PartAccepted {
			sum += i.Parts[p].end(to, i.Request.Preimage)
		}
	}
	return sum
}

package simnode

import (
	"errors"
	"fmt"
	"slices"

	"github.com/a-seed-a7aed72f/holdfast/paidaction"
)

// ErrRefused says that the node refused an HTLC, so the payer keeps the money. LND tells the payer no more than that.
var ErrRefused = errors.New("the payment was refused")

// PartState is the state of one HTLC.
type PartState string

// The states of an HTLC at the receiving node.
const (
	PartAccepted PartState = "ACCEPTED"
	PartSettled  PartState = "SETTLED"
	PartCanceled PartState = "CANCELED"
)

// PartID identifies an HTLC at its node.
type PartID uint64

// Part is one HTLC of a payment.
type Part struct {
	ID           PartID
	Msat         paidaction.Msat
	Total        paidaction.Msat // the whole payment, 0 for keysend; the set is complete when its parts reach it (BOLT 4, total_msat)
	ExpiryHeight uint32
	AcceptHeight uint32 // 0: found in a channel that was closed by force
	State        PartState
	from         *htlc // nil: from a payer outside the network
}

// end resolves an HTLC, and returns the amount that arrived with it.
func (p *Part) end(to PartState, preimage paidaction.Preimage) paidaction.Msat {
	p.State = to
	switch {
	case to == PartCanceled && p.from != nil:
		p.from.fail(incorrectDetails)
	case to == PartSettled && p.from == nil, to == PartSettled && p.from.settle(preimage):
		return p.Msat
	}
	return 0
}

// Payment is what a payer sends. The zero value pays the invoice's amount in one part.
type Payment struct {
	Msat          paidaction.Msat // 0: the invoice's amount. More is accepted, less is refused
	ExpiryHeight  uint32          // of every part; 0: the invoice's final CLTV plus 3 blocks
	ExpiryHeights []uint32        // one part for each, instead of ExpiryHeight
}

// PayHash sends a payer's whole payment to an invoice of the node. It returns nil once the payment is held or settled,
// and ErrRefused if the node took no part of it, or is away.
func (n *Node) PayHash(h paidaction.Hash, p Payment) error {
	n.mu.Lock()
	defer n.mu.Unlock()
	inv, err := n.payable(h)
	if err != nil {
		return err
	}
	total := p.Msat
	if total == 0 {
		total = inv.Request.Amount
	}
	heights := p.ExpiryHeights
	if len(heights) == 0 {
		heights = []uint32{p.ExpiryHeight}
	}
	for i, msat := range split(total, len(heights)) {
		if _, err := n.accept(inv, Part{Msat: msat, Total: total, ExpiryHeight: heights[i], AcceptHeight: n.height}); err != nil {
			// A payer gives up the whole set if one part is refused.
			if inv.State == paidaction.InvoiceOpen {
				inv.resolveParts(PartCanceled)
			}
			return err
		}
	}
	return nil
}

// PayBolt11 pays an invoice that this node issued, as PayHash does.
func (n *Node) PayBolt11(bolt11 string, p Payment) error {
	n.mu.Lock()
	for _, inv := range n.added {
		if inv.Bolt11 == bolt11 {
			h := inv.Request.Hash
			n.mu.Unlock()
			return n.PayHash(h, p)
		}
	}
	n.mu.Unlock()
	return fmt.Errorf("%w: %s did not issue %s", ErrRefused, n.name, bolt11)
}

// AddPart sends one HTLC of a payment of total (0: the invoice's amount). Until the parts reach the total, the invoice
// stays OPEN and holds them.
func (n *Node) AddPart(h paidaction.Hash, msat, total paidaction.Msat, expiryHeight uint32) (PartID, error) {
	return n.addPart(h, Part{Msat: msat, Total: total, ExpiryHeight: expiryHeight}, false)
}

// AddPartByForce sends one HTLC as AddPart does, of a payment of total (0: the invoice's amount), in a channel that its
// payer closes by force. It has no block left, and the node takes it all the same: LND asks for the blocks with 0 as the
// present height then (contractcourt), and notes that as the height at which it was accepted.
func (n *Node) AddPartByForce(h paidaction.Hash, msat, total paidaction.Msat) (PartID, error) {
	return n.addPart(h, Part{Msat: msat, Total: total}, true)
}

func (n *Node) addPart(h paidaction.Hash, part Part, byForce bool) (PartID, error) {
	n.mu.Lock()
	defer n.mu.Unlock()
	inv, err := n.payable(h)
	if err != nil {
		return 0, err
	}
	if part.Total == 0 {
		part.Total = inv.Request.Amount
	}
	if byForce {
		part.ExpiryHeight = n.height
	} else {
		part.AcceptHeight = n.height
	}
	return n.accept(inv, part)
}

// Keysend is a payment by somebody who knows the preimage, for example a receiver whose invoice is inside this one. LND
// takes their HTLC although it has not shown them the invoice, and even adds HTLCs to an invoice that is held or
// settled (invoices.updateLegacy). Each must be at least the invoice's amount, and none joins the parts of another
// payment.
func (n *Node) Keysend(p paidaction.Preimage, msat paidaction.Msat, expiryHeight uint32) error {
	n.mu.Lock()
	defer n.mu.Unlock()
	inv, ok := n.invoices[p.Hash()]
	switch {
	case n.faults.away:
		return fmt.Errorf("%w: %s is away", ErrRefused, n.name)
	case !ok:
		return fmt.Errorf("%w: invoice not found", ErrRefused)
	}
	n.expire(inv)
	another := func(q Part) bool { return q.State == PartAccepted && q.Total != 0 }
	switch {
	case inv.State == paidaction.InvoiceCanceled:
		return fmt.Errorf("%w: invoice is %s", ErrRefused, inv.State)
	case msat < inv.Request.Amount:
		return fmt.Errorf("%w: %d of %d msat", ErrRefused, msat, inv.Request.Amount)
	case inv.State != paidaction.InvoiceSettled && slices.ContainsFunc(inv.Parts, another):
		return fmt.Errorf("%w: parts of a payment are there", ErrRefused)
	case expiryHeight < n.height+max(rejectDelta, inv.Request.CLTVDelta):
		return fmt.Errorf("%w: expiry %d too soon at height %d", ErrRefused, expiryHeight, n.height)
	}
	n.parts++
	inv.Parts = append(inv.Parts, Part{ID: PartID(n.parts), Msat: msat, ExpiryHeight: expiryHeight, AcceptHeight: n.height, State: PartAccepted})
	switch {
	case inv.State == paidaction.InvoiceSettled:
		inv.Parts[len(inv.Parts)-1].State = PartSettled
	case !inv.Request.Hold:
		n.settle(inv)
	case inv.State == paidaction.InvoiceOpen:
		inv.State = paidaction.InvoiceAccepted
		n.publish(inv)
	}
	return nil
}

// CancelPart gives back one held HTLC, as LND does when the rest of a payment does not follow in time. LND does so only
// on an OPEN invoice.
func (n *Node) CancelPart(h paidaction.Hash, id PartID) error {
	n.mu.Lock()
	defer n.mu.Unlock()
	inv, ok := n.invoices[h]
	if !ok {
		return paidaction.ErrInvoiceNotFound
	}
	if inv.State != paidaction.InvoiceOpen {
		return fmt.Errorf("htlc canceled on invoice in state %s", inv.State)
	}
	for i := range inv.Parts {
		if p := &inv.Parts[i]; p.ID == id && p.State == PartAccepted {
			p.end(PartCanceled, paidaction.Preimage{})
			return nil
		}
	}
	return fmt.Errorf("no held HTLC %d on invoice %s", id, h)
}

// payable finds an invoice that can be paid now. n.mu is held.
func (n *Node) payable(h paidaction.Hash) (*invoice, error) {
	inv, ok := n.invoices[h]
	switch {
	case n.faults.away:
		return nil, fmt.Errorf("%w: %s is away", ErrRefused, n.name)
	case !ok:
		return nil, fmt.Errorf("%w: invoice not found", ErrRefused)
	}
	n.expire(inv)
	if inv.State != paidaction.InvoiceOpen {
		return nil, fmt.Errorf("%w: invoice is %s", ErrRefused, inv.State)
	}
	return inv, nil
}

// accept is LND's updateMpp for one HTLC. n.mu is held.
func (n *Node) accept(inv *invoice, part Part) (PartID, error) {
	if part.ExpiryHeight == 0 {
		part.ExpiryHeight = n.height + inv.Request.CLTVDelta + senderPadding
	}
	if part.Total < inv.Request.Amount || part.Msat <= 0 {
		return 0, fmt.Errorf("%w: %d of %d msat", ErrRefused, part.Total, inv.Request.Amount)
	}
	if part.ExpiryHeight < part.AcceptHeight+max(rejectDelta, inv.Request.CLTVDelta) {
		return 0, fmt.Errorf("%w: expiry %d too soon at height %d", ErrRefused, part.ExpiryHeight, part.AcceptHeight)
	}
	sum := part.Msat
	for _, p := range inv.Parts {
		if p.State != PartAccepted {
			continue
		}
		if p.Total != part.Total {
			return 0, fmt.Errorf("%w: parts of %d and of %d msat", ErrRefused, p.Total, part.Total)
		}
		sum += p.Msat
	}
	n.parts++
	part.ID, part.State = PartID(n.parts), PartAccepted
	inv.Parts = append(inv.Parts, part)
	switch {
	case sum < part.Total:
	case inv.Request.Hold:
		inv.State = paidaction.InvoiceAccepted
		n.publish(inv)
	default:
		n.settle(inv)
	}
	return part.ID, nil
}

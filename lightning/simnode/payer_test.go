package simnode_test

import (
	"errors"
	"testing"

	"github.com/a-seed-a7aed72f/holdfast/lightning/simnode"
	"github.com/a-seed-a7aed72f/holdfast/paidaction"
)

// LND takes one payment of an invoice (invoices.updateMpp): what is held is not paid a second time.
func TestAHeldInvoiceTakesNoSecondPayment(t *testing.T) {
	t.Parallel()
	n, _ := newNode()
	r := request(1, true)
	open(t, n, r)
	if err := n.PayHash(r.Hash, simnode.Payment{}); err != nil {
		t.Fatal(err)
	}
	part, err := n.AddPart(r.Hash, 40_000, 0, 300)
	if !errors.Is(err, simnode.ErrRefused) {
		t.Errorf("a part more: %d, %v", part, err)
	}
	if err := n.PayHash(r.Hash, simnode.Payment{}); !errors.Is(err, simnode.ErrRefused) {
		t.Errorf("a second payment: %v", err)
	}
	if err := n.CancelPart(r.Hash, 1); err == nil {
		t.Error("a part of what is held went back alone")
	}
	if v := lookup(t, n, r.Hash); v.State != paidaction.InvoiceAccepted || v.Received != 100_000 {
		t.Errorf("%+v", v)
	}
}

// The parts of a set name one total, and are complete only with all of it, even where the invoice asks for less.
func TestASetOfPartsHasOneTotal(t *testing.T) {
	t.Parallel()
	n, _ := newNode()
	r := request(1, true)
	open(t, n, r)
	add := func(msat, total paidaction.Msat) error {
		_, err := n.AddPart(r.Hash, msat, total, 300)
		return err
	}
	if err := add(120_000, 150_000); err != nil {
		t.Fatal(err)
	}
	wantState(t, n, r.Hash, paidaction.InvoiceOpen)
	if err := add(30_000, 200_000); !errors.Is(err, simnode.ErrRefused) {
		t.Errorf("a part of another set: %v", err)
	}
	if err := n.SettleInvoice(t.Context(), r.Preimage); !errors.Is(err, simnode.ErrStillOpen) {
		t.Errorf("settling what is not complete: %v", err)
	}
	if err := add(30_000, 150_000); err != nil {
		t.Fatal(err)
	}
	if v := lookup(t, n, r.Hash); v.State != paidaction.InvoiceAccepted || v.Received != 150_000 {
		t.Errorf("%+v", v)
	}
}

// In a channel that was closed by force LND looks at no block (contractcourt): what has none left is taken all the same.
func TestWhatIsOfferedByForce(t *testing.T) {
	t.Parallel()
	n, _ := newNode()
	plain, held := request(1, false), request(2, true)
	for _, r := range []paidaction.InvoiceRequest{plain, held} {
		open(t, n, r)
		if _, err := n.AddPart(r.Hash, 60_000, 0, n.Height()); !errors.Is(err, simnode.ErrRefused) {
			t.Errorf("without a block left: %v", err)
		}
		if _, err := n.AddPart(r.Hash, 60_000, 0, 0); err != nil {
			t.Fatal(err)
		}
		if _, err := n.AddPartByForce(r.Hash, 40_000, 0); err != nil {
			t.Fatal(err)
		}
	}
	if v := lookup(t, n, plain.Hash); v.State != paidaction.InvoiceSettled || v.Received != 100_000 || v.OnChain != 40_000 {
		t.Errorf("a plain invoice: %+v", v)
	}
	if v := lookup(t, n, held.Hash); v.State != paidaction.InvoiceAccepted || v.OnChain != 0 || v.ExpiryHeight != n.Height() {
		t.Errorf("a hold invoice: %+v", v)
	}
}

// A keysend that LND finds in such a channel once the invoice is settled is what only the chain shows, and said apart once.
func TestAPartIsSaidApartOnce(t *testing.T) {
	t.Parallel()
	v := simnode.Invoice{State: paidaction.InvoiceSettled, Parts: []simnode.Part{
		{Msat: 1_500, Total: 1_500, AcceptHeight: 100, State: simnode.PartSettled},
		{Msat: 2_000, AcceptHeight: 100, State: simnode.PartSettled},
		{Msat: 5_000, State: simnode.PartSettled},
	}}.NodeInvoice()
	if v.Received != 8_500 || v.Keysend != 2_000 || v.OnChain != 5_000 {
		t.Errorf("%+v", v)
	}
}

// Whoever knows the preimage adds to what is held or settled, but not beside the parts of a payment, and not to what is
// cancelled (invoices.updateLegacy).
func TestWhatIsAddedByKeysend(t *testing.T) {
	t.Parallel()
	n, _ := newNode()
	add := func(r paidaction.InvoiceRequest) error { return n.Keysend(r.Preimage, r.Amount, 300) }
	wantReceived := func(r paidaction.InvoiceRequest, state paidaction.InvoiceState, all, keysend paidaction.Msat) {
		t.Helper()
		if v := lookup(t, n, r.Hash); v.State != state || v.Received != all || v.Keysend != keysend {
			t.Errorf("%+v", v)
		}
	}
	held, parted, settled, canceled := request(1, true), request(2, true), request(3, false), request(4, true)
	for _, r := range []paidaction.InvoiceRequest{held, parted, settled, canceled} {
		open(t, n, r)
	}
	for range 2 {
		if err := add(held); err != nil {
			t.Fatal(err)
		}
	}
	wantReceived(held, paidaction.InvoiceAccepted, 200_000, 200_000)

	if _, err := n.AddPart(parted.Hash, 40_000, 0, 300); err != nil {
		t.Fatal(err)
	}
	if err := add(parted); !errors.Is(err, simnode.ErrRefused) {
		t.Errorf("beside the parts of a payment: %v", err)
	}
	wantReceived(parted, paidaction.InvoiceOpen, 40_000, 0)

	if err := n.PayHash(settled.Hash, simnode.Payment{}); err != nil {
		t.Fatal(err)
	}
	if err := add(settled); err != nil {
		t.Fatal(err)
	}
	wantReceived(settled, paidaction.InvoiceSettled, 200_000, 100_000)
	if v := lookup(t, n, settled.Hash); v.ExpiryHeight != 0 {
		t.Errorf("what is settled is held until %d", v.ExpiryHeight)
	}

	if err := n.CancelInvoice(t.Context(), canceled.Hash); err != nil {
		t.Fatal(err)
	}
	if err := add(canceled); !errors.Is(err, simnode.ErrRefused) {
		t.Errorf("to what is cancelled: %v", err)
	}
}

package lightning_test

import (
	"encoding/binary"
	"slices"
	"testing"
	"time"

	"github.com/lightningnetwork/lnd/lnrpc"
	"github.com/lightningnetwork/lnd/record"

	"github.com/a-seed-a7aed72f/holdfast/lightning"
	"github.com/a-seed-a7aed72f/holdfast/lightning/simnode"
	"github.com/a-seed-a7aed72f/holdfast/paidaction"
)

// What a node has taken is found behind more invoices than one answer holds.
func TestEachSettledReadsEveryPage(t *testing.T) {
	t.Parallel()
	c, _, node := fixture(t)
	var last paidaction.InvoiceRequest
	for n := range uint32(1001) {
		last = request(1, false)
		binary.BigEndian.PutUint32(last.Preimage[1:], n)
		last.Hash = last.Preimage.Hash()
		if _, err := node.Add(t.Context(), last); err != nil {
			t.Fatal(err)
		}
	}
	if err := node.PayHash(last.Hash, simnode.Payment{}); err != nil {
		t.Fatal(err)
	}
	var seen []paidaction.NodeInvoice
	err := c.EachSettled(t.Context(), time.Unix(0, 0), func(v paidaction.NodeInvoice) error {
		seen = append(seen, v)
		return nil
	})
	if err != nil || len(seen) != 1 || seen[0].Hash != last.Hash || seen[0].Received != last.Amount {
		t.Errorf("%+v, %v", seen, err)
	}
}

// What came by keysend or spontaneous AMP was never asked for, so it is not listed: it is no invoice that somebody paid for
// nothing. Nor does one without a hash keep the others from being listed.
func TestEachSettledLeavesOutWhatNobodyAskedFor(t *testing.T) {
	t.Parallel()
	c, server, node := fixture(t)
	keysend, amp, ours := request(1, false), request(2, false), request(3, false)
	server.ShowAsKeysend(keysend.Hash)
	server.ShowAsAMP(amp.Hash)
	for _, r := range []paidaction.InvoiceRequest{keysend, amp, ours} {
		if _, err := node.Add(t.Context(), r); err != nil {
			t.Fatal(err)
		}
		if err := node.PayHash(r.Hash, simnode.Payment{}); err != nil {
			t.Fatal(err)
		}
	}
	var seen []paidaction.Hash
	err := c.EachSettled(t.Context(), time.Unix(0, 0), func(v paidaction.NodeInvoice) error {
		seen = append(seen, v.Hash)
		return nil
	})
	if err != nil || !slices.Equal(seen, []paidaction.Hash{ours.Hash}) {
		t.Errorf("%s, %v", seen, err)
	}
}

// Payers decide how much an invoice says: what was taken is found however large the others are.
func TestLargeInvoicesHideNothing(t *testing.T) {
	t.Parallel()
	_, server, node := fixture(t)
	cfg := server.Config()
	cfg.CallTimeout = 2 * time.Minute // which a busy machine may take for so much
	c := server.Dial(cfg)
	for n := range byte(3) {
		r := request(n+1, false)
		if _, err := node.Add(t.Context(), r); err != nil {
			t.Fatal(err)
		}
		if err := node.PayHash(r.Hash, simnode.Payment{}); err != nil {
			t.Fatal(err)
		}
	}
	server.Bulk(24 << 20) // three are more than an answer holds
	seen := map[paidaction.Hash]bool{}
	err := c.EachSettled(t.Context(), time.Unix(0, 0), func(v paidaction.NodeInvoice) error {
		seen[v.Hash] = true
		return nil
	})
	if err != nil || len(seen) != 3 {
		t.Errorf("%d of 3 invoices, %v", len(seen), err)
	}
}

// What came by keysend is counted as received, and said apart: nobody had asked for it.
func TestWhatCameByKeysendIsSaidApart(t *testing.T) {
	t.Parallel()
	c, _, node := fixture(t)
	r := request(1, false)
	if _, err := c.OpenInvoice(t.Context(), r); err != nil {
		t.Fatal(err)
	}
	if err := node.PayHash(r.Hash, simnode.Payment{}); err != nil {
		t.Fatal(err)
	}
	const more = 200_000
	if err := node.Keysend(r.Preimage, more, node.Height()+100); err != nil {
		t.Fatal(err)
	}
	if got, err := c.LookupInvoice(t.Context(), r.Hash); err != nil || got.Received != r.Amount+more || got.Keysend != more {
		t.Errorf("received %d, of it %d by keysend: %v", got.Received, got.Keysend, err)
	}
}

// What LND took without a look at the blocks left is said apart once it is settled: only the chain shows whether it
// arrives.
func TestWhatOnlyTheChainShowsIsSaidApart(t *testing.T) {
	t.Parallel()
	c, _, node := fixture(t)
	r := request(1, false)
	if _, err := c.OpenInvoice(t.Context(), r); err != nil {
		t.Fatal(err)
	}
	first := r.Amount / 2
	if _, err := node.AddPart(r.Hash, first, 0, 0); err != nil {
		t.Fatal(err)
	}
	if _, err := node.AddPartByForce(r.Hash, r.Amount-first, 0); err != nil {
		t.Fatal(err)
	}
	if got, err := c.LookupInvoice(t.Context(), r.Hash); err != nil || got.Received != r.Amount || got.OnChain != r.Amount-first {
		t.Errorf("received %d, of it %d from the chain: %v", got.Received, got.OnChain, err)
	}
}

// Each part is said apart once, as what only the chain shows or else as a keysend: both are taken off what counts as paid.
func TestAPartIsSaidApartOnce(t *testing.T) {
	t.Parallel()
	keysend := map[uint64][]byte{uint64(record.KeySendType): make([]byte, 32)}
	part := func(msat int64, state lnrpc.InvoiceHTLCState, height int32, custom map[uint64][]byte) *lnrpc.InvoiceHTLC {
		return &lnrpc.InvoiceHTLC{AmtMsat: uint64(msat), State: state, AcceptHeight: height, ExpiryHeight: 900_000, CustomRecords: custom}
	}
	const accepted, settled, canceled = lnrpc.InvoiceHTLCState_ACCEPTED, lnrpc.InvoiceHTLCState_SETTLED, lnrpc.InvoiceHTLCState_CANCELED
	paid := part(1_500, settled, 800_000, nil) // 500 msat more than it costs
	for name, c := range map[string]struct {
		state                      lnrpc.Invoice_InvoiceState
		parts                      []*lnrpc.InvoiceHTLC
		received, keysend, onChain paidaction.Msat
	}{
		"the invoice was paid":             {lnrpc.Invoice_SETTLED, []*lnrpc.InvoiceHTLC{paid}, 1_500, 0, 0},
		"by keysend besides":               {lnrpc.Invoice_SETTLED, []*lnrpc.InvoiceHTLC{paid, part(2_000, settled, 800_000, keysend)}, 3_500, 2_000, 0},
		"by force besides":                 {lnrpc.Invoice_SETTLED, []*lnrpc.InvoiceHTLC{paid, part(2_000, settled, 0, nil)}, 3_500, 0, 2_000},
		"by keysend and by force besides":  {lnrpc.Invoice_SETTLED, []*lnrpc.InvoiceHTLC{paid, part(2_000, settled, 0, keysend)}, 3_500, 0, 2_000},
		"each of them":                     {lnrpc.Invoice_SETTLED, []*lnrpc.InvoiceHTLC{paid, part(2_000, settled, 0, keysend), part(3_000, settled, 1, keysend)}, 6_500, 3_000, 2_000},
		"what is held may be looked at":    {lnrpc.Invoice_ACCEPTED, []*lnrpc.InvoiceHTLC{part(2_000, accepted, 0, keysend)}, 2_000, 2_000, 0},
		"what was given back counts never": {lnrpc.Invoice_OPEN, []*lnrpc.InvoiceHTLC{part(2_000, canceled, 0, keysend)}, 0, 0, 0},
	} {
		got, err := lightning.NodeInvoice(paidaction.Hash{1}, &lnrpc.Invoice{State: c.state, Htlcs: c.parts})
		if err != nil || got.Received != c.received || got.Keysend != c.keysend || got.OnChain != c.onChain {
			t.Errorf("%s: received %d, of it %d by keysend and %d from the chain: %v", name, got.Received, got.Keysend, got.OnChain, err)
		}
	}
}

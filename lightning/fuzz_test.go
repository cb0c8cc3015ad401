package lightning

import (
	"testing"
	"time"

	"github.com/lightningnetwork/lnd/lnrpc"
	"google.golang.org/protobuf/proto"

	"github.com/a-seed-a7aed72f/holdfast/paidaction"
)

func seed(f *testing.F, messages ...proto.Message) {
	f.Helper()
	for _, m := range messages {
		raw, err := proto.Marshal(m)
		if err != nil {
			f.Fatal(err)
		}
		f.Add(raw)
	}
}

const someHash = "0001020304050607080900010203040506070809000102030405060708090102"

// An invoice that a stranger made, as the node decodes it: whatever its numbers, none turns into another one.
func FuzzDecodedInvoice(f *testing.F) {
	seed(f, &lnrpc.PayReq{PaymentHash: someHash, NumMsat: 1000, Timestamp: 1_700_000_000, Expiry: 3600, CltvExpiry: 80,
		Features: map[uint32]*lnrpc.Feature{9: {IsKnown: true}, 30: {}}},
		&lnrpc.PayReq{PaymentHash: someHash, NumMsat: -1}, &lnrpc.PayReq{PaymentHash: "ff", CltvExpiry: 1<<32 + 40},
		&lnrpc.PayReq{PaymentHash: someHash, NumMsat: 1000, CltvExpiry: -1<<32 + 40},
		&lnrpc.PayReq{PaymentHash: someHash, Timestamp: 1<<63 - 1, Expiry: 1<<63 - 1},
		&lnrpc.PayReq{PaymentHash: someHash, CltvExpiry: 40, RouteHints: []*lnrpc.RouteHint{{HopHints: []*lnrpc.HopHint{{CltvExpiryDelta: 1<<32 - 1}, {CltvExpiryDelta: 144}}}, {}}})
	f.Fuzz(func(t *testing.T, raw []byte) {
		var m lnrpc.PayReq
		if proto.Unmarshal(raw, &m) != nil {
			return
		}
		inv, err := decoded(&m)
		if err != nil {
			return
		}
		if inv.Amount < 0 || int64(inv.Amount) != m.NumMsat || int64(inv.CLTVDelta) != m.CltvExpiry || len(inv.Features) != len(m.Features) {
			t.Errorf("%+v was read as %+v", &m, inv)
		}
		for _, hint := range m.RouteHints {
			blocks := uint64(0)
			for _, hop := range hint.HopHints {
				blocks += uint64(hop.CltvExpiryDelta)
			}
			if inv.Locks() < uint64(m.CltvExpiry)+min(blocks, 1<<32-1) {
				t.Errorf("a hint of %d blocks before the last %d is read as %d in all", blocks, m.CltvExpiry, inv.Locks())
			}
		}
		if m.Expiry > 0 && m.Timestamp > 0 && inv.Expires.Before(time.Unix(m.Timestamp, 0)) {
			t.Errorf("an invoice of %d that lives %d s expires %v", m.Timestamp, m.Expiry, inv.Expires)
		}
	})
}

// What the node says of an invoice of ours: nothing is held that it does not hold.
func FuzzInvoice(f *testing.F) {
	hash := make([]byte, 32)
	seed(f, &lnrpc.Invoice{RHash: hash, State: lnrpc.Invoice_ACCEPTED, Htlcs: []*lnrpc.InvoiceHTLC{
		{State: lnrpc.InvoiceHTLCState_ACCEPTED, AmtMsat: 1000, ExpiryHeight: 500}, {State: lnrpc.InvoiceHTLCState_CANCELED, AmtMsat: 1, ExpiryHeight: 1}}},
		&lnrpc.Invoice{RHash: hash[:31], State: 9}, &lnrpc.Invoice{RHash: hash, State: lnrpc.Invoice_SETTLED, AmtPaidMsat: 7})
	f.Fuzz(func(t *testing.T, raw []byte) {
		var m lnrpc.Invoice
		if proto.Unmarshal(raw, &m) != nil {
			return
		}
		event, err := invoiceEvent(&m)
		if err == nil && (len(m.RHash) < len(event.Hash) || event.AddIndex != m.AddIndex || event.SettleIndex != m.SettleIndex) {
			t.Errorf("%+v was read as %+v", &m, event)
		}
		view, err := nodeInvoice(paidaction.Hash{}, &m)
		if err != nil {
			return
		}
		held := false
		for _, h := range m.Htlcs {
			held = held || h.State == lnrpc.InvoiceHTLCState_ACCEPTED || h.State == lnrpc.InvoiceHTLCState_SETTLED
		}
		if !held && (view.Received != 0 || view.ExpiryHeight != 0) {
			t.Errorf("nothing is held of %+v, and read was %+v", &m, view)
		}
	})
}

// What the node says of a payment: a preimage fits or is none, and it is over only if the node says so.
func FuzzPayment(f *testing.F) {
	seed(f, &lnrpc.Payment{PaymentHash: someHash, Status: lnrpc.Payment_SUCCEEDED, PaymentPreimage: someHash, ValueMsat: 1000, FeeMsat: 1},
		&lnrpc.Payment{PaymentHash: someHash, Status: lnrpc.Payment_IN_FLIGHT, Htlcs: []*lnrpc.HTLCAttempt{{Status: lnrpc.HTLCAttempt_SUCCEEDED, Preimage: make([]byte, 32)}}},
		&lnrpc.Payment{PaymentHash: someHash, Status: lnrpc.Payment_FAILED, FailureReason: lnrpc.PaymentFailureReason_FAILURE_REASON_NO_ROUTE}, &lnrpc.Payment{Status: 77})
	f.Fuzz(func(t *testing.T, raw []byte) {
		var m lnrpc.Payment
		if proto.Unmarshal(raw, &m) != nil {
			return
		}
		update, err := paymentUpdate(&m)
		if err != nil {
			return
		}
		if update.Preimage != nil && (update.Preimage.IsZero() || update.Preimage.Hash() != update.Hash) {
			t.Errorf("%+v has a preimage that is none of it", &m)
		}
		// Only what the node itself calls over is over.
		if over := m.Status == lnrpc.Payment_SUCCEEDED || m.Status == lnrpc.Payment_FAILED; over == (update.State == paidaction.PaymentInFlight) {
			t.Errorf("%v was read as %v", m.Status, update.State)
		}
	})
}

package nodetest

import (
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/a-seed-a7aed72f/holdfast/paidaction"
)

func plainPaid(t *testing.T, w *world) {
	r := w.request(false)
	bolt11 := w.open(r)
	if v := w.lookup(r.Hash, paidaction.InvoiceOpen); v.Bolt11 != bolt11 || v.Received != 0 || v.ExpiryHeight != 0 {
		t.Fatalf("an open invoice: %+v", v)
	}
	w.pay(bolt11)
	if v := w.await(r.Hash, paidaction.InvoiceSettled); v.Received != amount || v.OnChain != 0 || v.ExpiryHeight != 0 {
		t.Fatalf("a settled invoice: %+v", v)
	}
	w.must(w.Node().SettleInvoice(w.ctx, r.Preimage))
	w.must(w.Node().CancelInvoice(w.ctx, r.Hash))
	w.lookup(r.Hash, paidaction.InvoiceSettled)
}

func plainOpen(_ *testing.T, w *world) {
	r := w.request(false)
	w.open(r)
	w.mustNot("settling an unpaid invoice", w.Node().SettleInvoice(w.ctx, r.Preimage))
	w.lookup(r.Hash, paidaction.InvoiceOpen)
}

func heldSettled(t *testing.T, w *world) {
	r := w.request(true)
	bolt11 := w.open(r)
	w.mustNot("settling an unpaid invoice", w.Node().SettleInvoice(w.ctx, r.Preimage))
	w.pay(bolt11)
	v := w.await(r.Hash, paidaction.InvoiceAccepted)
	chain, err := w.Node().Chain(w.ctx)
	w.must(err)
	if v.Received != amount || v.ExpiryHeight < chain.Height+cltvDelta {
		t.Fatalf("a held invoice at height %d: %+v", chain.Height, v)
	}
	w.must(w.Node().SettleInvoice(w.ctx, r.Preimage))
	w.must(w.Node().SettleInvoice(w.ctx, r.Preimage))
	if v := w.await(r.Hash, paidaction.InvoiceSettled); v.Received != amount || v.ExpiryHeight != 0 {
		t.Fatalf("a settled invoice: %+v", v)
	}
	w.must(w.Node().CancelInvoice(w.ctx, r.Hash))
	w.lookup(r.Hash, paidaction.InvoiceSettled)
}

func heldCanceled(t *testing.T, w *world) {
	r := w.request(true)
	w.pay(w.open(r))
	w.await(r.Hash, paidaction.InvoiceAccepted)
	w.must(w.Node().CancelInvoice(w.ctx, r.Hash))
	w.must(w.Node().CancelInvoice(w.ctx, r.Hash))
	if v := w.await(r.Hash, paidaction.InvoiceCanceled); v.Received != 0 || v.ExpiryHeight != 0 {
		t.Fatalf("a cancelled invoice: %+v", v)
	}
	w.mustNot("settling what was given back", w.Node().SettleInvoice(w.ctx, r.Preimage))
}

func openCanceled(_ *testing.T, w *world) {
	for _, hold := range []bool{false, true} {
		r := w.request(hold)
		w.open(r)
		w.must(w.Node().CancelInvoice(w.ctx, r.Hash))
		w.must(w.Node().CancelInvoice(w.ctx, r.Hash))
		w.lookup(r.Hash, paidaction.InvoiceCanceled)
		_, err := w.Node().OpenInvoice(w.ctx, r)
		w.mustNot("opening what was cancelled", err)
	}
}

func openExpires(_ *testing.T, w *world) {
	for _, hold := range []bool{false, true} {
		r := w.request(hold)
		r.Expiry = time.Second
		w.open(r)
		w.Advance(2 * time.Second)
		w.await(r.Hash, paidaction.InvoiceCanceled)
	}
}

func openedTwice(t *testing.T, w *world) {
	for _, hold := range []bool{false, true} {
		r := w.request(hold)
		bolt11 := w.open(r)
		if again := w.open(r); again != bolt11 {
			t.Fatalf("opened as %s and as %s", bolt11, again)
		}
		for what, change := range map[string]func(*paidaction.InvoiceRequest){
			"amount":     func(r *paidaction.InvoiceRequest) { r.Amount++ },
			"memo":       func(r *paidaction.InvoiceRequest) { r.Memo = "another" },
			"final CLTV": func(r *paidaction.InvoiceRequest) { r.CLTVDelta++ },
		} {
			other := r
			change(&other)
			_, err := w.Node().OpenInvoice(w.ctx, other)
			w.mustNot("opening with another "+what, err)
		}
	}
	plain := w.request(false)
	w.open(plain)
	plain.Hold = true
	_, err := w.Node().OpenInvoice(w.ctx, plain)
	w.mustNot("opening a plain invoice as one that holds", err)
}

func unknown(t *testing.T, w *world) {
	r := w.request(true)
	_, err := w.Node().LookupInvoice(w.ctx, r.Hash)
	for what, err := range map[string]error{
		"look up": err,
		"settle":  w.Node().SettleInvoice(w.ctx, r.Preimage),
		"cancel":  w.Node().CancelInvoice(w.ctx, r.Hash),
	} {
		if !errors.Is(err, paidaction.ErrInvoiceNotFound) {
			t.Errorf("%s: %v", what, err)
		}
	}
}

func refused(_ *testing.T, w *world) {
	for what, change := range map[string]func(*paidaction.InvoiceRequest){
		"no amount":               func(r *paidaction.InvoiceRequest) { r.Amount = 0 },
		"no expiry":               func(r *paidaction.InvoiceRequest) { r.Expiry = 0 },
		"a fraction of a second":  func(r *paidaction.InvoiceRequest) { r.Expiry = 1500 * time.Millisecond },
		"another hash's preimage": func(r *paidaction.InvoiceRequest) { r.Hash[0]++ },
		"a memo without room":     func(r *paidaction.InvoiceRequest) { r.Memo = strings.Repeat("m", paidaction.MaxMemo+1) },
		"too few blocks":          func(r *paidaction.InvoiceRequest) { r.CLTVDelta = 23 },
	} {
		r := w.request(false)
		change(&r)
		_, err := w.Node().OpenInvoice(w.ctx, r)
		w.mustNot(what, err)
	}
}

func longestMemo(t *testing.T, w *world) {
	r := w.request(true)
	r.Memo = strings.Repeat("語", paidaction.MaxMemo/len("語"))
	w.open(r)
	w.lookup(r.Hash, paidaction.InvoiceOpen)
	if len(r.Memo) != paidaction.MaxMemo {
		t.Fatalf("%d bytes", len(r.Memo))
	}
}

func settledListed(t *testing.T, w *world) {
	taken, given, waiting := w.request(true), w.request(true), w.request(false)
	w.pay(w.open(taken))
	w.await(taken.Hash, paidaction.InvoiceAccepted)
	w.must(w.Node().SettleInvoice(w.ctx, taken.Preimage))
	w.await(taken.Hash, paidaction.InvoiceSettled)
	w.pay(w.open(given))
	w.await(given.Hash, paidaction.InvoiceAccepted)
	w.must(w.Node().CancelInvoice(w.ctx, given.Hash))
	w.open(waiting)
	listed := func(since time.Time) map[paidaction.Hash]paidaction.Msat {
		all := map[paidaction.Hash]paidaction.Msat{}
		w.must(w.Node().EachSettled(w.ctx, since, func(v paidaction.NodeInvoice) error {
			all[v.Hash] = v.Received
			return nil
		}))
		return all
	}
	all := listed(time.Unix(0, 0))
	_, givenListed := all[given.Hash]
	_, waitingListed := all[waiting.Hash]
	if all[taken.Hash] != amount || givenListed || waitingListed {
		t.Fatalf("listed as taken: %v of %v; given back %v; open %v", all[taken.Hash], amount, givenListed, waitingListed)
	}
	if later := listed(time.Now().Add(24 * time.Hour)); len(later) > 0 {
		t.Fatalf("listed of tomorrow: %v", later)
	}
	refused := errors.New("refused")
	if err := w.Node().EachSettled(w.ctx, time.Unix(0, 0), func(paidaction.NodeInvoice) error { return refused }); !errors.Is(err, refused) {
		t.Fatalf("the caller's error became %v", err)
	}
}

// heldForLonger: the clock takes away what nobody has paid, and never what is held (spec 01 §1.5).
func heldForLonger(t *testing.T, w *world) {
	held, unpaid := w.request(true), w.request(true)
	held.Expiry, unpaid.Expiry = 10*time.Second, 10*time.Second // within which it is paid, also on a busy machine
	w.pay(w.open(held))
	before := w.await(held.Hash, paidaction.InvoiceAccepted)
	w.open(unpaid) // expires no earlier than the held one
	w.Advance(11 * time.Second)
	w.await(unpaid.Hash, paidaction.InvoiceCanceled)
	if v := w.lookup(held.Hash, paidaction.InvoiceAccepted); v != before {
		t.Fatalf("%+v has become %+v", before, v)
	}
	w.must(w.Node().SettleInvoice(w.ctx, held.Preimage))
	w.await(held.Hash, paidaction.InvoiceSettled)
}

// inParts: the parts of a payment are taken and given back together.
func inParts(t *testing.T, w *world) {
	paid := func(r paidaction.InvoiceRequest, state paidaction.InvoiceState) paidaction.NodeInvoice {
		t.Helper()
		if taken, err := w.PayTotal(w.ctx, w.open(r), r.Amount, 3); err != nil || !taken {
			t.Fatalf("taken: %t, %v", taken, err)
		}
		v := w.lookup(r.Hash, state)
		if v.Received != amount || (v.ExpiryHeight > 0) != (state == paidaction.InvoiceAccepted) {
			t.Fatalf("%+v", v)
		}
		return v
	}
	paid(w.request(false), paidaction.InvoiceSettled)
	taken, given := w.request(true), w.request(true)
	paid(taken, paidaction.InvoiceAccepted)
	w.must(w.Node().SettleInvoice(w.ctx, taken.Preimage))
	if v := w.await(taken.Hash, paidaction.InvoiceSettled); v.Received != amount {
		t.Fatalf("a settled invoice: %+v", v)
	}
	paid(given, paidaction.InvoiceAccepted)
	w.must(w.Node().CancelInvoice(w.ctx, given.Hash))
	if v := w.await(given.Hash, paidaction.InvoiceCanceled); v.Received != 0 {
		t.Fatalf("a cancelled invoice: %+v", v)
	}
}

// otherTotal: the node takes more than was asked for, and says how much, but not less (spec 01 §1.5). Whoever offers
// less leaves the invoice to others.
func otherTotal(t *testing.T, w *world) {
	for _, parts := range []int{1, 2} {
		for hold, state := range map[bool]paidaction.InvoiceState{false: paidaction.InvoiceSettled, true: paidaction.InvoiceAccepted} {
			r := w.request(hold)
			bolt11 := w.open(r)
			if taken, err := w.PayTotal(w.ctx, bolt11, amount-1, parts); err != nil || taken {
				t.Fatalf("less, in %d parts, hold %t: taken %t, %v", parts, hold, taken, err)
			}
			if v := w.lookup(r.Hash, paidaction.InvoiceOpen); v.Received != 0 {
				t.Fatalf("less, in %d parts: %+v", parts, v)
			}
			if taken, err := w.PayTotal(w.ctx, bolt11, 2*amount, parts); err != nil || !taken {
				t.Fatalf("more, in %d parts, hold %t: taken %t, %v", parts, hold, taken, err)
			}
			if v := w.lookup(r.Hash, state); v.Received != 2*amount || v.Amount != amount {
				t.Fatalf("more, in %d parts: %+v", parts, v)
			}
			w.must(w.Node().CancelInvoice(w.ctx, r.Hash)) // nothing stays held
		}
	}
}

// heldOverRestart: what a node holds it still holds when it comes back, and can be taken or given back.
func heldOverRestart(t *testing.T, w *world) {
	taken, given, unpaid := w.request(true), w.request(true), w.request(true)
	bolt11 := w.open(unpaid)
	before := map[paidaction.Hash]paidaction.NodeInvoice{}
	for _, r := range []paidaction.InvoiceRequest{taken, given} {
		w.pay(w.open(r))
		before[r.Hash] = w.await(r.Hash, paidaction.InvoiceAccepted)
	}
	w.must(w.Restart(w.ctx))
	for h, v := range before {
		if now := w.lookup(h, paidaction.InvoiceAccepted); now != v {
			t.Fatalf("%+v has become %+v", v, now)
		}
	}
	w.must(w.Node().SettleInvoice(w.ctx, taken.Preimage))
	w.must(w.Node().CancelInvoice(w.ctx, given.Hash))
	if v := w.await(taken.Hash, paidaction.InvoiceSettled); v.Received != amount {
		t.Fatalf("%+v", v)
	}
	if v := w.await(given.Hash, paidaction.InvoiceCanceled); v.Received != 0 {
		t.Fatalf("%+v", v)
	}
	w.pay(bolt11)
	w.await(unpaid.Hash, paidaction.InvoiceAccepted)
	w.must(w.Node().CancelInvoice(w.ctx, unpaid.Hash))
}

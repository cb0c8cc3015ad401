package reconcile_test

import (
	"testing"

	"github.com/a-seed-a7aed72f/holdfast/paidaction"
	"github.com/a-seed-a7aed72f/holdfast/reconcile"
)

// What a node says can differ from what is booked in more ways than the one in which TestEveryKindOfBreakIsFound makes
// each kind: in either direction, and of what was paid as of what has failed.
func TestEveryWayInWhichANodeDiffersIsFound(t *testing.T) {
	t.Parallel()
	w := lived(t)
	received := func(more paidaction.Msat) func(*paidaction.NodeInvoice) {
		return func(inv *paidaction.NodeInvoice) {
			if inv.State == paidaction.InvoiceSettled {
				inv.Received += more
			}
		}
	}
	for _, c := range []struct {
		what, kind string
		lies       liars
	}{
		{"less was received than is booked", "received", liars{invoice: received(-1)}},
		{"more was received than is booked", "received", liars{invoice: received(1)}},
		{"what is paid is held", "held", liars{invoice: saying(paidaction.InvoiceSettled, paidaction.InvoiceAccepted)}},
		{"what has failed is held", "held", liars{invoice: saying(paidaction.InvoiceCanceled, paidaction.InvoiceAccepted)}},
		{"what is paid can be paid", "open", liars{invoice: saying(paidaction.InvoiceSettled, paidaction.InvoiceOpen)}},
		{"what has failed can be paid", "open", liars{invoice: saying(paidaction.InvoiceCanceled, paidaction.InvoiceOpen)}},
		{"more has left than is booked", "fee", liars{payment: func(u *paidaction.PaymentUpdate) error { u.Paid++; return nil }}},
		{"of what has left more was the fee", "fee", liars{payment: func(u *paidaction.PaymentUpdate) error { u.Paid--; u.Fee++; return nil }}},
		{"what was made may still be paid", "may-pay", liars{payment: paying(paidaction.PaymentSucceeded, paidaction.PaymentInFlight)}},
		{"what has failed may still be paid", "may-pay", liars{payment: paying(paidaction.PaymentFailed, paidaction.PaymentInFlight)}},
	} {
		config := compared(w)
		c.lies.Nodes = config.Nodes
		config.Nodes = c.lies
		report, err := reconcile.Run(w.Ctx, config)
		if err != nil {
			t.Fatal(err)
		}
		breaks := report.Invariants[8].Breaks
		for _, b := range breaks {
			if b.Kind != c.kind {
				t.Errorf("%s: %+v", c.what, b)
			}
		}
		if len(breaks) == 0 || report.OK {
			t.Errorf("%s: not found", c.what)
		}
	}
}

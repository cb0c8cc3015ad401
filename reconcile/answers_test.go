package reconcile_test

import (
	"errors"
	"slices"
	"strings"
	"testing"
	"time"

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

// A node that falls silent before the second look takes nothing back of what it said at the first.
func TestWhatANodeSaidStaysWhereItIsSilentAtTheSecondLook(t *testing.T) {
	t.Parallel()
	w := lived(t)
	said := 0
	config := compared(w)
	config.Again = time.Millisecond
	config.Nodes = liars{Nodes: config.Nodes, payment: func(u *paidaction.PaymentUpdate) error {
		if u.State != paidaction.PaymentSucceeded {
			return nil
		}
		if said++; said > 1 {
			return errors.New("it has fallen silent")
		}
		u.State = paidaction.PaymentFailed
		return nil
	}}
	report, err := reconcile.Run(w.Ctx, config)
	if err != nil {
		t.Fatal(err)
	}
	if found := report.Invariants[8]; found.Broken != 1 || found.Breaks[0].Kind != "not-paid-out" || len(report.Unknown) == 0 {
		t.Errorf("%+v, unknown %v", found, report.Unknown)
	}
}

// Nobody waits until the second node has paid, too: that it may pay what another one has paid is a break.
func TestWhatAnotherNodeMayStillPayIsFound(t *testing.T) {
	t.Parallel()
	w := lived(t)
	exec(w, someAction.Replace(`UPDATE relay_attempt SET node = 'elsewhere', outcome = NULL, ended_at = NULL
		WHERE payment_id = (SELECT id FROM relay_payment WHERE action_id = {withdrawn})`))
	if found := run(t, w).Invariants[3]; !slices.ContainsFunc(found.Breaks, func(b reconcile.Break) bool { return b.Kind == "two-nodes" }) {
		t.Errorf("%+v", found)
	}
}

// A trigger that no kind of break names is found too where it is off: pg_restore may leave any of them so.
func TestAnyTriggerThatIsOffIsFound(t *testing.T) {
	t.Parallel()
	w := lived(t)
	exec(w, `ALTER TABLE archived_balance DISABLE TRIGGER archived_append_only`)
	report := run(t, w)
	if found := report.Invariants[0]; report.OK || found.Broken != 1 || !strings.Contains(found.Breaks[0].What, "archived_balance: archived_append_only is switched off") {
		t.Errorf("%+v", found)
	}
}

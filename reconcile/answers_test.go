package reconcile_test

import (
	"errors"
	"slices"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

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

// A restore that breaks off leaves every trigger switched off: those too that no kind of break names.
func TestAnyTriggerThatIsOffIsFound(t *testing.T) {
	t.Parallel()
	w := lived(t)
	exec(w, `CREATE TRIGGER another BEFORE DELETE ON archived_balance FOR EACH ROW EXECUTE FUNCTION refuse_posting_change();
		ALTER TABLE archived_balance DISABLE TRIGGER USER`)
	report, off := run(t, w), []string{}
	for _, b := range report.Invariants[0].Breaks {
		if off = append(off, b.What); b.Kind != "guard" || report.OK {
			t.Errorf("%+v", b)
		}
	}
	if slices.Sort(off); !slices.Equal(off, []string{"the trigger archived_balance_append_only of the table archived_balance is switched off",
		"the trigger archived_balance_not_truncated of the table archived_balance is switched off", "the trigger of archived_balance: another is switched off"}) {
		t.Errorf("%q", off)
	}
}

// Whatever trigger the schema has, it is missed once it is gone: each has a name that no other has, and reconcile knows
// it.
func TestEveryTriggerThatIsGoneIsMissed(t *testing.T) {
	t.Parallel()
	w := lived(t)
	rows, err := w.Pool.Query(w.Ctx, `SELECT tgname || ' is gone' FROM pg_trigger JOIN pg_class c ON c.oid = tgrelid
		WHERE c.relnamespace = 'public'::regnamespace AND NOT tgisinternal AND NOT c.relispartition ORDER BY 1`)
	if err != nil {
		t.Fatal(err)
	}
	want, err := pgx.CollectRows(rows, pgx.RowTo[string])
	if err != nil || len(want) == 0 {
		t.Fatal(want, err)
	}
	exec(w, `DO $$ DECLARE g record; BEGIN
		FOR g IN SELECT tgname, tgrelid::regclass AS of FROM pg_trigger JOIN pg_class c ON c.oid = tgrelid
			WHERE c.relnamespace = 'public'::regnamespace AND NOT tgisinternal AND tgparentid = 0 LOOP
			EXECUTE format('DROP TRIGGER %I ON %s', g.tgname, g.of);
		END LOOP; END $$`)
	var missed []string
	for _, i := range run(t, w).Invariants {
		for _, b := range i.Breaks {
			missed = append(missed, b.What)
		}
	}
	if slices.Sort(missed); !slices.Equal(missed, want) {
		t.Errorf("missed are %q, want %q", missed, want)
	}
}

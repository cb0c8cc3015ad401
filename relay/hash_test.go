package relay_test

import (
	"testing"

	"github.com/a-seed-a7aed72f/holdfast/ledger"
	"github.com/a-seed-a7aed72f/holdfast/lightning/simnode"
	"github.com/a-seed-a7aed72f/holdfast/paidaction"
)

// The receiver's invoice is wrapped after a withdrawal to it was looked at, and before it begins: the withdrawal takes
// nothing. Once it had paid, the preimage of the payer's invoice would be known, and nothing of theirs would be left to
// pay for.
func TestWhatHasJustBeenWrappedIsNotWithdrawn(t *testing.T) {
	b := setup(t).rich(100)
	inv := b.issue(simnode.Ask{Amount: 50_000})
	b.Node.After(simnode.MethodTrack, func(h paidaction.Hash) {
		if _, err := b.Pool.Exec(b.Ctx, `INSERT INTO foreign_hash (payment_hash, used) VALUES ($1, 'WRAPPED') ON CONFLICT DO NOTHING`, h[:]); err != nil {
			t.Error(err)
		}
	})
	_, err := b.tryWithdraw(inv.Bolt11)
	b.WantRefusal(err, paidaction.CodeDuplicate)
	if n := b.Count(`SELECT count(*) FROM foreign_hash`); n != 1 {
		t.Error("the node was not asked")
	}
	if n := b.Count(`SELECT count(*) FROM relay_payment`); n != 0 {
		t.Error("it is to be paid")
	}
	b.WantBalance(ledger.UserSats(b.payer), 100_000)
	b.wantSound()
}

// What is to be forwarded is in the pipeline already, for a withdrawal, although nothing lets that happen: the payer
// gets their payment back, whether the step is taken alone or together with others.
func TestWhatIsInThePipelineIsNotForwardedToo(t *testing.T) {
	for name, take := range map[string]func(b *bundle, action int64) error{
		"alone":    func(b *bundle, action int64) error { _, err := b.Engine.Advance(b.Ctx, action); return err },
		"together": func(b *bundle, action int64) error { _, err := b.Engine.Drive(b.Ctx, action); return err },
	} {
		t.Run(name, func(t *testing.T) {
			b := setup(t).rich(100)
			pa, other := b.zap(), b.withdraw(b.issue(simnode.Ask{Amount: 50_000}).Bolt11)
			if _, err := b.Pool.Exec(b.Ctx, `UPDATE relay_payment SET payment_hash = $2 WHERE action_id = $1`, other.ID, pa.Invoice.Hash[:]); err != nil {
				t.Fatal(err)
			}
			if err := b.Node.PayHash(pa.Invoice.Hash, simnode.Payment{}); err != nil {
				t.Fatal(err)
			}
			if err := take(b, pa.ID); err != nil {
				t.Fatal(err)
			}
			b.Advance(pa.ID)
			if failed := b.WantState(pa.ID, paidaction.Failed); failed.Failure.Code != paidaction.CodeDuplicate {
				t.Errorf("the payer is told %v", failed.Failure)
			}
			b.wantOuter(pa, paidaction.InvoiceCanceled)
			if n := b.Count(`SELECT count(*) FROM relay_payment WHERE action_id = $1`, pa.ID); n != 0 {
				t.Error("it is in the pipeline twice")
			}
		})
	}
}

// Another guard of the pipeline than that of the hash stops a forward: nothing says that the invoice was paid already,
// and the payer is not told so.
func TestWhatElseIsInTheWayOfAForwardIsNoDuplicate(t *testing.T) {
	b := setup(t).rich(100)
	pa, other := b.zap(), b.withdraw(b.issue(simnode.Ask{Amount: 50_000}).Bolt11)
	if _, err := b.Pool.Exec(b.Ctx, `UPDATE relay_payment SET action_id = $2 WHERE action_id = $1`, other.ID, pa.ID); err != nil {
		t.Fatal(err)
	}
	if err := b.Node.PayHash(pa.Invoice.Hash, simnode.Payment{}); err != nil {
		t.Fatal(err)
	}
	b.Advance(pa.ID)
	b.Advance(pa.ID)
	if failed := b.WantState(pa.ID, paidaction.Failed); failed.Failure.Code != paidaction.CodeInternal || len(b.Faults.Errors) != 1 {
		t.Errorf("the payer is told %v; faults %v", failed.Failure, b.Faults.Errors)
	}
	b.wantOuter(pa, paidaction.InvoiceCanceled)
}

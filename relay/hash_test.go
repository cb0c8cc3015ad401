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

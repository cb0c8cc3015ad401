package relay_test

import (
	"errors"
	"testing"
	"time"

	"github.com/a-seed-a7aed72f/holdfast/lightning/simnode"
	"github.com/a-seed-a7aed72f/holdfast/paidaction"
)

// Spec 05.16e: the node that held the payer's payment loses its data for good after the receiver has refused theirs:
// nobody will ever say that the payer has it back. An operator ends that.
func TestAForwardThatFailedIsGivenUpWhereItsIssuerIsWiped(t *testing.T) {
	b := setup(t, "one", "two")
	b.wallet.Ask.Act = simnode.Refuses
	b.Node.SetSendable(0)
	pa := b.zap()
	b.pay(pa)
	b.giveUpUnheard(pa)
	b.Advance(pa.ID)
	b.WantState(pa.ID, paidaction.FailedForward)
	b.Node.Wipe()
	b.Clock.Advance(2 * time.Hour)
	b.rounds(2)
	b.WantState(pa.ID, paidaction.FailedForward)
	if err := b.Engine.GiveUp(b.Ctx, pa.ID, "Our node has lost its data."); err != nil {
		t.Fatal(err)
	}
	b.WantState(pa.ID, paidaction.Failed)
	b.wantReceived(pa, 0)
	b.wantSound()
}

// While a payment to the receiver may be out nothing is given up, also if the database has forgotten that it is.
func TestWhatMayReachItsReceiverIsNotGivenUp(t *testing.T) {
	b, pa := sentAndForgotten(t)
	b.Node.Wipe()
	b.Clock.Advance(2 * time.Hour)
	for why, away := range map[string]bool{"its node is away": true, "a node pays": false} {
		b.Nodes[1].SetAway(away)
		if err := b.Engine.GiveUp(b.Ctx, pa.ID, "Our node has lost its data."); !errors.Is(err, paidaction.ErrNotGivenUp) {
			t.Errorf("%s: got %v", why, err)
		}
		b.WantState(pa.ID, paidaction.PendingHeld)
	}
}

// Nor once it is on its way: what becomes of the payer's payment follows from what became of the receiver's.
func TestAForwardThatIsOnItsWayIsNotGivenUp(t *testing.T) {
	b := setup(t)
	pa := b.zap()
	b.pay(pa)
	b.Node.Wipe()
	b.Clock.Advance(2 * time.Hour)
	if err := b.Engine.GiveUp(b.Ctx, pa.ID, "Our node has lost its data."); !errors.Is(err, paidaction.ErrNotGivenUp) {
		t.Errorf("got %v", err)
	}
	b.WantState(pa.ID, paidaction.Forwarding)
}

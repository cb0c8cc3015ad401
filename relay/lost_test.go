package relay_test

import (
	"testing"
	"time"

	"github.com/a-seed-a7aed72f/holdfast/lightning/simnode"
	"github.com/a-seed-a7aed72f/holdfast/paidaction"
)

// The claim under which a node paid is lost, as after a restore, and the payment is claimed for that node anew, too
// late for anything to be sent: nothing is, and what has left is booked.
func TestWhatItsNodeHasPaidIsFollowedThere(t *testing.T) {
	b := setup(t).rich(100)
	inv := b.issue(simnode.Ask{Amount: 50_000})
	pa := b.withdraw(inv.Bolt11)
	err := b.Node.Pay(b.Ctx, paidaction.PaymentRequest{Bolt11: inv.Bolt11, FeeLimit: 3_000, Timeout: time.Minute}, func(paidaction.PaymentUpdate) error { return nil })
	if err != nil {
		t.Fatal(err)
	}
	b.Clock.Advance(2 * time.Hour) // the invoice has expired
	if claimed, err := b.Relay.Step(b.Ctx, b.Node.Name(), b.Engine.Advance); !claimed || err != nil {
		t.Fatalf("claimed: %t, error %v", claimed, err)
	}
	for b.Advance(pa.ID) == paidaction.Moved {
	}
	b.WantState(pa.ID, paidaction.Paid)
	b.wantPaidOut(inv.Hash, 50_000)
	b.wantSent(inv.Hash, 1) // by hand
	b.wantSound()
}

// What was lost as often as a payment is tried is not given to its node once more, and nobody gives it up before its
// invoice has expired: what was lost on its way may arrive. Then it goes back, or its payer would wait for ever.
func TestWhatWasLostTooOftenGoesBackOnceItsInvoiceHasExpired(t *testing.T) {
	b := setup(t).rich(100)
	inv := b.issue(simnode.Ask{Amount: 50_000})
	pa := b.withdraw(inv.Bolt11)
	b.Node.FailBefore(simnode.MethodPay, 1<<30)
	const tries = 3
	for range tries {
		if claimed, err := b.Relay.Step(b.Ctx, b.Node.Name(), b.Engine.Advance); !claimed || err != nil {
			t.Fatalf("claimed: %t, error %v", claimed, err)
		}
		b.AwaitStage(pa.ID, "in_work")
		b.Clock.Advance(over)
		b.rounds(3)
	}
	b.AwaitStage(pa.ID, "in_work")
	if claimed, err := b.Relay.Step(b.Ctx, b.Node.Name(), b.Engine.Advance); claimed || err != nil {
		t.Errorf("claimed once more: %t, error %v", claimed, err)
	}
	b.WantState(pa.ID, paidaction.Forwarding)
	b.Clock.Advance(2 * time.Hour)
	b.rounds(3)
	b.WantState(pa.ID, paidaction.Failed)
	b.wantPaidOut(inv.Hash, 0)
	b.wantSats(100_000)
	b.wantSound()
}

// unsent has a node behind the chain claim a payment as often as one is tried: nothing is sent.
func (b *bundle) unsent() {
	b.Helper()
	b.Node.SetSynced(false)
	for range 3 {
		if claimed, err := b.Relay.Step(b.Ctx, b.Node.Name(), b.Engine.Advance); !claimed || err != nil {
			b.Fatalf("claimed: %t, error %v", claimed, err)
		}
		b.Clock.Advance(time.Minute)
	}
	b.Node.SetSynced(true)
}

// Claims under which nothing was sent are no tries: what is lost on its way after them is sent again, and need not wait
// until its invoice has expired.
func TestWhatIsLostAfterClaimsThatSentNothingIsSentAgain(t *testing.T) {
	b := setup(t).rich(100)
	inv := b.issue(simnode.Ask{Amount: 50_000})
	pa := b.withdraw(inv.Bolt11)
	b.unsent()
	b.Node.FailBefore(simnode.MethodPay, 1) // the node restarts: the call never arrives
	for range 2 {
		if claimed, err := b.Relay.Step(b.Ctx, b.Node.Name(), b.Engine.Advance); !claimed || err != nil {
			t.Fatalf("claimed: %t, error %v", claimed, err)
		}
		b.Clock.Advance(over)
		b.rounds(2)
	}
	b.WantState(pa.ID, paidaction.Paid)
	b.wantPaidOut(inv.Hash, 50_000)
	b.wantSound()
}

// Nor do they keep another node from trying what the first one could not make.
func TestAnotherNodeTriesWhatFailedAfterClaimsThatSentNothing(t *testing.T) {
	b := setup(t, "one", "two").rich(100)
	inv := b.issue(simnode.Ask{Amount: 50_000})
	pa := b.withdraw(inv.Bolt11)
	b.unsent()
	b.Node.SetIsolated(true)
	for _, node := range []string{"one", "two"} {
		if claimed, err := b.Relay.Step(b.Ctx, node, b.Engine.Advance); !claimed || err != nil {
			t.Errorf("node %s, claimed: %t, error %v", node, claimed, err)
		}
	}
	b.WantState(pa.ID, paidaction.Paid)
	b.wantPaidOut(inv.Hash, 50_000)
	b.wantSound()
}

// The node did not know a payment when its claim ended, and has it after all: the call was slow to arrive. The node
// lacks by then the very money that it has sent, so it is given nothing, and nobody claims the payment for it. It is
// followed there all the same: else the receiver would be paid, and the payer's payment would go back to them.
func TestWhatArrivesLateAtItsNodeIsFollowedThere(t *testing.T) {
	b := setup(t)
	pa := b.zap()
	b.pay(pa)
	b.Node.FailBefore(simnode.MethodPay, 1)
	if claimed, err := b.Relay.Step(b.Ctx, b.Node.Name(), b.Engine.Advance); !claimed || err != nil {
		t.Fatalf("claimed: %t, error %v", claimed, err)
	}
	b.Clock.Advance(over)
	b.rounds(1)
	b.AwaitStage(pa.ID, "incoming")
	err := b.Node.Pay(b.Ctx, paidaction.PaymentRequest{Bolt11: b.wallet.Last().Bolt11, FeeLimit: 3_000, Timeout: time.Minute}, func(paidaction.PaymentUpdate) error { return nil })
	if err != nil {
		t.Fatal(err)
	}
	b.Node.SetSendable(0)
	b.rounds(2)
	b.WantState(pa.ID, paidaction.Paid)
	b.wantReceived(pa, 70_000)
	b.wantOuter(pa, paidaction.InvoiceSettled)
	b.wantSound()
}

package relay_test

import (
	"errors"
	"testing"
	"time"

	"github.com/a-seed-a7aed72f/holdfast/lightning/simnode"
	"github.com/a-seed-a7aed72f/holdfast/paidaction"
	"github.com/a-seed-a7aed72f/holdfast/relay"
)

// No node can send it, and its invoice is good for a week: nobody is kept from their money for so long.
func TestAWithdrawalThatNoNodeCanSendComesBack(t *testing.T) {
	b := setup(t).rich(100)
	b.Node.SetSendable(10_000)
	inv := b.issue(simnode.Ask{Amount: 50_000, Expiry: 7 * 24 * time.Hour})
	pa := b.withdraw(inv.Bolt11)
	b.Run(b.Relay)
	b.Clock.Advance(59 * time.Minute)
	b.Advance(pa.ID)
	b.WantState(pa.ID, paidaction.Forwarding)
	b.Clock.Advance(time.Minute)
	b.rounds(2)
	b.Await(pa.ID, paidaction.Failed)
	b.wantSent(inv.Hash, 0)
	b.wantSats(100_000)
	b.wantSound()
}

// One that an operator has put back is waited for anew: how old it is says nothing about the nodes of now.
func TestAWithdrawalThatIsRequeuedIsWaitedForAnew(t *testing.T) {
	b := setup(t).rich(100)
	inv := b.issue(simnode.Ask{Amount: 50_000, Expiry: 7 * 24 * time.Hour, Act: simnode.Refuses})
	pa := b.withdraw(inv.Bolt11)
	b.giveUpUnheard(pa)
	b.wallet.Receiver.Change(inv.Hash, simnode.Pays)
	b.Clock.Advance(2 * time.Hour)
	if err := relay.Requeue(b.Ctx, b.Pool, pa.ID, b.Clock.Now()); err != nil {
		t.Fatal(err)
	}
	b.Advance(pa.ID)
	b.AwaitStage(pa.ID, "incoming")
	b.Run(b.NewRelay())
	b.Await(pa.ID, paidaction.Paid)
	b.wantSound()
}

// What a node takes in the very moment in which it is to be given up goes on.
func TestWhatIsClaimedMeanwhileIsNotGivenUp(t *testing.T) {
	b := setup(t).rich(100)
	b.Node.SetSendable(0)
	inv := b.issue(simnode.Ask{Amount: 50_000, Expiry: 7 * 24 * time.Hour, Act: simnode.Holds})
	pa := b.withdraw(inv.Bolt11)
	b.Clock.Advance(time.Hour)
	b.Node.After(simnode.MethodTrack, func(paidaction.Hash) { // whoever gives it up has asked every node
		b.Node.SetSendable(1_000_000_000)
		b.Run(b.Relay)
		b.AwaitStage(pa.ID, "in_work")
	})
	for range 2 {
		_, _ = b.Engine.Advance(b.Ctx, pa.ID)
	}
	b.WantState(pa.ID, paidaction.Forwarding)
	b.await("the receiver holds it", func() bool { return b.wallet.Receiver.Receipt(inv.Hash).Held == 50_000 })
	if err := b.wallet.Receiver.Settle(inv.Hash); err != nil {
		t.Fatal(err)
	}
	b.Await(pa.ID, paidaction.Paid)
	b.wantPaidOut(inv.Hash, 50_000)
	b.wantSound()
}

// A forward goes back to its payer as soon as too few blocks are left to send it, and not only when LND gives it back.
func TestAForwardThatNoNodeCanSendGoesBackInTime(t *testing.T) {
	b := setup(t)
	b.wallet.Ask.Expiry = 7 * 24 * time.Hour
	pa := b.zap()
	b.pay(pa)
	b.Node.SetSendable(10_000)
	b.Run(b.Relay)
	const innerCLTV, padding, margin = 80, 3, 80
	b.Node.Mine(b.outer(pa).NodeInvoice().ExpiryHeight - (innerCLTV + padding + margin + 1) - b.Node.Height())
	b.rounds(1)
	b.WantState(pa.ID, paidaction.Forwarding)
	b.Node.Mine(1)
	b.rounds(2)
	b.Await(pa.ID, paidaction.Failed)
	b.wantOuter(pa, paidaction.InvoiceCanceled)
	b.wantSent(pa.Invoice.Hash, 0)
	b.wantSound()
}

// A node has sent it under a claim that was lost, as by a restore. While no node can say whether it has the payment nobody gets the money back.
func TestNothingIsGivenUpWhileNoNodeCanBeAsked(t *testing.T) {
	b := setup(t, "one", "two").rich(100)
	inv := b.issue(simnode.Ask{Amount: 50_000})
	pa := b.withdraw(inv.Bolt11)
	b.paidByTheSecond(inv.Bolt11)
	for _, node := range b.Nodes {
		node.FailBefore(simnode.MethodTrack, 1<<30)
	}
	b.Clock.Advance(2 * time.Hour)
	if _, err := b.Engine.Advance(b.Ctx, pa.ID); !errors.Is(err, paidaction.Refused(paidaction.CodeLightningUnavailable)) {
		t.Errorf("what no node could be asked about: %v", err)
	}
	b.WantState(pa.ID, paidaction.Forwarding)
	for _, node := range b.Nodes {
		node.FailBefore(simnode.MethodTrack, 0)
	}
	for range 2 { // it is left to the node that has it, and that one is asked
		for b.Advance(pa.ID) == paidaction.Moved {
		}
	}
	b.WantState(pa.ID, paidaction.Paid)
	b.wantPaidOut(inv.Hash, 50_000)
	b.wantSound()
}

// The node that holds the payer's payment does not say how it stands, or how many blocks are left: that is no reason to give it back.
func TestAForwardIsNotGivenUpWhileItsNodeIsAway(t *testing.T) {
	for _, silent := range []simnode.Method{simnode.MethodLookup, simnode.MethodChain} {
		t.Run(string(silent), func(t *testing.T) {
			b := setup(t, "one", "two")
			pa := b.zap()
			b.pay(pa)
			b.Node.FailBefore(silent, 1)
			if _, err := b.Engine.Advance(b.Ctx, pa.ID); err == nil {
				t.Error("nobody was told")
			}
			b.WantState(pa.ID, paidaction.Forwarding)
			b.Run(b.Relay)
			b.Await(pa.ID, paidaction.Paid)
			b.wantSound()
		})
	}
}

package relay_test

import (
	"testing"
	"time"

	"github.com/a-seed-a7aed72f/holdfast/lightning/simnode"
	"github.com/a-seed-a7aed72f/holdfast/paidaction"
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

// The same of a forward: it goes back to its payer as soon as too few blocks are left to send it, and not only when LND gives it back.
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

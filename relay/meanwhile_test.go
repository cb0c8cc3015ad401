package relay_test

import (
	"fmt"
	"testing"
	"time"

	"github.com/a-seed-a7aed72f/holdfast/internal/pgtest"
	"github.com/a-seed-a7aed72f/holdfast/ledger"
	"github.com/a-seed-a7aed72f/holdfast/lightning/simnode"
	"github.com/a-seed-a7aed72f/holdfast/paidaction"
	"github.com/a-seed-a7aed72f/holdfast/relay"
)

// Spec 05.16g: what becomes of a payment, and of the database, while somebody stands still who has heard of it before.

// Whoever heard that a payment has failed stands still. Meanwhile an operator puts it back and it is sent, and a copy of
// the database takes over in which it still has failed: its payer has nothing back by that.
func TestWhoStoodStillWhileADatabaseWasRestoredRefundsNothing(t *testing.T) {
	for name, begin := range map[string]func(*bundle) (*paidaction.PaidAction, paidaction.Hash){
		"a withdrawal": func(b *bundle) (*paidaction.PaidAction, paidaction.Hash) {
			inv := b.issue(simnode.Ask{Amount: 70_000, Act: simnode.Refuses})
			return b.rich(100).withdraw(inv.Bolt11), inv.Hash
		},
		"a forward": func(b *bundle) (*paidaction.PaidAction, paidaction.Hash) {
			b.wallet.Ask.Act = simnode.Refuses
			pa := b.zap()
			b.pay(pa)
			return pa, pa.Invoice.Hash
		},
	} {
		for _, accepted := range []bool{false, true} {
			t.Run(fmt.Sprintf("%s, accepted %t", name, accepted), func(t *testing.T) {
				b := setup(t)
				pa, hash := begin(b)
				b.giveUpUnheard(pa)
				restore := pgtest.Backup(t, b.Pool)
				s := &after{query: "-- name: BegunBeforeAccepted"}
				usual := b.Engine.Relay
				pool := b.traced(s)
				b.Engine.Relay = b.NewRelay(func(c *relay.Config) { c.Pool = pool })
				meanwhile := func() {
					b.Engine.Relay = usual
					b.wallet.Receiver.Change(hash, simnode.Holds)
					if err := relay.Requeue(b.Ctx, b.Pool, pa.ID, b.Clock.Now()); err != nil {
						t.Fatal(err)
					}
					stop := b.Run(b.Relay)
					b.await("the receiver holds it", func() bool { return b.wallet.Receiver.Receipt(hash).Held == 70_000 })
					stop()
					restore()
					if accepted {
						b.accept()
					} else {
						b.Engine.MayBegin = func() error { return paidaction.Errorf(paidaction.CodeTryAgain, "Not now.") }
					}
				}
				s.what = func() { s.what = meanwhile } // the node is asked once more before what it says counts
				progress, err := b.Engine.Advance(b.Ctx, pa.ID)
				if progress != paidaction.Owing {
					t.Errorf("progress %d", progress)
				}
				b.WantRefusal(err, paidaction.CodeTryAgain)
				b.WantState(pa.ID, paidaction.Forwarding)
				if !accepted {
					b.Engine.MayBegin = func() error { return nil }
					b.accept()
				}
				b.Advance(pa.ID) // it is put back once more
				if err := b.wallet.Receiver.Settle(hash); err != nil {
					t.Fatal(err)
				}
				b.Run(b.NewRelay())
				b.Await(pa.ID, paidaction.Paid)
				b.AwaitStage(pa.ID, "completed")
				b.wantPaidOut(hash, 70_000)
				b.WantBalance(ledger.RoutingSats, 0)
				b.wantSound()
			})
		}
	}
}

// Whoever heard that the payer's payment is gone, and that it was never sent on, stands still. The database of which that
// is true is gone, too: the one that is there now has forgotten that it was sent on, and the loss has to be booked.
func TestWhoStoodStillWhileADatabaseWasRestoredForgetsNoLoss(t *testing.T) {
	b := setup(t, "one", "two")
	b.wallet.Ask.Act = simnode.Holds
	b.Node.SetSendable(0)
	pa := b.zap()
	restore := pgtest.Backup(t, b.Pool)
	s := &after{query: "-- name: BegunBeforeAccepted"}
	usual := b.Engine.Relay
	pool := b.traced(s)
	b.Node.Before(simnode.MethodLookup, func(paidaction.Hash) {
		b.pay(pa)
		stop := b.Run(b.Relay)
		b.awaitHeld(pa)
		stop()
		b.settle(pa)
		b.Node.Mine(b.outer(pa).NodeInvoice().ExpiryHeight - 18 - b.Node.Height())
		b.wantOuter(pa, paidaction.InvoiceCanceled)
		b.Engine.Relay = b.NewRelay(func(c *relay.Config) { c.Pool = pool })
		// The nodes are asked once more before what they say counts.
		b.Node.Before(simnode.MethodLookup, func(paidaction.Hash) { s.what = func() { restore(); b.accept() } })
	})
	progress, err := b.Engine.Advance(b.Ctx, pa.ID)
	if progress != paidaction.Owing {
		t.Errorf("progress %d", progress)
	}
	b.WantRefusal(err, paidaction.CodeTryAgain)
	b.WantState(pa.ID, paidaction.PendingHeld)
	b.Engine.Relay = usual
	b.Advance(pa.ID)
	b.WantState(pa.ID, paidaction.Forwarding)
	b.Run(b.NewRelay())
	b.Await(pa.ID, paidaction.Paid)
	b.AwaitStage(pa.ID, "completed")
	b.wantReceived(pa, 70_000)
	b.WantBalance(ledger.LossSats, -100_000)
	b.wantSound()
}

// Nor does an operator give up what nodes said they do not have before a history of the database was accepted: it may
// have forgotten that one of them was given it since.
func TestWhatNodesSaidBeforeARestoreWasAcceptedGivesNothingUp(t *testing.T) {
	b := setup(t, "one", "two").rich(100)
	b.Nodes[1].SetSendable(0)
	pa := b.held()
	b.Node.Wipe()
	b.Clock.Advance(22 * 24 * time.Hour)
	b.Nodes[1].After(simnode.MethodTrack, func(paidaction.Hash) { b.accept() }) // nobody but whoever gives it up asks this one
	b.wantNotGivenUp(pa.ID, "a history was accepted since the nodes were asked")
	b.wantGivenUp(pa.ID)
	b.wantSats(100_000)
}

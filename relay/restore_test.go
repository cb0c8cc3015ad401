package relay_test

import (
	"context"
	"errors"
	"sync"
	"testing"
	"time"

	"github.com/a-seed-a7aed72f/holdfast/internal/enginetest"
	"github.com/a-seed-a7aed72f/holdfast/internal/pgtest"
	"github.com/a-seed-a7aed72f/holdfast/ledger"
	"github.com/a-seed-a7aed72f/holdfast/lightning/simnode"
	"github.com/a-seed-a7aed72f/holdfast/paidaction"
	"github.com/a-seed-a7aed72f/holdfast/relay"
)

// A receiver was paid and the payer's payment taken, and the database was restored to before it was held: the action counts, and the receiver is not paid again.
func TestAForwardThatWasMadeBeforeARestoreCounts(t *testing.T) {
	for name, later := range map[string]time.Duration{"at once": 0, "once its invoice has expired": 2 * time.Hour} {
		t.Run(name, func(t *testing.T) {
			b := setup(t, "one", "two")
			pa := b.zap()
			restore := pgtest.Backup(t, b.Pool)
			b.pay(pa)
			if claimed, err := b.Relay.Step(b.Ctx, "two", b.Engine.Advance); !claimed || err != nil {
				t.Fatalf("claimed: %t, error %v", claimed, err)
			}
			b.WantState(pa.ID, paidaction.Paid)
			restore()
			b.WantState(pa.ID, paidaction.PendingHeld)
			b.Clock.Advance(later)
			if _, err := b.Engine.Sweep(b.Ctx); err != nil {
				t.Fatal(err)
			}
			defer b.Run(b.NewRelay())()
			b.Await(pa.ID, paidaction.Paid)
			b.AwaitStage(pa.ID, "completed")
			b.wantReceived(pa, 70_000)
			b.WantBalance(ledger.RoutingSats, 0)
			b.wantSound()
		})
	}
}

// The database forgot that a payer's payment was sent on to its receiver, who holds it: while that is in doubt, neither its payer nor a
// refusal has it given back. The receiver could take it afterwards, and the money would be ours.
func TestAForwardThatWasSentBeforeARestoreIsNotGivenBack(t *testing.T) {
	for name, goes := range map[string]func(b *bundle, pa *paidaction.PaidAction){
		"its payer cancels": func(b *bundle, pa *paidaction.PaidAction) {
			_, err := b.Engine.Cancel(b.Ctx, enginetest.Caller(b.payer), pa.ID)
			b.WantRefusal(err, paidaction.CodeTryAgain)
		},
		"its receiver has too much under way": func(b *bundle, pa *paidaction.PaidAction) {
			most := b.Engine.Settings.MaxForwards
			b.Engine.Settings.MaxForwards = 0
			if p, err := b.Engine.Drive(b.Ctx, pa.ID); err == nil {
				b.Errorf("progress %d, no error", p)
			}
			b.Engine.Settings.MaxForwards = most
		},
	} {
		t.Run(name, func(t *testing.T) {
			b := setup(t)
			b.wallet.Ask.Act = simnode.Holds
			pa := b.zap()
			restore := pgtest.Backup(t, b.Pool)
			b.pay(pa)
			stop := b.Run(b.Relay)
			b.await("the receiver holds it", func() bool { return b.wallet.Receiver.Receipt(pa.Invoice.Hash).Held > 0 })
			stop()
			b.WantState(pa.ID, paidaction.Forwarding)
			restore()
			b.WantState(pa.ID, paidaction.PendingHeld)
			b.Engine.MayBegin = func() error { return paidaction.Errorf(paidaction.CodeTryAgain, "Not now.") }
			goes(b, pa)
			b.WantState(pa.ID, paidaction.PendingHeld)
			b.wantOuter(pa, paidaction.InvoiceAccepted)
			if err := b.wallet.Receiver.Settle(pa.Invoice.Hash); err != nil {
				t.Fatal(err)
			}
			b.Advance(pa.ID)
			defer b.Run(b.NewRelay())()
			b.Await(pa.ID, paidaction.Paid)
			b.wantReceived(pa, 70_000)
			b.AwaitStage(pa.ID, "completed")
			b.wantSound()
		})
	}
}

// A node that has made a payment under a claim that was lost, as after a restore of the database, does not say so when
// it is asked. Its receiver no longer wants to be paid by this wallet, which ends a payment for good; but not this one:
// the payer would have their money back, and the receiver ours.
func TestWhatANodeMayHaveIsNotGivenUpByARule(t *testing.T) {
	b := setup(t)
	b.wallet.Ask.Act = simnode.Holds
	pa := b.zap()
	b.pay(pa)
	heard := errors.New("heard")
	err := b.Node.Pay(b.Ctx, paidaction.PaymentRequest{Bolt11: b.wallet.Last().Bolt11, FeeLimit: 3_000, Timeout: time.Minute}, func(paidaction.PaymentUpdate) error { return heard })
	if !errors.Is(err, heard) {
		t.Fatal(err)
	}
	b.wallet.Gone = true
	b.Node.FailBefore(simnode.MethodTrack, 1)
	if claimed, err := b.Relay.Step(b.Ctx, b.Node.Name(), b.Engine.Advance); !claimed || err != nil {
		t.Fatal(claimed, err)
	}
	b.WantState(pa.ID, paidaction.Forwarding)
	b.wantOuter(pa, paidaction.InvoiceAccepted)
	b.Clock.Advance(time.Second) // what was not sent rests for a moment
	b.Run(b.Relay)
	if err := b.wallet.Receiver.Settle(pa.Invoice.Hash); err != nil {
		t.Fatal(err)
	}
	b.Await(pa.ID, paidaction.Paid)
	b.wantReceived(pa, 70_000)
	b.AwaitStage(pa.ID, "completed")
	b.wantSound()
}

// Spec 05.16e: whoever looks stands still after they have read the claim, as one whose payment the node has not shown.
// Meanwhile its worker sends, the node shows it, and is restored from a backup. That it does not know the payment then
// is no word of it.
func TestWhatANodeHasShownMeanwhileIsNotGivenUp(t *testing.T) {
	for name, later := range map[string]time.Duration{"its invoice has expired": 2 * time.Hour, "it could be sent again": over} {
		t.Run(name, func(t *testing.T) {
			b := setup(t).rich(100)
			inv := b.issue(simnode.Ask{Amount: 50_000, Act: simnode.Holds})
			pa := b.withdraw(inv.Bolt11)
			pause := func(at simnode.Method) (stopped, goOn chan struct{}) {
				stopped, goOn = make(chan struct{}), make(chan struct{})
				b.Node.Before(at, func(paidaction.Hash) { close(stopped); <-goOn })
				return stopped, goOn
			}
			claimed, send := pause(simnode.MethodPay)
			working, stopWorking := context.WithCancel(b.Ctx)
			var both sync.WaitGroup
			both.Go(func() { _, _ = b.Relay.Step(working, b.Node.Name(), b.Engine.Advance) })
			<-claimed
			backup := b.Node.Backup()
			read, ask := pause(simnode.MethodTrack)
			both.Go(func() {
				if out, err := b.NewRelay().Proceed(b.Ctx, pa.ID); out.Failure != nil {
					t.Errorf("whoever looks says %+v, %v", out, err)
				}
			})
			<-read
			close(send)
			b.await("the receiver holds it", func() bool { return b.wallet.Receiver.Receipt(inv.Hash).Held == 50_000 })
			b.AwaitShown(pa.ID)
			stopWorking()
			b.Node.Restore(backup)
			b.Clock.Advance(later)
			close(ask)
			both.Wait()
			b.WantState(pa.ID, paidaction.Forwarding)
			b.AwaitStage(pa.ID, "in_work")
			if err := b.wallet.Receiver.Settle(inv.Hash); err != nil {
				t.Fatal(err)
			}
			b.wantPaidOut(inv.Hash, 50_000)
			b.WantBalance(ledger.UserSats(b.payer), 45_000)
		})
	}
}

// The same where that the node has shown it is noted only after the claim has ended: nothing is sent again, and nothing
// given up.
func TestWhatANodeHasShownUnderAnEarlierClaimIsNotSentAgain(t *testing.T) {
	b := setup(t, "one", "two")
	pa := b.lostOnItsWay()
	b.Clock.Advance(over)
	b.AwaitStage(pa.ID, "incoming")
	if _, err := b.Pool.Exec(b.Ctx, `UPDATE relay_attempt SET seen = true`); err != nil {
		t.Fatal(err)
	}
	b.Nodes[1].SetSendable(1_000_000_000)
	b.await("it was claimed again", func() bool {
		b.Clock.Advance(time.Second)
		return b.Count(`SELECT count(*) FROM relay_attempt WHERE outcome = 'NOT_SENT'`) > 1
	})
	b.Clock.Advance(3 * time.Hour)
	b.rounds(3)
	b.wantSent(pa.Invoice.Hash, 0)
	b.WantState(pa.ID, paidaction.Forwarding)
}

// Nor where whoever claimed it again stands still before it finds that out, until the invoice has expired: what the node
// has shown under one claim, it has shown.
func TestWhatANodeHasShownUnderAnEarlierClaimIsNotGivenUpUnderALaterOne(t *testing.T) {
	b := setup(t, "one", "two").rich(100)
	b.Node.SetSendable(0)
	inv := b.issue(simnode.Ask{Amount: 50_000})
	pa := b.withdraw(inv.Bolt11)
	b.Nodes[1].FailBefore(simnode.MethodPay, 1)
	if claimed, err := b.Relay.Step(b.Ctx, "two", b.Engine.Advance); !claimed || err != nil {
		t.Fatal(claimed, err)
	}
	b.Clock.Advance(over)
	b.rounds(1)
	b.AwaitStage(pa.ID, "incoming")
	if _, err := b.Pool.Exec(b.Ctx, `UPDATE relay_attempt SET seen = true`); err != nil {
		t.Fatal(err)
	}
	claimed, goOn := make(chan struct{}), make(chan struct{})
	b.Nodes[1].Before(simnode.MethodTrack, func(paidaction.Hash) { close(claimed); <-goOn })
	var worker sync.WaitGroup
	worker.Go(func() { _, _ = b.Relay.Step(b.Ctx, "two", b.Engine.Advance) })
	<-claimed
	b.Clock.Advance(3 * time.Hour)
	if out, err := b.NewRelay().Proceed(b.Ctx, pa.ID); out.Failure != nil || err == nil {
		t.Errorf("whoever looks says %+v, %v", out, err)
	}
	close(goOn)
	worker.Wait()
	b.rounds(2)
	b.wantSent(inv.Hash, 0)
	b.WantState(pa.ID, paidaction.Forwarding)
	b.WantBalance(ledger.UserSats(b.payer), 45_000)
}

// What was read before it was claimed, and put back for the node that may have been given it, is not given up by that.
func TestWhatWasClaimedSinceIsNotGivenUp(t *testing.T) {
	b := setup(t).rich(100)
	b.Node.SetSendable(0)
	inv := b.issue(simnode.Ask{Amount: 50_000, Expiry: 7 * 24 * time.Hour})
	pa := b.withdraw(inv.Bolt11)
	b.Clock.Advance(time.Hour)
	b.Node.After(simnode.MethodTrack, func(paidaction.Hash) { // whoever gives it up has asked every node
		b.Node.SetSendable(1_000_000_000)
		b.Node.FailBefore(simnode.MethodPay, 1)
		if claimed, err := b.Relay.Step(b.Ctx, b.Node.Name(), b.Engine.Advance); !claimed || err != nil {
			t.Error(claimed, err)
		}
		b.Clock.Advance(over)
		b.rounds(1)
		if n := b.Count(`SELECT count(*) FROM relay_payment WHERE stage = 'incoming' AND node = 'one'`); n != 1 {
			t.Error("it is not kept for the node that may have it")
		}
	})
	if out, err := b.NewRelay().Proceed(b.Ctx, pa.ID); out.Failure != nil || err != nil {
		t.Errorf("%+v, %v", out, err)
	}
	b.AwaitStage(pa.ID, "incoming")
	b.Run(b.NewRelay())
	b.Await(pa.ID, paidaction.Paid)
	b.wantPaidOut(inv.Hash, 50_000)
	b.wantSound()
}

// Two nodes have changed places: under the name of the one that has the payment another one answers, at which a payment
// of the same invoice, made by hand, has failed. That is no failure of this one.
func TestAFailureOfAnotherNodeUnderTheNameIsNotBelieved(t *testing.T) {
	b := setup(t, "one", "two").rich(100)
	inv := b.issue(simnode.Ask{Amount: 50_000, Act: simnode.Refuses})
	if err := b.Nodes[1].Pay(b.Ctx, paidaction.PaymentRequest{Bolt11: inv.Bolt11, FeeLimit: 3_000, Timeout: time.Minute}, func(paidaction.PaymentUpdate) error { return nil }); err != nil {
		t.Fatal(err)
	}
	b.wallet.Receiver.Change(inv.Hash, simnode.Holds)
	pa := b.withdraw(inv.Bolt11)
	working, stop := context.WithCancel(b.Ctx)
	var worker sync.WaitGroup
	worker.Go(func() { _, _ = b.Relay.Step(working, "one", b.Engine.Advance) })
	b.await("the receiver holds it", func() bool { return b.wallet.Receiver.Receipt(inv.Hash).Held == 50_000 })
	stop()
	worker.Wait()
	b.Clock.Advance(over)
	r := b.NewRelay(func(c *relay.Config) {
		c.Nodes = replaced{Nodes: c.Nodes, names: []string{"one"}, name: "one", by: func(paidaction.SendingNode) paidaction.SendingNode { return b.Nodes[1] }}
	})
	if out, err := r.Proceed(b.Ctx, pa.ID); out.Failure != nil || err == nil {
		t.Errorf("%+v, %v", out, err)
	}
	if err := b.wallet.Receiver.Settle(inv.Hash); err != nil {
		t.Fatal(err)
	}
	b.rounds(1)
	b.WantState(pa.ID, paidaction.Paid)
	b.wantPaidOut(inv.Hash, 50_000)
	b.wantSound()
}

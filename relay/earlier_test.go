package relay_test

import (
	"context"
	"sync"
	"testing"
	"time"

	"github.com/a-seed-a7aed72f/holdfast/ledger"
	"github.com/a-seed-a7aed72f/holdfast/lightning/simnode"
	"github.com/a-seed-a7aed72f/holdfast/paidaction"
	"github.com/a-seed-a7aed72f/holdfast/relay"
)

// withdrawnAgain is an invoice whose first withdrawal its receiver refused, with the second one begun and sent by nobody
// yet. To that the receiver does what is said.
func withdrawnAgain(t *testing.T, act simnode.Act) (b *bundle, inv simnode.Issued, again *paidaction.PaidAction) {
	t.Helper()
	b = setup(t).rich(200)
	inv = b.issue(simnode.Ask{Amount: 50_000, Act: simnode.Refuses})
	stop := b.Run(b.Relay)
	b.Await(b.withdraw(inv.Bolt11).ID, paidaction.Failed)
	stop()
	b.wallet.Receiver.Change(inv.Hash, act)
	return b, inv, b.withdraw(inv.Bolt11)
}

// Spec 05.16e: an invoice was withdrawn, failed, and is withdrawn again. The node is restored from a backup of before the
// last payment: what it says of an earlier one is not believed of that.
func TestAFailureFromBeforeTheClaimIsNotBelieved(t *testing.T) {
	for name, since := range map[string]int{"the last failure": 0, "an older one": 1} {
		t.Run(name, func(t *testing.T) {
			b := setup(t).rich(200)
			inv := b.issue(simnode.Ask{Amount: 50_000, Act: simnode.Refuses})
			stop := b.Run(b.Relay)
			fail := func() {
				b.Await(b.withdraw(inv.Bolt11).ID, paidaction.Failed)
				b.Clock.Advance(time.Minute)
			}
			fail()
			backup := b.Node.Backup()
			for range since {
				fail()
			}
			b.wallet.Receiver.Change(inv.Hash, simnode.Holds)
			again := b.withdraw(inv.Bolt11)
			b.await("the receiver holds it", func() bool { return b.wallet.Receiver.Receipt(inv.Hash).Held == 50_000 })
			b.AwaitShown(again.ID)
			stop()
			b.Node.Restore(backup)
			b.Run(b.NewRelay())
			b.Clock.Advance(over)
			b.rounds(5)
			if err := b.wallet.Receiver.Settle(inv.Hash); err != nil {
				t.Fatal(err)
			}
			b.WantState(again.ID, paidaction.Forwarding)
			b.WantBalance(ledger.UserSats(b.payer), 200_000-55_000)
			b.wantPaidOut(inv.Hash, 50_000)
		})
	}
}

// The same while its worker has not sent it yet, nor noted what failed before: an auditor who looks then takes nothing from that.
func TestAFailureFromBeforeTheSendIsNotBelieved(t *testing.T) {
	b, inv, again := withdrawnAgain(t, simnode.Pays)
	stopped, goOn := make(chan struct{}), make(chan struct{})
	b.Node.Before(simnode.MethodTrack, func(paidaction.Hash) { close(stopped); <-goOn })
	var worker sync.WaitGroup
	worker.Go(func() { _, _ = b.Relay.Step(b.Ctx, b.Node.Name(), b.Engine.Advance) })
	<-stopped
	b.rounds(2)
	b.WantState(again.ID, paidaction.Forwarding)
	close(goOn)
	worker.Wait()
	b.rounds(1)
	b.WantState(again.ID, paidaction.Paid)
	b.wantPaidOut(inv.Hash, 50_000)
	b.wantSound()
}

// The same where an auditor stands still between the node's answer and what follows from it, while the worker notes what failed before, and
// sends: by then the send would be over, but the answer is from before it.
func TestAFailureThatWasHeardBeforeTheSendIsNotBelieved(t *testing.T) {
	b, inv, again := withdrawnAgain(t, simnode.Holds)
	pause := func() (stopped, goOn chan struct{}, hook func(paidaction.Hash)) {
		stopped, goOn = make(chan struct{}), make(chan struct{})
		return stopped, goOn, func(paidaction.Hash) { close(stopped); <-goOn }
	}
	claimed, look, before := pause()
	b.Node.Before(simnode.MethodTrack, before)
	working, stopWorking := context.WithCancel(b.Ctx)
	var both sync.WaitGroup
	both.Go(func() { _, _ = b.Relay.Step(working, b.Node.Name(), b.Engine.Advance) })
	<-claimed
	heard, conclude, after := pause()
	b.Node.After(simnode.MethodTrack, after)
	var auditor sync.WaitGroup
	auditor.Go(func() {
		if out, err := b.NewRelay().Proceed(b.Ctx, again.ID); err != nil || out.Failure != nil {
			t.Errorf("the auditor says %+v, %v", out, err)
		}
	})
	<-heard
	close(look)
	b.await("the receiver holds it", func() bool { return b.wallet.Receiver.Receipt(inv.Hash).Held == 50_000 })
	b.Clock.Advance(over)
	close(conclude)
	auditor.Wait()
	stopWorking()
	both.Wait()
	b.rounds(2)
	b.WantState(again.ID, paidaction.Forwarding)
	if err := b.wallet.Receiver.Settle(inv.Hash); err != nil {
		t.Fatal(err)
	}
	b.rounds(2)
	b.WantState(again.ID, paidaction.Paid)
	b.wantPaidOut(inv.Hash, 50_000)
	b.wantSound()
}

// An auditor who looks before the send sees the payment that failed before. That is no word of this one: when the send does not arrive, the
// node has lost nothing, and is given it again.
func TestAFailureFromBeforeTheSendShowsNoPayment(t *testing.T) {
	b, inv, again := withdrawnAgain(t, simnode.Pays)
	b.Node.Before(simnode.MethodTrack, func(paidaction.Hash) { b.rounds(1) })
	working, stopWorking := context.WithCancel(b.Ctx)
	b.Node.Before(simnode.MethodPay, func(paidaction.Hash) { stopWorking() }) // the process dies, and nothing is sent
	if _, err := b.Relay.Step(working, b.Node.Name(), b.Engine.Advance); err != nil {
		t.Fatal(err)
	}
	b.WantState(again.ID, paidaction.Forwarding)
	b.Clock.Advance(over)
	b.Run(b.NewRelay())
	b.Await(again.ID, paidaction.Paid)
	b.wantPaidOut(inv.Hash, 50_000)
	b.wantSound()
}

// What an auditor was told before the send, that the node does not know the payment or knows only one that has failed
// before, is not believed once the invoice has expired: the receiver may hold it by then, and take it.
func TestAnAbsenceThatWasHeardBeforeTheSendIsNotBelieved(t *testing.T) {
	for name, begin := range map[string]func(t *testing.T) (*bundle, simnode.Issued, *paidaction.PaidAction){
		"unknown": func(t *testing.T) (*bundle, simnode.Issued, *paidaction.PaidAction) {
			b := setup(t).rich(200)
			inv := b.issue(simnode.Ask{Amount: 50_000, Act: simnode.Holds})
			return b, inv, b.withdraw(inv.Bolt11)
		},
		"failed before": func(t *testing.T) (*bundle, simnode.Issued, *paidaction.PaidAction) {
			return withdrawnAgain(t, simnode.Holds)
		},
	} {
		t.Run(name, func(t *testing.T) {
			b, inv, pa := begin(t)
			claimed, send := make(chan struct{}), make(chan struct{})
			b.Node.Before(simnode.MethodPay, func(paidaction.Hash) { close(claimed); <-send })
			working, stopWorking := context.WithCancel(b.Ctx)
			var worker sync.WaitGroup
			worker.Go(func() { _, _ = b.Relay.Step(working, b.Node.Name(), b.Engine.Advance) })
			<-claimed
			heard, conclude := make(chan struct{}), make(chan struct{})
			b.Node.After(simnode.MethodTrack, func(paidaction.Hash) { close(heard); <-conclude })
			var auditor sync.WaitGroup
			auditor.Go(func() {
				if out, err := b.NewRelay().Proceed(b.Ctx, pa.ID); err != nil || out.Failure != nil {
					t.Errorf("the auditor says %+v, %v", out, err)
				}
			})
			<-heard
			close(send)
			b.await("the receiver holds it", func() bool { return b.wallet.Receiver.Receipt(inv.Hash).Held == 50_000 })
			stopWorking()
			worker.Wait()
			b.Clock.Advance(2 * time.Hour) // the invoice has expired
			close(conclude)
			auditor.Wait()
			b.rounds(2)
			b.WantState(pa.ID, paidaction.Forwarding)
			if err := b.wallet.Receiver.Settle(inv.Hash); err != nil {
				t.Fatal(err)
			}
			b.rounds(2)
			b.WantState(pa.ID, paidaction.Paid)
			b.wantPaidOut(inv.Hash, 50_000)
			b.wantSound()
		})
	}
}

// A claim that has ended by then, by a clock that is ahead of its worker's, is no promise any more: nothing is sent by it, since the payer has the money
// back.
func TestNothingIsSentUnderAClaimThatEndedBeforeTheEarlierFailureWasNoted(t *testing.T) {
	b, inv, again := withdrawnAgain(t, simnode.Pays)
	s := &before{query: "-- name: NoteEarlier"}
	pool := b.traced(s)
	r, sent := b.NewRelay(func(c *relay.Config) { c.Pool = pool }), b.Node.Count(simnode.MethodPay, inv.Hash)
	s.what = func() {
		for _, sql := range []string{
			`UPDATE relay_attempt SET outcome = 'FAILED', reason = 'x', ended_at = claimed_at WHERE outcome IS NULL`,
			`UPDATE relay_payment SET stage = 'failed', failure_code = 'PAYMENT_FAILED', failure_message = 'x' WHERE stage = 'in_work'`,
		} {
			if _, err := b.Pool.Exec(b.Ctx, sql); err != nil {
				t.Error(err)
			}
		}
	}
	if claimed, err := r.Step(b.Ctx, "one", nothing); !claimed || err != nil || s.what != nil {
		t.Fatalf("claimed: %t, error %v, or no earlier payment was noted", claimed, err)
	}
	if n := b.Node.Count(simnode.MethodPay, inv.Hash); n != sent {
		t.Error("it was sent")
	}
	b.rounds(2)
	b.WantState(again.ID, paidaction.Failed)
	b.WantBalance(ledger.UserSats(b.payer), 200_000)
	b.wantSound()
}

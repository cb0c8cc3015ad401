package relay_test

import (
	"context"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/a-seed-a7aed72f/holdfast/internal/pgtest"
	"github.com/a-seed-a7aed72f/holdfast/ledger"
	"github.com/a-seed-a7aed72f/holdfast/lightning/simnode"
	"github.com/a-seed-a7aed72f/holdfast/paidaction"
	"github.com/a-seed-a7aed72f/holdfast/relay"
)

// What was heard is no longer true when it is acted upon: whoever looks may stand still for long.

// nothing takes no step of an action, as a process that dies before.
func nothing(context.Context, int64) (paidaction.Progress, error) { return paidaction.Waiting, nil }

// sendAndDie has a worker send a payment that its receiver holds, and die.
func (b *bundle) sendAndDie(node string, h paidaction.Hash) {
	working, stop := context.WithCancel(b.Ctx)
	var worker sync.WaitGroup
	worker.Go(func() { _, _ = b.NewRelay().Step(working, node, nothing) })
	b.await("the receiver holds it", func() bool { return b.wallet.Receiver.Receipt(h).Held == 50_000 })
	b.await("the node has shown it", func() bool { return b.Count(`SELECT count(*) FROM relay_attempt WHERE seen AND outcome IS NULL`) == 1 })
	stop()
	worker.Wait()
}

// Whoever asked the nodes before a copy of the database took over takes nothing from their answers in the copy, which may
// lack a claim by which the payment was sent since; also if somebody has accepted the copy by then.
func TestWhatWasHeardBeforeAFailOverIsNotConcludedAfterIt(t *testing.T) {
	b := setup(t).rich(100)
	b.Node.SetSendable(0)
	inv := b.issue(simnode.Ask{Amount: 50_000, Act: simnode.Holds, Expiry: 7 * 24 * time.Hour})
	pa := b.withdraw(inv.Bolt11)
	restore := pgtest.Backup(t, b.Pool)
	b.Clock.Advance(time.Hour)
	since := time.Time{}
	r := b.NewRelay(func(c *relay.Config) { c.Doubted = func() (time.Time, bool) { return since, false } })
	b.Node.After(simnode.MethodTrack, func(paidaction.Hash) { // whoever gives it up has asked every node
		b.Node.SetSendable(1_000_000_000)
		b.sendAndDie("one", inv.Hash)
		restore()
		since = time.Now()
	})
	if out, err := r.Proceed(b.Ctx, pa.ID); out.Failure != nil || err == nil {
		t.Errorf("%+v, %v", out, err)
	}
	b.wantTaken(pa, inv.Hash)
}

// wantTaken has the receiver take the payment that they hold, once, for which it counts.
func (b *bundle) wantTaken(pa *paidaction.PaidAction, h paidaction.Hash) {
	b.Helper()
	if err := b.wallet.Receiver.Settle(h); err != nil {
		b.Fatal(err)
	}
	b.rounds(3)
	b.WantState(pa.ID, paidaction.Paid)
	b.wantPaidOut(h, 50_000)
	b.wantSound()
}

// Nor where it takes over once all of them have answered, and whoever asked them is about to end the claim.
func TestAFailOverBeforeTheEndOfAClaimIsNoticed(t *testing.T) {
	b := setup(t, "one", "two").rich(100)
	b.Node.SetIsolated(true)
	inv := b.issue(simnode.Ask{Amount: 50_000, Act: simnode.Holds})
	pa := b.withdraw(inv.Bolt11)
	b.Node.FailAfter(simnode.MethodPay, 1)
	if claimed, err := b.NewRelay().Step(b.Ctx, "one", nothing); !claimed || err != nil {
		t.Fatal(claimed, err)
	}
	restore := pgtest.Backup(t, b.Pool)
	b.Clock.Advance(over)
	since, answered, tookOver := time.Time{}, false, false
	r := b.NewRelay(func(c *relay.Config) {
		c.Settings.MaxAttempts = 1
		c.Doubted = func() (time.Time, bool) { answered = true; return since, tookOver }
		c.Now = func() time.Time {
			if answered && !tookOver {
				tookOver = true
				if out, err := b.NewRelay().Proceed(b.Ctx, pa.ID); out.Failure != nil || err != nil { // the first node's failure is heard by another one
					t.Errorf("%+v, %v", out, err)
				}
				b.sendAndDie("two", inv.Hash)
				restore()
				since = time.Now()
			}
			return b.Clock.Now()
		}
	})
	if out, err := r.Proceed(b.Ctx, pa.ID); out.Failure != nil || err == nil {
		t.Errorf("%+v, %v", out, err)
	}
	b.wantTaken(pa, inv.Hash)
}

// An answer counts from when it was asked for: whoever held a claim that the database has lost may have sent since.
func TestAnAnswerIsAsOldAsItsQuestion(t *testing.T) {
	b := setup(t, "one", "two").rich(100)
	inv := b.issue(simnode.Ask{Amount: 50_000})
	pa := b.withdraw(inv.Bolt11)
	since := time.Now()
	var passed atomic.Int64
	r := b.NewRelay(func(c *relay.Config) {
		c.Doubted = func() (time.Time, bool) { return since, true }
		c.Monotonic = func() time.Time { return since.Add(time.Duration(passed.Load())) }
	})
	b.Nodes[1].After(simnode.MethodTrack, func(paidaction.Hash) {
		b.paidByTheSecond(inv.Bolt11)
		passed.Store(int64(2 * relay.MaxSendWindow))
	})
	if claimed, err := r.Step(b.Ctx, "one", nothing); !claimed || err != nil {
		t.Fatal(claimed, err)
	}
	if n := b.Node.Count(simnode.MethodPay, inv.Hash); n != 0 {
		t.Error("the first node sent it as well")
	}
	b.Clock.Advance(time.Minute)
	if claimed, err := r.Step(b.Ctx, "one", b.Engine.Advance); !claimed || err != nil {
		t.Fatal(claimed, err)
	}
	b.rounds(2)
	b.WantState(pa.ID, paidaction.Paid)
	b.wantPaidOut(inv.Hash, 50_000)
	b.wantSound()
}

// A rule forbids the send, and the claim's node has said that it does not have the payment. Before the payment is given
// up the node is asked again: it may have been given it since, by a claim that was lost.
func TestWhatItsNodeWasGivenMeanwhileIsNotGivenUpByARule(t *testing.T) {
	b := setup(t)
	b.wallet.Ask.Act = simnode.Holds
	pa := b.zap()
	b.pay(pa)
	b.wallet.Gone = true
	b.Node.After(simnode.MethodTrack, func(paidaction.Hash) {
		paying, heard := context.WithCancel(b.Ctx)
		_ = b.Node.Pay(paying, paidaction.PaymentRequest{Bolt11: b.wallet.Last().Bolt11, FeeLimit: 3_000, Timeout: time.Minute},
			func(paidaction.PaymentUpdate) error { heard(); return nil })
	})
	if claimed, err := b.Relay.Step(b.Ctx, "one", b.Engine.Advance); !claimed || err != nil {
		t.Fatal(claimed, err)
	}
	b.WantState(pa.ID, paidaction.Forwarding)
	b.wantOuter(pa, paidaction.InvoiceAccepted)
	if err := b.wallet.Receiver.Settle(pa.Invoice.Hash); err != nil {
		t.Fatal(err)
	}
	b.rounds(2)
	b.WantState(pa.ID, paidaction.Paid)
	b.wantReceived(pa, 70_000)
	b.wantSound()
}

// A node has shown the payment, which is noted only after the node was restored and the payment given to it again. That
// the second one fails is no word of the first, which is still on its way.
func TestWhatANodeHasShownUnderAnEarlierClaimIsNotGivenUpByAFailureUnderALaterOne(t *testing.T) {
	b := setup(t).rich(100)
	inv := b.issue(simnode.Ask{Amount: 50_000, Act: simnode.Holds})
	pa := b.withdraw(inv.Bolt11)
	backup := b.Node.Backup()
	b.sendAndDie("one", inv.Hash)
	note := func(seen bool) {
		if _, err := b.Pool.Exec(b.Ctx, `UPDATE relay_attempt SET seen = $1`, seen); err != nil {
			t.Error(err)
		}
	}
	note(false)
	b.Node.Restore(backup)
	b.Clock.Advance(over)
	b.rounds(1)
	b.AwaitStage(pa.ID, "incoming")
	b.wallet.Receiver.Change(inv.Hash, simnode.Refuses) // what comes a second time
	b.Node.Before(simnode.MethodPay, func(paidaction.Hash) { note(true) })
	if claimed, err := b.Relay.Step(b.Ctx, "one", b.Engine.Advance); !claimed || err != nil {
		t.Fatal(claimed, err)
	}
	b.Clock.Advance(3 * time.Hour)
	b.rounds(2)
	b.WantState(pa.ID, paidaction.Forwarding)
	if err := b.wallet.Receiver.Settle(inv.Hash); err != nil {
		t.Fatal(err)
	}
	b.wantPaidOut(inv.Hash, 50_000)
	b.WantBalance(ledger.UserSats(b.payer), 45_000)
}

// What was read before it failed and an operator put it back is not given up, though it was claimed as often since.
func TestWhatWasRequeuedSinceIsNotGivenUp(t *testing.T) {
	b := setup(t).rich(100)
	inv := b.issue(simnode.Ask{Amount: 50_000, Expiry: 7 * 24 * time.Hour})
	pa := b.withdraw(inv.Bolt11)
	b.Node.FailBefore(simnode.MethodTrack, 1)
	if claimed, err := b.NewRelay().Step(b.Ctx, "one", nothing); !claimed || err != nil {
		t.Fatal(claimed, err)
	}
	b.Clock.Advance(time.Hour)
	b.Node.After(simnode.MethodTrack, func(paidaction.Hash) { // whoever gives it up has asked every node
		b.wallet.Receiver.Change(inv.Hash, simnode.Refuses)
		if claimed, err := b.NewRelay().Step(b.Ctx, "one", nothing); !claimed || err != nil {
			t.Error(claimed, err)
		}
		b.wallet.Receiver.Change(inv.Hash, simnode.Pays)
		b.Clock.Advance(time.Second)
		if err := relay.Requeue(b.Ctx, b.Pool, pa.ID, b.Clock.Now()); err != nil {
			t.Error(err)
		}
		b.Node.FailBefore(simnode.MethodPay, 1)
		if claimed, err := b.NewRelay().Step(b.Ctx, "one", nothing); !claimed || err != nil {
			t.Error(claimed, err)
		}
		b.Clock.Advance(over)
		b.rounds(1)
		if n := b.Count(`SELECT count(*) FROM relay_payment WHERE stage = 'incoming' AND node = 'one' AND attempts = 1`); n != 1 {
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

// Nor is it left to a node that had it then: it is kept for the one that may have been given it since.
func TestWhatWasClaimedSinceIsNotLeftToAnotherNode(t *testing.T) {
	b := setup(t, "one", "two").rich(100)
	inv := b.issue(simnode.Ask{Amount: 50_000, Act: simnode.Holds, Expiry: 7 * 24 * time.Hour})
	pa := b.withdraw(inv.Bolt11)
	paying, heard := context.WithCancel(b.Ctx)
	_ = b.Nodes[1].Pay(paying, paidaction.PaymentRequest{Bolt11: inv.Bolt11, FeeLimit: 3_000, Timeout: time.Minute},
		func(paidaction.PaymentUpdate) error { heard(); return nil })
	b.Clock.Advance(time.Hour)
	b.Nodes[1].After(simnode.MethodTrack, func(paidaction.Hash) {
		if err := b.wallet.Receiver.Cancel(inv.Hash); err != nil {
			t.Error(err)
		}
		b.Node.FailBefore(simnode.MethodPay, 1)
		if claimed, err := b.NewRelay().Step(b.Ctx, "one", nothing); !claimed || err != nil {
			t.Error(claimed, err)
		}
		b.Clock.Advance(over)
		b.rounds(1)
	})
	if out, err := b.NewRelay().Proceed(b.Ctx, pa.ID); out.Failure != nil || err != nil {
		t.Errorf("%+v, %v", out, err)
	}
	if n := b.Count(`SELECT count(*) FROM relay_payment WHERE stage = 'incoming' AND node = 'one'`); n != 1 {
		t.Error("it is not kept for the node that may have it")
	}
}

// A failure that was heard before the send, of a payment that the worker did not hear of, is not that of its payment.
func TestAFailureHeardBeforeTheSendIsAskedForAgain(t *testing.T) {
	b := setup(t).rich(100)
	inv := b.issue(simnode.Ask{Amount: 50_000, Act: simnode.Refuses})
	pa := b.withdraw(inv.Bolt11)
	claimed, send := make(chan struct{}), make(chan struct{})
	b.Node.Before(simnode.MethodPay, func(paidaction.Hash) { close(claimed); <-send })
	working, stop := context.WithCancel(b.Ctx)
	var both sync.WaitGroup
	both.Go(func() { _, _ = b.NewRelay().Step(working, "one", nothing) })
	<-claimed
	if err := b.Node.Pay(b.Ctx, paidaction.PaymentRequest{Bolt11: inv.Bolt11, FeeLimit: 3_000, Timeout: time.Minute}, func(paidaction.PaymentUpdate) error { return nil }); err != nil {
		t.Fatal(err)
	}
	b.wallet.Receiver.Change(inv.Hash, simnode.Holds)
	heard, conclude := make(chan struct{}), make(chan struct{})
	b.Node.After(simnode.MethodTrack, func(paidaction.Hash) { close(heard); <-conclude })
	both.Go(func() {
		if out, err := b.NewRelay().Proceed(b.Ctx, pa.ID); err != nil || out.Failure != nil {
			t.Errorf("whoever looks says %+v, %v", out, err)
		}
	})
	<-heard
	close(send)
	b.await("the receiver holds it", func() bool { return b.wallet.Receiver.Receipt(inv.Hash).Held == 50_000 })
	b.Clock.Advance(over)
	stop()
	close(conclude)
	both.Wait()
	b.WantState(pa.ID, paidaction.Forwarding)
	b.wantTaken(pa, inv.Hash)
}

// Whether a node is still the one that was given the payment is asked after its answer: another one may have taken its
// place just before.
func TestTheWordOfANodeThatHasJustTakenAnothersPlaceIsNotBelieved(t *testing.T) {
	b := setup(t).rich(100)
	inv := b.issue(simnode.Ask{Amount: 50_000, Act: simnode.Holds})
	pa := b.withdraw(inv.Bolt11)
	claimed, send := make(chan struct{}), make(chan struct{})
	b.Node.Before(simnode.MethodPay, func(paidaction.Hash) { close(claimed); <-send })
	working, stop := context.WithCancel(b.Ctx)
	var worker, auditor sync.WaitGroup
	worker.Go(func() { _, _ = b.NewRelay().Step(working, "one", nothing) })
	<-claimed
	heard, conclude := make(chan struct{}), make(chan struct{})
	b.Node.After(simnode.MethodTrack, func(paidaction.Hash) { close(heard); <-conclude })
	auditor.Go(func() {
		if out, err := b.NewRelay().Proceed(b.Ctx, pa.ID); err == nil || out.Failure != nil {
			t.Errorf("whoever looks says %+v, %v", out, err)
		}
	})
	<-heard
	close(send)
	b.await("the receiver holds it", func() bool { return b.wallet.Receiver.Receipt(inv.Hash).Held == 50_000 })
	stop()
	worker.Wait()
	if _, err := b.Pool.Exec(b.Ctx, `UPDATE relay_attempt SET seen = false`); err != nil { // its process died before it noted that
		t.Fatal(err)
	}
	b.Clock.Advance(2 * time.Hour)
	b.Node.Before(simnode.MethodTrack, func(paidaction.Hash) { b.Node.Replace() })
	close(conclude)
	auditor.Wait()
	b.WantState(pa.ID, paidaction.Forwarding)
	if err := b.wallet.Receiver.Settle(inv.Hash); err != nil {
		t.Fatal(err)
	}
	b.wantPaidOut(inv.Hash, 50_000)
	b.WantBalance(ledger.UserSats(b.payer), 45_000)
}

// An operator has accepted a restored database, which has forgotten that the second node was given the payment. That
// node falls silent just then: what was begun before waits for its word.
func TestWhatWasBegunBeforeARestoreWasAcceptedWaitsForASilentNode(t *testing.T) {
	for by, ahead := range clocks {
		t.Run("begun by "+by, func(t *testing.T) {
			b := setup(t, "one", "two").rich(100)
			inv := b.issue(simnode.Ask{Amount: 50_000})
			var pa *paidaction.PaidAction
			b.by(ahead, func() { pa = b.withdraw(inv.Bolt11) })
			b.paidByTheSecond(inv.Bolt11)
			b.accept()
			b.Nodes[1].SetAway(true)
			if claimed, err := b.Relay.Step(b.Ctx, "one", b.Engine.Advance); !claimed || err != nil {
				t.Fatal(claimed, err)
			}
			if n := b.Node.Count(simnode.MethodPay, inv.Hash); n != 0 {
				t.Error("the first node sent it as well")
			}
			b.Clock.Advance(2 * time.Hour)
			if out, err := b.Relay.Proceed(b.Ctx, pa.ID); err == nil || out.Failure != nil {
				t.Errorf("once its invoice has expired: %+v, %v", out, err)
			}
			b.Nodes[1].SetAway(false)
			b.rounds(2)
			b.WantState(pa.ID, paidaction.Paid)
			b.wantPaidOut(inv.Hash, 50_000)
			b.wantSound()
		})
	}
}

// Whoever stood still after their claim, until it had ended and the payment was sent under a later one, hears of that: the
// node has lost nothing, and a failure is a failure.
func TestWhatWasSentUnderALaterClaimIsNotTakenForThatOfAnEarlierOne(t *testing.T) {
	b := setup(t).rich(100)
	inv := b.issue(simnode.Ask{Amount: 50_000, Act: simnode.Holds})
	pa := b.withdraw(inv.Bolt11)
	claimed, goOn := make(chan struct{}), make(chan struct{})
	b.Node.Before(simnode.MethodTrack, func(paidaction.Hash) { close(claimed); <-goOn })
	var worker sync.WaitGroup
	worker.Go(func() { _, _ = b.NewRelay().Step(b.Ctx, "one", nothing) })
	<-claimed
	b.Clock.Advance(over)
	b.rounds(1)
	b.AwaitStage(pa.ID, "incoming")
	b.Clock.Advance(time.Second)
	b.sendAndDie("one", inv.Hash)
	follows := make(chan struct{})
	b.Node.Before(simnode.MethodTrack, func(paidaction.Hash) { close(follows) })
	close(goOn)
	<-follows // it has found that the node has the payment
	if err := b.wallet.Receiver.Cancel(inv.Hash); err != nil {
		t.Fatal(err)
	}
	worker.Wait()
	if n := b.Count(`SELECT count(*) FROM relay_attempt WHERE seen`); n != 1 {
		t.Errorf("%d claims are noted as those by which the node has it", n)
	}
	b.Clock.Advance(over)
	b.rounds(2)
	b.WantState(pa.ID, paidaction.Failed)
	b.WantBalance(ledger.UserSats(b.payer), 100_000)
}

// Nor does whoever read the claim before its worker noted that a payment with its hash had failed at the node earlier, and
// stood still until the node, restored from a backup, shows that failure again: it says nothing of what was sent since.
func TestAnEarlierFailureThatARestoredNodeShowsAgainEndsNoClaim(t *testing.T) {
	b := setup(t).rich(100)
	inv := b.issue(simnode.Ask{Amount: 50_000, Act: simnode.Refuses})
	if err := b.Node.Pay(b.Ctx, paidaction.PaymentRequest{Bolt11: inv.Bolt11, FeeLimit: 3_000, Timeout: time.Minute}, func(paidaction.PaymentUpdate) error { return nil }); err != nil {
		t.Fatal(err)
	}
	b.wallet.Receiver.Change(inv.Hash, simnode.Holds)
	backup := b.Node.Backup()
	pa := b.withdraw(inv.Bolt11)
	stand := func(standing chan struct{}) (goOn chan struct{}) {
		goOn = make(chan struct{})
		b.Node.Before(simnode.MethodTrack, func(paidaction.Hash) { close(standing); <-goOn })
		return goOn
	}
	claimed, read := make(chan struct{}), make(chan struct{})
	working, stop := context.WithCancel(b.Ctx)
	var worker, reader sync.WaitGroup
	send := stand(claimed)
	worker.Go(func() { _, _ = b.NewRelay().Step(working, "one", nothing) })
	<-claimed
	conclude := stand(read)
	reader.Go(func() {
		if out, err := b.NewRelay().Proceed(b.Ctx, pa.ID); out.Failure != nil {
			t.Errorf("%+v, %v", out, err)
		}
	})
	<-read
	close(send)
	b.await("the receiver holds it", func() bool { return b.wallet.Receiver.Receipt(inv.Hash).Held == 50_000 })
	b.AwaitShown(pa.ID)
	stop()
	worker.Wait()
	b.Node.Restore(backup)
	b.Clock.Advance(over)
	close(conclude)
	reader.Wait()
	b.rounds(2)
	b.WantState(pa.ID, paidaction.Forwarding)
	b.WantBalance(ledger.UserSats(b.payer), 45_000)
	if n := b.Count(`SELECT count(*) FROM relay_attempt WHERE outcome IS NULL`); n != 1 {
		t.Errorf("%d claims are open", n)
	}
}

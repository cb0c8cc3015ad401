package relay_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/a-seed-a7aed72f/holdfast/internal/pgtest"
	"github.com/a-seed-a7aed72f/holdfast/lightning/simnode"
	"github.com/a-seed-a7aed72f/holdfast/paidaction"
	"github.com/a-seed-a7aed72f/holdfast/relay"
)

// Spec 05.16j: once the payer has their money back, or is getting it, a failed forward is not put back into the pipeline.
func TestAForwardIsNotRequeuedAfterTheMoneyWentBack(t *testing.T) {
	b := setup(t)
	b.wallet.Ask.Act = simnode.Refuses
	b.Run(b.Relay)
	pa := b.zap()
	b.pay(pa)
	b.Await(pa.ID, paidaction.Failed)
	b.wallet.Receiver.Change(pa.Invoice.Hash, simnode.Pays)
	for _, id := range []int64{pa.ID, pa.ID + 1000} {
		if err := relay.Requeue(b.Ctx, b.Pool, id, b.Clock.Now()); !errors.Is(err, relay.ErrNotRequeued) {
			t.Errorf("got %v", err)
		}
	}
	b.rounds(2)
	b.wantReceived(pa, 0)
	b.wantSound()
}

// Nor from the moment on in which it is decided that the money goes back: a withdrawal that was requeued then would be refunded and paid.
func TestAPaymentIsNotRequeuedOnceTheMoneyIsOnItsWayBack(t *testing.T) {
	b := setup(t).rich(100)
	inv := b.issue(simnode.Ask{Amount: 50_000, Act: simnode.Refuses})
	pa := b.withdraw(inv.Bolt11)
	b.giveUpUnheard(pa)
	b.Advance(pa.ID)
	b.WantState(pa.ID, paidaction.FailedForward)
	b.wallet.Receiver.Change(inv.Hash, simnode.Pays)
	if err := relay.Requeue(b.Ctx, b.Pool, pa.ID, b.Clock.Now()); !errors.Is(err, relay.ErrNotRequeued) {
		t.Errorf("got %v", err)
	}
	b.Run(b.NewRelay())
	b.rounds(2)
	b.WantState(pa.ID, paidaction.Failed)
	b.wantPaidOut(inv.Hash, 0)
	b.wantSats(100_000)
	b.wantSound()
}

// A node that has refused it may take it again, also where the clock of whoever puts it back is behind.
func TestWhoeverHasRefusedItMayTakeItAgainWhateverTheClock(t *testing.T) {
	b := setup(t).rich(100)
	inv := b.issue(simnode.Ask{Amount: 50_000, Act: simnode.Refuses})
	pa := b.withdraw(inv.Bolt11)
	b.giveUpUnheard(pa)
	b.wallet.Receiver.Change(inv.Hash, simnode.Pays)
	if err := relay.Requeue(b.Ctx, b.Pool, pa.ID, b.Clock.Now().Add(-time.Hour)); err != nil {
		t.Fatal(err)
	}
	b.Run(b.NewRelay())
	b.Await(pa.ID, paidaction.Paid)
	b.wantPaidOut(inv.Hash, 50_000)
	b.wantSound()
}

// Nor do nodes get it again and again where that clock is ahead of theirs who send: what fails after it was put back counts.
func TestWhatIsRequeuedByAClockThatIsAheadIsTriedAsOftenAsAnyOther(t *testing.T) {
	b := setup(t, "one", "two").rich(100)
	inv := b.issue(simnode.Ask{Amount: 50_000, Act: simnode.Unreachable, Expiry: 7 * 24 * time.Hour})
	pa := b.withdraw(inv.Bolt11)
	b.giveUpUnheard(pa)
	b.wantSent(inv.Hash, 2)
	if err := relay.Requeue(b.Ctx, b.Pool, pa.ID, b.Clock.Now().Add(time.Hour)); err != nil {
		t.Fatal(err)
	}
	for range 5 {
		for _, node := range b.Nodes.Names() {
			if _, err := b.NewRelay().Step(b.Ctx, node, b.Engine.Advance); err != nil {
				t.Fatal(err)
			}
		}
	}
	b.wantSent(inv.Hash, 4)
	b.rounds(2)
	b.WantState(pa.ID, paidaction.Failed)
	b.wantSats(100_000)
	b.wantSound()
}

// One that no node could send has no claims. It is waited for anew as well, also where the clock of whoever puts it back is behind by more than it waits.
func TestWhatIsRequeuedByAClockThatIsBehindIsWaitedForAnew(t *testing.T) {
	b := setup(t).rich(100)
	b.Node.SetSendable(10_000)
	inv := b.issue(simnode.Ask{Amount: 50_000, Expiry: 7 * 24 * time.Hour})
	pa := b.withdraw(inv.Bolt11)
	b.Clock.Advance(time.Hour)
	if out, err := b.Relay.Proceed(b.Ctx, pa.ID); err != nil || out.Failure == nil { // the action does not hear of it
		t.Fatalf("%+v, %v", out, err)
	}
	if err := relay.Requeue(b.Ctx, b.Pool, pa.ID, b.Clock.Now().Add(-2*time.Hour)); err != nil {
		t.Fatal(err)
	}
	b.Clock.Advance(59 * time.Minute)
	b.Advance(pa.ID)
	b.AwaitStage(pa.ID, "incoming")
	b.Clock.Advance(time.Minute)
	b.rounds(2)
	b.WantState(pa.ID, paidaction.Failed)
	b.wantSats(100_000)
	b.wantSound()
}

// What a node has been given is not put back for another one.
func TestWhatIsUnderWayIsNotRequeued(t *testing.T) {
	b := setup(t)
	b.wallet.Ask.Act = simnode.Holds
	pa := b.zap()
	b.pay(pa)
	b.Run(b.Relay)
	b.awaitHeld(pa)
	if err := relay.Requeue(b.Ctx, b.Pool, pa.ID, b.Clock.Now()); !errors.Is(err, relay.ErrNotRequeued) {
		t.Errorf("what is under way is requeued: %v", err)
	} else if strings.Contains(err.Error(), "start a new action") || !strings.Contains(err.Error(), "may pay a second time") {
		t.Errorf("whoever is told this pays twice: %v", err)
	}
	b.AwaitStage(pa.ID, "in_work")
	b.wantSent(pa.Invoice.Hash, 1)
}

// The other half of it: while nothing was given back an operator may have it tried again, by the node that refused it too.
func TestAFailedForwardIsRequeuedWhileThePayersPaymentIsHeld(t *testing.T) {
	b := setup(t)
	b.wallet.Ask.Act = simnode.Refuses
	pa := b.zap()
	b.pay(pa)
	b.giveUpUnheard(pa)
	b.wallet.Receiver.Change(pa.Invoice.Hash, simnode.Pays)
	if err := relay.Requeue(b.Ctx, b.Pool, pa.ID, b.Clock.Now()); err != nil {
		t.Fatal(err)
	}
	b.Run(b.NewRelay())
	b.Await(pa.ID, paidaction.Paid)
	b.wantReceived(pa, 70_000)
	b.AwaitStage(pa.ID, "completed")
	if err := relay.Requeue(b.Ctx, b.Pool, pa.ID, b.Clock.Now()); !errors.Is(err, relay.ErrNotRequeued) {
		t.Errorf("what was paid is requeued: %v", err)
	} else if strings.Contains(err.Error(), "start a new action") || !strings.Contains(err.Error(), "its receiver has been paid") {
		t.Errorf("whoever is told this pays twice: %v", err)
	}
	b.wantSound()
}

// Nor while another payment of the same invoice is under way: the receiver is paid once, and the operator is told why.
func TestAPaymentIsNotRequeuedBesideAnotherOfItsInvoice(t *testing.T) {
	b := setup(t).rich(200)
	inv := b.issue(simnode.Ask{Amount: 50_000, Act: simnode.Refuses})
	pa := b.withdraw(inv.Bolt11)
	b.giveUpUnheard(pa)
	b.wallet.Receiver.Change(inv.Hash, simnode.Pays)
	other := b.withdraw(inv.Bolt11)
	err := relay.Requeue(b.Ctx, b.Pool, pa.ID, b.Clock.Now())
	b.WantRefusal(err, paidaction.CodeDuplicate)
	if !errors.Is(err, relay.ErrNotRequeued) || strings.Contains(err.Error(), "relay_payment_hash") {
		t.Errorf("%v: not to be understood without knowing the indexes", err)
	}
	b.AwaitStage(pa.ID, "failed")
	b.Run(b.NewRelay())
	b.Await(other.ID, paidaction.Paid)
	b.wantPaidOut(inv.Hash, 50_000)
}

// Where the answer to the commit is lost the payment may be on its way: whoever is told that it was not put back would start another one.
func TestARequeueWhoseAnswerIsLostIsUnknown(t *testing.T) {
	b := setup(t)
	b.wallet.Ask.Act = simnode.Refuses
	pa := b.zap()
	b.pay(pa)
	b.giveUpUnheard(pa)
	proxy := pgtest.NewProxy(t, b.Pool)
	pool, err := pgxpool.New(b.Ctx, proxy.URL)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(pool.Close)
	ended, cancel := context.WithCancel(b.Ctx)
	cancel()
	if err := relay.Requeue(ended, pool, pa.ID, b.Clock.Now()); err == nil || errors.Is(err, paidaction.Refused(paidaction.CodeUnknownOutcome)) {
		t.Errorf("before anything was done: %v", err)
	}
	proxy.Freeze(func(sent []byte) bool { return bytes.Contains(sent, []byte("commit\x00")) })
	requeued := make(chan error, 1)
	go func() { requeued <- relay.Requeue(b.Ctx, pool, pa.ID, b.Clock.Now()) }()
	<-proxy.Frozen
	proxy.Reset()
	err = <-requeued
	b.WantRefusal(err, paidaction.CodeUnknownOutcome)
	if look := fmt.Sprintf("holdfast relay show %d:", pa.ID); !strings.Contains(err.Error(), look) {
		t.Errorf("%v, want it to say %s", err, look)
	}
}

// Whoever has just heard of the failure, and comes to the action after the operator, gives nothing back: the payment is about to be sent again.
func TestARequeueIsFasterThanWhoHeardOfTheFailure(t *testing.T) {
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
		t.Run(name, func(t *testing.T) {
			b := setup(t)
			pa, hash := begin(b)
			b.giveUpUnheard(pa)
			b.wallet.Receiver.Change(hash, simnode.Pays)
			first, err := b.Pool.Begin(b.Ctx)
			if err != nil {
				t.Fatal(err)
			}
			defer func() { _ = first.Rollback(context.Background()) }()
			if _, err := first.Exec(b.Ctx, `SELECT FROM paid_action WHERE id = $1 FOR UPDATE`, pa.ID); err != nil {
				t.Fatal(err)
			}
			requeued, advanced := make(chan error, 1), make(chan error, 1)
			go func() { requeued <- relay.Requeue(b.Ctx, b.Pool, pa.ID, b.Clock.Now()) }()
			b.AwaitBlocked(1)
			go func() { _, err := b.Engine.Advance(b.Ctx, pa.ID); advanced <- err }()
			b.AwaitBlocked(2)
			if err := first.Rollback(b.Ctx); err != nil {
				t.Fatal(err)
			}
			if err := errors.Join(<-requeued, <-advanced); err != nil {
				t.Fatal(err)
			}
			b.WantState(pa.ID, paidaction.Forwarding)
			b.Run(b.NewRelay())
			b.Await(pa.ID, paidaction.Paid)
			b.wantPaidOut(hash, 70_000)
			b.wantSound()
		})
	}
}

package relay_test

import (
	"context"
	"errors"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/a-seed-a7aed72f/holdfast/community"
	"github.com/a-seed-a7aed72f/holdfast/internal/db"
	"github.com/a-seed-a7aed72f/holdfast/internal/enginetest"
	"github.com/a-seed-a7aed72f/holdfast/ledger"
	"github.com/a-seed-a7aed72f/holdfast/lightning/simnode"
	"github.com/a-seed-a7aed72f/holdfast/paidaction"
)

// A receiver whose wallets hang takes at most four of the sixteen who prepare next attempts. What is above is prepared
// without their wallets, at once, and none of it waits.
func TestAReceiverWhoseWalletsHangHoldsUpNoOthersAttempts(t *testing.T) {
	b := setup(t)
	b.wallet.Ask.Act = simnode.Refuses
	stop := b.Run(b.Relay)
	var failed []int64
	for range 5 {
		pa := b.zap()
		b.pay(pa)
		b.Await(pa.ID, paidaction.Failed)
		failed = append(failed, pa.ID)
	}
	stop()
	asked, answer := make(chan struct{}), make(chan struct{})
	b.wallet.Before = func() { asked <- struct{}{}; <-answer }
	var hanging sync.WaitGroup
	for _, id := range failed[:4] {
		hanging.Go(func() {
			if err := b.Engine.Again(b.Ctx, id); err != nil {
				t.Error(err)
			}
		})
		<-asked
	}
	fifth := make(chan error, 1)
	go func() { fifth <- b.Engine.Again(b.Ctx, failed[4]) }()
	select {
	case err := <-fifth:
		if err != nil {
			t.Fatal(err)
		}
	case <-asked:
		t.Fatal("the fifth waits for them, too")
	case <-time.After(20 * time.Second):
		t.Fatal("the fifth waits")
	}
	close(answer)
	hanging.Wait()
	for i, id := range failed {
		want := paidaction.P2P
		if i == 4 {
			want = paidaction.Optimistic
		}
		if next := b.Look(*b.WantState(id, paidaction.Retrying).Successor); next.Method != want {
			t.Errorf("the next attempt of the %dth is paid by %s, want %s", i+1, next.Method, want)
		}
	}
}

// Once it is said that nothing of a payer is tried again unasked, nothing is, also by a process that had looked before.
func TestNothingIsTriedAgainByWhoLookedBeforeItWasRefused(t *testing.T) {
	b := setup(t)
	b.wallet.Ask.Act = simnode.Refuses
	b.payer = b.User("poor", 0, 0)
	stop := b.Run(b.Relay)
	pa := b.Pay(b.payer, community.KindZap, community.ZapArgs{Item: b.item, Sats: 100}, "")
	b.pay(pa)
	b.Await(pa.ID, paidaction.Failed)
	stop()
	b.Fund(b.payer, 1_000_000, 0)
	tx, err := b.Pool.Begin(b.Ctx)
	if err != nil {
		t.Fatal(err)
	}
	q := db.New(tx)
	if _, err := q.LockAction(b.Ctx, pa.ID); err != nil {
		t.Fatal(err)
	}
	tried := make(chan error, 1)
	go func() { tried <- b.Engine.Again(b.Ctx, pa.ID) }()
	b.AwaitBlocked(1)
	if err := errors.Join(paidaction.RefuseAgainOf(b.Ctx, q, b.payer, b.Clock.Now()), tx.Commit(b.Ctx)); err != nil {
		t.Fatal(err)
	}
	if err := <-tried; err != nil {
		t.Fatal(err)
	}
	b.WantState(pa.ID, paidaction.Failed)
	b.WantBalance(ledger.UserCredits(b.payer), 1_000_000)
	if n := b.Count(`SELECT count(*) FROM notification WHERE kind = 'PAYMENT_FAILED' AND user_id = $1`, b.payer); n != 1 {
		t.Errorf("the payer was told %d times", n)
	}
	b.wantSound()
}

// An attempt that is being begun just then is no exception: it is the one that fails next.
func TestNothingIsTriedAgainThatWasBegunJustAsItWasRefused(t *testing.T) {
	b := setup(t)
	b.wallet.Ask.Act = simnode.Refuses
	b.payer = b.User("poor", 0, 0)
	stop := b.Run(b.Relay)
	pa := b.Pay(b.payer, community.KindZap, community.ZapArgs{Item: b.item, Sats: 100}, "")
	b.pay(pa)
	b.Await(pa.ID, paidaction.Failed)
	stop()
	tx, err := b.Pool.Begin(b.Ctx)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := db.New(tx).LockUser(b.Ctx, b.payer); err != nil {
		t.Fatal(err)
	}
	tried, refused := make(chan error, 1), make(chan error, 1)
	go func() { tried <- b.Engine.Again(b.Ctx, pa.ID) }()
	b.AwaitBlocked(1)
	go func() {
		refused <- pgx.BeginFunc(b.Ctx, b.Pool, func(tx pgx.Tx) error {
			return paidaction.RefuseAgainOf(b.Ctx, db.New(tx), b.payer, b.Clock.Now())
		})
	}()
	b.AwaitBlocked(2)
	if err := errors.Join(tx.Commit(b.Ctx), <-tried, <-refused); err != nil {
		t.Fatal(err)
	}
	next := b.Look(*b.WantState(pa.ID, paidaction.Retrying).Successor)
	if next.Method != paidaction.P2P {
		t.Fatalf("it is paid by %s", next.Method)
	}
	b.Fund(b.payer, 1_000_000, 0)
	defer b.Run(b.Relay)()
	b.pay(next)
	b.Await(next.ID, paidaction.Failed)
	if err := b.Engine.Again(b.Ctx, next.ID); err != nil {
		t.Fatal(err)
	}
	b.WantState(next.ID, paidaction.Failed)
	b.WantBalance(ledger.UserCredits(b.payer), 1_000_000)
}

// Whoever cancels what has failed, or is about to, says no to the next attempt: none is made, and their balance is theirs.
// They may ask for it themselves.
func TestNothingIsTriedAgainThatItsPayerHasCancelled(t *testing.T) {
	for _, state := range []paidaction.State{paidaction.Canceling, paidaction.Failed} {
		t.Run(string(state), func(t *testing.T) {
			b := setup(t)
			b.wallet.Ask.Act = simnode.Refuses
			b.payer = b.User("poor", 0, 0)
			if state == paidaction.Canceling {
				b.Node.FailBefore(simnode.MethodCancel, 1000)
			}
			stop := b.Run(b.Relay)
			pa := b.Pay(b.payer, community.KindZap, community.ZapArgs{Item: b.item, Sats: 100}, "")
			b.pay(pa)
			b.Await(pa.ID, state)
			stop()
			b.Fund(b.payer, 1_000_000, 0)
			for range 2 { // once more, as after an answer that was lost
				got, err := b.Engine.Cancel(b.Ctx, enginetest.Caller(b.payer), pa.ID)
				if err != nil || got.State != state || got.Failure.Code != paidaction.CodePaymentFailed {
					t.Fatalf("%+v, %v", got, err)
				}
			}
			b.Node.FailBefore(simnode.MethodCancel, 0)
			b.Drain()
			if failed := b.WantState(pa.ID, paidaction.Failed); b.Engine.WillRetry(failed) {
				t.Error("those who follow it wait for an attempt")
			}
			b.WantBalance(ledger.UserCredits(b.payer), 1_000_000)
			if n := b.Count(`SELECT count(*) FROM notification WHERE kind = 'PAYMENT_FAILED' AND user_id = $1`, b.payer); n != 1 {
				t.Errorf("the payer was told %d times", n)
			}
			next, err := b.Engine.Retry(b.Ctx, enginetest.Caller(b.payer), pa.ID, "", paidaction.Terms{}, nil)
			if err != nil || next.State != paidaction.Paid {
				t.Fatalf("tried again by the payer: %+v, %v", next, err)
			}
			b.WantBalance(ledger.UserCredits(b.payer), 900_000)
			_, err = b.Engine.Cancel(b.Ctx, enginetest.Caller(b.payer), pa.ID)
			b.WantRefusal(err, paidaction.CodeNotCancelable)
			b.wantSound()
		})
	}
}

// Of a cancel and the next attempt at once, one wins: either nothing is begun, or the cancel is refused.
func TestACancelAndTheNextAttemptAtOnce(t *testing.T) {
	for _, first := range []string{"the cancel", "the attempt"} {
		t.Run(first, func(t *testing.T) {
			b := setup(t)
			b.wallet.Ask.Act = simnode.Refuses
			b.payer = b.User("poor", 0, 0)
			stop := b.Run(b.Relay)
			pa := b.Pay(b.payer, community.KindZap, community.ZapArgs{Item: b.item, Sats: 100}, "")
			b.pay(pa)
			b.Await(pa.ID, paidaction.Failed)
			stop()
			b.Fund(b.payer, 1_000_000, 0)
			tx, err := b.Pool.Begin(b.Ctx)
			if err != nil {
				t.Fatal(err)
			}
			if _, err := db.New(tx).LockAction(b.Ctx, pa.ID); err != nil {
				t.Fatal(err)
			}
			canceled, tried := make(chan error, 1), make(chan error, 1)
			at := []func(){
				func() { _, err := b.Engine.Cancel(b.Ctx, enginetest.Caller(b.payer), pa.ID); canceled <- err },
				func() { tried <- b.Engine.Again(b.Ctx, pa.ID) },
			}
			if first == "the attempt" {
				slices.Reverse(at)
			}
			for i, do := range at {
				go do()
				b.AwaitBlocked(i + 1)
			}
			if err := errors.Join(tx.Commit(b.Ctx), <-tried); err != nil {
				t.Fatal(err)
			}
			if err := <-canceled; first == "the attempt" {
				b.WantRefusal(err, paidaction.CodeNotCancelable)
				b.WantState(pa.ID, paidaction.Retrying)
				b.WantBalance(ledger.UserCredits(b.payer), 900_000)
			} else {
				if err != nil {
					t.Error(err)
				}
				b.WantState(pa.ID, paidaction.Failed)
				b.WantBalance(ledger.UserCredits(b.payer), 1_000_000)
			}
			b.wantSound()
		})
	}
}

// overtaken is a relay that something happens to while a cancel asks what was sent.
type overtaken struct {
	paidaction.Relay
	by func()
}

func (o overtaken) Forgotten(ctx context.Context, action int64, h paidaction.Hash) (bool, error) {
	o.by()
	return o.Relay.Forgotten(ctx, action, h)
}

// A cancel that the payment overtakes, up to its failure, finds the action FAILED, as it would have a moment later.
func TestNothingIsTriedAgainThatFailedWhileItsPayerCancelledIt(t *testing.T) {
	b := setup(t)
	b.wallet.Ask.Act = simnode.Refuses
	b.payer = b.User("poor", 0, 0)
	pa := b.Pay(b.payer, community.KindZap, community.ZapArgs{Item: b.item, Sats: 100}, "")
	config := b.Engine.Config
	config.Relay = overtaken{b.Relay, func() {
		stop := b.Run(b.Relay)
		b.pay(pa)
		b.Await(pa.ID, paidaction.Failed)
		stop()
		b.Fund(b.payer, 1_000_000, 0)
	}}
	slow, err := paidaction.New(config)
	if err != nil {
		t.Fatal(err)
	}
	if got, err := slow.Cancel(b.Ctx, enginetest.Caller(b.payer), pa.ID); err != nil || got.State != paidaction.Failed {
		t.Fatalf("%+v, %v", got, err)
	}
	b.Drain()
	b.WantState(pa.ID, paidaction.Failed)
	b.WantBalance(ledger.UserCredits(b.payer), 1_000_000)
}

// An attempt for which no way to the receiver's wallets is found in the time of its job is prepared without them: the job
// would begin anew with what takes as long again.
func TestAnAttemptIsPreparedInTheTimeOfItsJob(t *testing.T) {
	b := setup(t)
	b.wallet.Ask.Act = simnode.Refuses
	stop := b.Run(b.Relay)
	pa := b.zap()
	b.pay(pa)
	b.Await(pa.ID, paidaction.Failed)
	stop()
	b.wallet.Hangs, b.Engine.Settings.SearchTimeout = true, time.Second
	job, end := context.WithTimeout(b.Ctx, 20*time.Second)
	defer end()
	if err := b.Engine.Again(job, pa.ID); err != nil {
		t.Fatal(err)
	}
	if next := b.Look(*b.WantState(pa.ID, paidaction.Retrying).Successor); next.Method != paidaction.Optimistic {
		t.Errorf("the next attempt is paid by %s", next.Method)
	}
}

// What only passes, as that nothing new is begun after a restore of the database, is no answer: it is asked again.
func TestWhatPassesDoesNotEndTheAttempts(t *testing.T) {
	b := setup(t)
	b.wallet.Ask.Act = simnode.Refuses
	stop := b.Run(b.Relay)
	pa := b.zap()
	b.pay(pa)
	b.Await(pa.ID, paidaction.Failed)
	stop()
	passes := paidaction.Errorf(paidaction.CodeTryAgain, "Not now.")
	b.Engine.MayBegin = func() error { return passes }
	if err := b.Engine.Again(b.Ctx, pa.ID); !errors.Is(err, passes) {
		t.Errorf("error %v", err)
	}
	b.WantState(pa.ID, paidaction.Failed)
	b.Engine.MayBegin = func() error { return nil }
	if err := b.Engine.Again(b.Ctx, pa.ID); err != nil {
		t.Fatal(err)
	}
	b.WantState(pa.ID, paidaction.Retrying)
}

// An attempt whose node was away when it was begun gets its invoice from the job that began it: nobody else waits for it,
// and without one it would fail and end the attempts.
func TestANextAttemptGetsTheInvoiceThatItsNodeDidNotMakeAtOnce(t *testing.T) {
	b := setup(t)
	b.wallet.Ask.Act = simnode.Refuses
	stop := b.Run(b.Relay)
	pa := b.zap()
	b.pay(pa)
	b.Await(pa.ID, paidaction.Failed)
	stop()
	b.wallet.Ask.Act = simnode.Pays
	b.Node.FailBefore(simnode.MethodOpen, 2)
	for range 2 {
		b.WantRefusal(b.Engine.Again(b.Ctx, pa.ID), paidaction.CodeLightningUnavailable)
		if next := b.Look(*b.WantState(pa.ID, paidaction.Retrying).Successor); next.Invoice.Bolt11 != "" {
			t.Fatalf("%+v", next.Invoice)
		}
	}
	b.Drain()
	next := b.Look(*b.Look(pa.ID).Successor)
	if next.Invoice.Bolt11 == "" {
		t.Fatal("its payer has nothing to pay")
	}
	b.pay(next)
	b.Run(b.Relay)
	b.Await(next.ID, paidaction.Paid)
	b.wantSound()
}

// A process that does not know the kind of what failed, as while processes are replaced one by one, leaves the next
// attempt to one that does.
func TestAnOldProcessLeavesTheNextAttemptOfANewKindToTheNewOnes(t *testing.T) {
	b := setup(t)
	b.wallet.Ask.Act = simnode.Refuses
	stop := b.Run(b.Relay)
	pa := b.zap()
	b.pay(pa)
	b.Await(pa.ID, paidaction.Failed)
	stop()
	config := b.Engine.Config
	config.Actions = slices.DeleteFunc(slices.Clone(config.Actions), func(d paidaction.Definition) bool { return d.Spec().Kind == community.KindZap })
	old, err := paidaction.New(config)
	if err != nil {
		t.Fatal(err)
	}
	if err := old.Again(b.Ctx, pa.ID); !paidaction.IsPassing(err) {
		t.Errorf("error %v", err)
	}
	b.Drain()
	b.WantState(pa.ID, paidaction.Retrying)
}

// Spec 01 §1.7: the server prepares attempts by itself up to the third, also where further wallets are left. Then the
// payer is told, once, and may try again.
func TestThreeAttemptsArePreparedInAll(t *testing.T) {
	b := setup(t)
	b.wallet.Ask.Act = simnode.Refuses
	for range 3 {
		b.Wallets.Add(b.author).Ask.Act = simnode.Refuses
	}
	told := func() int64 {
		return b.Count(`SELECT count(*) FROM notification WHERE kind = 'PAYMENT_FAILED' AND user_id = $1`, b.payer)
	}
	b.Run(b.Relay)
	pa := b.zap()
	for attempt := 1; ; attempt++ {
		b.pay(pa)
		b.Await(pa.ID, paidaction.Failed)
		b.Drain()
		if attempt == 3 {
			break
		}
		if n := told(); n != 0 {
			t.Errorf("after attempt %d the payer was told %d times", attempt, n)
		}
		pa = b.Look(*b.WantState(pa.ID, paidaction.Retrying).Successor)
	}
	if last := b.WantState(pa.ID, paidaction.Failed); last.Attempt != 3 || last.Method != paidaction.P2P || told() != 1 {
		t.Fatalf("attempt %d by %s failed, and the payer was told %d times", last.Attempt, last.Method, told())
	}
	next, err := b.Engine.Retry(b.Ctx, enginetest.Caller(b.payer), pa.ID, "", paidaction.Terms{Method: paidaction.P2P}, nil)
	if err != nil || next.Attempt != 4 {
		t.Errorf("tried again by the payer: %+v, %v", next, err)
	}
}

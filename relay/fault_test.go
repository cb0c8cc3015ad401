package relay_test

import (
	"context"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/a-seed-a7aed72f/holdfast/community"
	"github.com/a-seed-a7aed72f/holdfast/ledger"
	"github.com/a-seed-a7aed72f/holdfast/lightning/simnode"
	"github.com/a-seed-a7aed72f/holdfast/paidaction"
	"github.com/a-seed-a7aed72f/holdfast/relay"
)

// over is longer than a claim lasts and its grace.
const over = 21 * time.Second

// wantSent fails the test unless the nodes together were given a payment so many times.
func (b *bundle) wantSent(h paidaction.Hash, want int) {
	b.Helper()
	got := 0
	for _, n := range b.Nodes {
		got += n.Count(simnode.MethodPay, h)
	}
	if got != want {
		b.Errorf("the payment was given to nodes %d times, want %d", got, want)
	}
}

// await waits until holds, which is asked again and again.
func (b *bundle) await(what string, holds func() bool) {
	b.Helper()
	b.awaitFor(20*time.Second, what, holds)
}

func (b *bundle) awaitFor(patience time.Duration, what string, holds func() bool) {
	b.Helper()
	limit, tick := time.NewTimer(patience), time.NewTicker(max(5*time.Millisecond, patience/1000))
	defer limit.Stop()
	defer tick.Stop()
	for !holds() {
		select {
		case <-tick.C:
		case <-limit.C:
			b.Fatalf("waited in vain: %s", what)
		}
	}
}

// awaitHeld waits until the receiver holds the whole payment.
func (b *bundle) awaitHeld(pa *paidaction.PaidAction) {
	b.Helper()
	b.await("the receiver holds the payment", func() bool { return b.wallet.Receiver.Receipt(pa.Invoice.Hash).Held == 70_000 })
}

// runWith has a relay work with what is to bring actions on, until stop is called.
func (b *bundle) runWith(r *relay.Relay, advance relay.Advance) (stop func()) {
	ctx, cancel := context.WithCancel(b.Ctx)
	var all sync.WaitGroup
	all.Go(func() { _ = r.Run(ctx, advance) })
	stop = sync.OnceFunc(func() { cancel(); all.Wait() })
	b.Cleanup(stop)
	return stop
}

// giveUpUnheard has the relay give a payment up, and its process die before the action hears of it.
func (b *bundle) giveUpUnheard(pa *paidaction.PaidAction) {
	b.Helper()
	stop := b.runWith(b.Relay, func(context.Context, int64) (paidaction.Progress, error) { return paidaction.Waiting, nil })
	b.AwaitStage(pa.ID, "failed")
	stop()
}

// paidByTheSecond has the second node pay an invoice of which nothing is noted here, as after a restore.
func (b *bundle) paidByTheSecond(bolt11 string) {
	b.Helper()
	err := b.Nodes[1].Pay(b.Ctx, paidaction.PaymentRequest{Bolt11: bolt11, FeeLimit: 3_000, Timeout: time.Minute}, func(paidaction.PaymentUpdate) error { return nil })
	if err != nil {
		b.Fatal(err)
	}
}

// rounds has the relays compare everything with the nodes, and the engine sweep, a few times.
func (b *bundle) rounds(n int) {
	b.Helper()
	for range n {
		for _, name := range b.Nodes.Names() {
			if err := b.Relay.Audit(b.Ctx, name, b.Engine.Advance); err != nil {
				b.Fatal(err)
			}
		}
		if _, err := b.Engine.Sweep(b.Ctx); err != nil {
			b.Fatal(err)
		}
	}
}

// Spec 05.16a: the payer pays after our cancel was committed. The node gives it back, and the receiver gets nothing.
func TestAPaymentAfterOurCancelGoesBack(t *testing.T) {
	b := setup(t)
	b.Run(b.Relay)
	pa := b.zap()
	b.Node.Before(simnode.MethodCancel, func(h paidaction.Hash) {
		if err := b.Node.PayHash(h, simnode.Payment{}); err != nil {
			t.Error(err)
		}
	})
	if _, err := b.Engine.Cancel(b.Ctx, paidaction.Caller{User: &b.payer}, pa.ID); err != nil {
		t.Fatal(err)
	}
	b.Drain()
	b.WantState(pa.ID, paidaction.Failed)
	b.wantOuter(pa, paidaction.InvoiceCanceled)
	b.wantSent(pa.Invoice.Hash, 0)
	b.wantSound()
}

// Spec 05.2: the payer's payment is gone between the claim and the send. Nothing is sent, and the wallet is not to blame.
func TestThePayersPaymentIsLookedAtRightBeforeTheSend(t *testing.T) {
	b := setup(t)
	pa := b.zap()
	b.pay(pa)
	b.Node.Before(simnode.MethodLookup, func(h paidaction.Hash) {
		if b.Count(`SELECT count(*) FROM relay_attempt WHERE outcome IS NULL`) == 0 {
			return // it is not claimed yet
		}
		if err := b.Node.Cancel(b.Ctx, h); err != nil {
			t.Error(err)
		}
	})
	b.Run(b.Relay)
	b.Await(pa.ID, paidaction.Failed)
	b.wantSent(pa.Invoice.Hash, 0)
	if n := b.Count(`SELECT count(*) FROM relay_attempt WHERE outcome = 'NOT_SENT'`); n != 1 {
		t.Errorf("%d claims that were not sent", n)
	}
	if n := b.Wallets.Failures(b.wallet.ID, pa.ID); n != 0 {
		t.Errorf("the receiver's wallet is blamed %d times for what the payer did", n)
	}
	b.wantSound()
}

// Spec 05.16b: while FORWARDING and not sent yet, blocks arrive until too few are left, or until LND gives the payment back.
func TestBlocksBeforeTheSend(t *testing.T) {
	for name, left := range map[string]uint32{"too few for the receiver": 80, "given back by LND": 18} {
		t.Run(name, func(t *testing.T) {
			b := setup(t)
			pa := b.zap()
			b.pay(pa)
			b.Node.Mine(b.outer(pa).NodeInvoice().ExpiryHeight - left - b.Node.Height())
			b.Run(b.Relay)
			b.Await(pa.ID, paidaction.Failed)
			b.wantSent(pa.Invoice.Hash, 0)
			b.wantOuter(pa, paidaction.InvoiceCanceled)
			b.wantSound()
		})
	}
}

// Spec 05.16b: the receiver lets the payment hang. It comes back before the payer's does, so nobody loses anything.
func TestAReceiverWhoHangsGivesBackInTime(t *testing.T) {
	b := setup(t)
	b.wallet.Ask.Act = simnode.Holds
	b.Run(b.Relay)
	pa := b.zap()
	b.pay(pa)
	b.awaitHeld(pa)
	outer := b.outer(pa).NodeInvoice().ExpiryHeight
	sent, _ := b.Node.Sent(pa.Invoice.Hash)
	b.Node.Mine(sent.Parts[0].ExpiryHeight - b.Node.Height())
	b.Await(pa.ID, paidaction.Failed)
	if safety := outer - 18 - 12; b.Node.Height() >= safety {
		t.Errorf("back at height %d, safe until %d", b.Node.Height(), safety)
	}
	b.wantOuter(pa, paidaction.InvoiceCanceled)
	b.wantReceived(pa, 0)
	b.wantSound()
}

// Spec 05.16b: the receiver was paid while the node that holds the payer's payment is away until LND gives it back: the loss is
// booked, and the zap counts.
func TestALostIncomingPaymentIsBookedAsLoss(t *testing.T) {
	b := setup(t, "one", "two")
	b.Node.SetSendable(0)
	pa := b.zap()
	b.pay(pa)
	b.Nodes[1].After(simnode.MethodPay, func(paidaction.Hash) { b.Node.SetAway(true) })
	b.Run(b.Relay)
	b.Await(pa.ID, paidaction.Forwarded)
	b.Node.Mine(b.outer(pa).NodeInvoice().ExpiryHeight - 18 - b.Node.Height())
	b.Node.SetAway(false)
	b.Await(pa.ID, paidaction.Paid)
	b.AwaitStage(pa.ID, "completed")
	b.wantReceived(pa, 70_000)
	b.WantBalance(ledger.LossSats, -100_000)
	b.WantBalance(ledger.RoutingSats, 0)
	b.wantSound()
}

// Spec 05.16c: one part settled, another hung. The payer's payment is taken at once; the fee is booked when it is final.
func TestASettledPartIsEnough(t *testing.T) {
	for name, end := range map[string]func(*simnode.Receiver, paidaction.Hash) error{"taken": (*simnode.Receiver).Settle, "given back": (*simnode.Receiver).Cancel} {
		t.Run(name, func(t *testing.T) {
			b := setup(t)
			b.wallet.Ask.Act = simnode.Splits
			rewards := b.Balance(ledger.RewardSats)
			b.Run(b.Relay)
			pa := b.zap()
			b.pay(pa)
			b.Await(pa.ID, paidaction.Paid)
			b.wantOuter(pa, paidaction.InvoiceSettled)
			if row := b.AwaitStage(pa.ID, "pending_confirmation"); row.FeeMsat != nil {
				t.Errorf("a fee of %d is booked while a part hangs", *row.FeeMsat)
			}
			b.WantBalance(ledger.RoutingSats, 73_000)
			if err := end(b.wallet.Receiver, pa.Invoice.Hash); err != nil {
				t.Fatal(err)
			}
			row := b.AwaitStage(pa.ID, "completed")
			sent, _ := b.Node.Sent(pa.Invoice.Hash)
			if *row.FeeMsat != int64(sent.Present.Fee) {
				t.Errorf("a fee of %d is booked, it was %d", *row.FeeMsat, sent.Present.Fee)
			}
			// What the receiver gave back is nobody's any more: its payer has paid, and the receiver was.
			back := 70_000 - int64(b.wallet.Receiver.Receipt(pa.Invoice.Hash).Received)
			b.WantBalance(ledger.RewardSats, rewards+27_000+3_000-*row.FeeMsat+back)
			b.WantBalance(ledger.RoutingSats, 0)
			b.wantSound()
		})
	}
}

// The same where the process that sent it dies before it heard of the settled part: whoever asks the node instead goes on at once too.
func TestASettledPartIsEnoughForAnotherProcess(t *testing.T) {
	b := setup(t)
	b.wallet.Ask.Act = simnode.Splits
	pa := b.zap()
	b.pay(pa)
	ctx, die := context.WithCancel(b.Ctx)
	b.Node.After(simnode.MethodPay, func(paidaction.Hash) { die() })
	if err := b.Relay.Run(ctx, b.Engine.Advance); err != nil {
		t.Fatal(err)
	}
	if state := b.Look(pa.ID).State; state != paidaction.Forwarding {
		t.Fatalf("the process has come to %s", state)
	}
	b.Run(b.NewRelay())
	b.Await(pa.ID, paidaction.Paid)
	b.wantOuter(pa, paidaction.InvoiceSettled)
	if row := b.AwaitStage(pa.ID, "pending_confirmation"); row.FeeMsat != nil {
		t.Errorf("a fee of %d is booked while a part hangs", *row.FeeMsat)
	}
	if err := b.wallet.Receiver.Settle(pa.Invoice.Hash); err != nil {
		t.Fatal(err)
	}
	b.AwaitStage(pa.ID, "completed")
	b.wantSound()
}

// A receiver settles one part, and gives the others back: by the preimage they were paid. What left our node is booked, and what came
// back goes where the unused budget goes; a payer by balance has it back.
func TestAReceiverTakesOnlyAPart(t *testing.T) {
	t.Run("of a forward", func(t *testing.T) {
		b := setup(t)
		b.wallet.Ask.Act = simnode.TakesPart
		rewards := b.Balance(ledger.RewardSats)
		pa := b.zap()
		b.pay(pa)
		b.Run(b.Relay)
		b.Await(pa.ID, paidaction.Paid)
		b.AwaitStage(pa.ID, "completed")
		b.wantReceived(pa, 35_000)
		b.wantOuter(pa, paidaction.InvoiceSettled)
		b.WantBalance(ledger.RewardSats, rewards+27_000+2_500+35_000)
		b.WantBalance(ledger.RoutingSats, 0)
		b.wantLeft(pa, 35_500)
		b.wantSound()
	})
	t.Run("of a withdrawal", func(t *testing.T) {
		b := setup(t).rich(100)
		inv := b.issue(simnode.Ask{Amount: 50_000, Act: simnode.TakesPart, Parts: 4})
		pa := b.withdraw(inv.Bolt11)
		b.Run(b.Relay)
		b.Await(pa.ID, paidaction.Paid)
		b.wantPaidOut(inv.Hash, 12_500)
		b.wantSats(100_000 - 12_500 - 250)
		b.wantLeft(pa, 12_750)
		b.wantSound()
	})
}

// wantLeft fails the test unless so much was booked as having left our nodes.
func (b *bundle) wantLeft(pa *paidaction.PaidAction, want int64) {
	b.Helper()
	if n := b.Count(`SELECT coalesce(sum(msat), 0) FROM posting WHERE action_id = $1 AND to_account = 0`, pa.ID); n != want {
		b.Errorf("%d msat are booked as having left, want %d", n, want)
	}
}

// Spec 05.16d: a worker is stopped between its claim and its send. Others find that the node does not know the payment, it is sent
// again, refused, and the payer has their money back. Then the worker goes on.
func TestAStoppedWorkerSendsNothingLater(t *testing.T) {
	for name, stoppedAt := range map[string]simnode.Method{"before it looks": simnode.MethodTrack, "on its way to the node": simnode.MethodPay} {
		t.Run(name, func(t *testing.T) {
			b := setup(t)
			b.wallet.Ask.Act = simnode.Refuses
			pa := b.zap()
			b.pay(pa)
			stopped, goOn, gone := make(chan struct{}), make(chan struct{}), make(chan struct{})
			// Nobody but the worker asks for anything yet: there is no auditor beside it.
			b.Node.Before(stoppedAt, func(paidaction.Hash) { close(stopped); <-goOn; close(gone) })
			ctx, end := context.WithCancel(b.Ctx)
			slow, late := b.NewRelay(), sync.WaitGroup{}
			late.Go(func() { _, _ = slow.Step(ctx, b.Node.Name(), b.Engine.Advance) })
			release := sync.OnceFunc(func() { close(goOn) })
			t.Cleanup(func() { release(); end(); late.Wait() })
			<-stopped
			b.Clock.Advance(over)
			b.Run(b.NewRelay())
			b.Await(pa.ID, paidaction.Failed)
			b.wantOuter(pa, paidaction.InvoiceCanceled)
			sent := len(b.Node.Payments())
			b.wallet.Receiver.Change(pa.Invoice.Hash, simnode.Pays) // had it been sent now, it would arrive
			release()
			<-gone
			end()
			late.Wait()
			b.rounds(2)
			b.wantReceived(pa, 0)
			if n := len(b.Node.Payments()); n != sent {
				t.Errorf("%d payments, %d before", n, sent)
			}
			b.WantState(pa.ID, paidaction.Failed)
			b.wantSound()
		})
	}
}

// A worker that is stopped right after it has looked at the clock, and found that there was time left to send, sends
// nothing either once that time is over.
func TestAWorkerThatIsStoppedAtTheClockSendsNothingLater(t *testing.T) {
	const window = time.Second // passes, as it does not for the clock that stands still
	b := setup(t).rich(100)
	inv := b.issue(simnode.Ask{Amount: 50_000, Act: simnode.Refuses})
	pa := b.withdraw(inv.Bolt11)
	stopped, goOn := make(chan struct{}), make(chan struct{})
	var looked atomic.Bool // at what the node has, which is the last thing before the clock
	b.Node.After(simnode.MethodTrack, func(paidaction.Hash) { looked.Store(true) })
	slow, late := b.NewRelay(func(c *relay.Config) {
		c.Settings.SendWindow = window
		c.Now = func() time.Time {
			now := b.Clock.Now()
			if looked.Swap(false) {
				close(stopped)
				<-goOn
			}
			return now
		}
	}), sync.WaitGroup{}
	late.Go(func() { _, _ = slow.Step(b.Ctx, b.Node.Name(), b.Engine.Advance) })
	release := sync.OnceFunc(func() { close(goOn) })
	t.Cleanup(func() { release(); late.Wait() })
	<-stopped
	over, done := context.WithTimeout(b.Ctx, window)
	defer done()
	b.Clock.Advance(time.Minute)
	stop := b.Run(b.NewRelay())
	b.Await(pa.ID, paidaction.Failed)
	stop()
	b.wallet.Receiver.Change(inv.Hash, simnode.Pays)
	<-over.Done()
	release()
	late.Wait()
	b.rounds(2)
	b.wantPaidOut(inv.Hash, 0)
	b.wantSats(100_000)
	b.wantSound()
}

// A node whose clock is behind hears a worker for longer that was stopped on its way to it: the claim stands until that clock, too, has come to the send's end.
func TestAStoppedWorkerMaySendForAsLongAsTheNodeHearsIt(t *testing.T) {
	b := setup(t)
	b.wallet.Ask.Act = simnode.Refuses
	b.Node.SetAhead(-5 * time.Minute)
	pa := b.zap()
	b.pay(pa)
	stopped, goOn := make(chan struct{}), make(chan struct{})
	b.Node.Before(simnode.MethodPay, func(paidaction.Hash) { close(stopped); <-goOn })
	slow, late := b.NewRelay(), sync.WaitGroup{}
	late.Go(func() { _, _ = slow.Step(b.Ctx, b.Node.Name(), b.Engine.Advance) })
	release := sync.OnceFunc(func() { close(goOn) })
	t.Cleanup(func() { release(); late.Wait() })
	<-stopped
	b.Clock.Advance(over)
	b.Run(b.NewRelay())
	b.rounds(3)
	if n := b.Count(`SELECT count(*) FROM relay_attempt WHERE outcome IS NOT NULL`); n != 0 {
		b.Errorf("the claim has ended, and its worker may still send")
		b.Await(pa.ID, paidaction.Failed)
	}
	b.wallet.Receiver.Change(pa.Invoice.Hash, simnode.Pays)
	release()
	late.Wait()
	b.Await(pa.ID, paidaction.Paid)
	b.AwaitStage(pa.ID, "completed")
	b.wantReceived(pa, 70_000)
	b.wantSound()
}

// Spec 05.16f: what a payer sends too much is theirs, as credits; the receiver gets what their invoice says.
func TestAnOverpaidWrappedZap(t *testing.T) {
	b := setup(t)
	pa := b.zap()
	if err := b.Node.PayHash(pa.Invoice.Hash, simnode.Payment{Msat: 150_000}); err != nil {
		t.Fatal(err)
	}
	b.Advance(pa.ID)
	if got := b.WantState(pa.ID, paidaction.Forwarding).Invoice.Received; got != 150_000 {
		t.Errorf("%d msat are said to have been received", got)
	}
	b.Run(b.Relay)
	b.Await(pa.ID, paidaction.Paid)
	b.AwaitStage(pa.ID, "completed")
	b.wantReceived(pa, 70_000)
	b.WantBalance(ledger.UserCredits(b.payer), 50_000)
	b.wantSound()
}

// Spec 05.16f: the part that expires first bounds the receiver's; parts that went back meanwhile do not.
func TestTheEarliestHeldPartBoundsTheForward(t *testing.T) {
	b := setup(t)
	pa := b.zap()
	h, height, delta := pa.Invoice.Hash, b.Node.Height(), b.outer(pa).Request.CLTVDelta
	gone, err := b.Node.AddPart(h, 1_000, 100_000, height+delta+1)
	if err == nil {
		err = b.Node.CancelPart(h, gone)
	}
	if err == nil {
		err = b.Node.PayHash(h, simnode.Payment{ExpiryHeights: []uint32{height + delta + 90, height + delta + 1}})
	}
	if err != nil {
		t.Fatal(err)
	}
	b.Advance(pa.ID)
	b.Run(b.Relay)
	b.Await(pa.ID, paidaction.Paid)
	sent, _ := b.Node.Sent(h)
	if want := delta + 1 - 80; sent.Request.CLTVLimit != want {
		t.Errorf("the receiver may lock the money for %d blocks, want %d", sent.Request.CLTVLimit, want)
	}
	b.AwaitStage(pa.ID, "completed")
	b.wantSound()
}

// The invoice is paid while the node's answer is still on its way. That it comes too late to be handed out gives nothing back.
func TestAnInvoiceThatIsPaidBeforeItIsHandedOut(t *testing.T) {
	b := setup(t)
	b.wallet.Ask.Act = simnode.Holds
	b.Run(b.Relay)
	var id int64
	b.Node.After(simnode.MethodOpen, func(h paidaction.Hash) {
		if err := b.Node.PayHash(h, simnode.Payment{}); err != nil {
			t.Error(err)
		}
		id = b.Count(`SELECT action_id FROM invoice WHERE payment_hash = $1`, h[:])
		b.Advance(id)
		b.await("the payment to be held by the receiver", func() bool { return b.wallet.Receiver.Receipt(h).Held == 70_000 })
	})
	pa, err := b.Try(b.payer, community.KindZap, community.ZapArgs{Item: b.item, Sats: 100}, paidaction.P2P, "")
	if err != nil || pa.ID != id || pa.State != paidaction.Forwarding || pa.Invoice.Bolt11 != "" {
		t.Fatalf("%+v, %v", pa, err)
	}
	if err := b.wallet.Receiver.Settle(pa.Invoice.Hash); err != nil {
		t.Fatal(err)
	}
	b.Await(id, paidaction.Paid)
	b.AwaitStage(id, "completed")
	b.wantOuter(pa, paidaction.InvoiceSettled)
	b.wantReceived(pa, 70_000)
	b.WantBalance(ledger.LossSats, 0)
	b.wantSound()
}

// A payer who locks money for longer than asked gives the receiver's route no more room.
func TestAPayerWhoLocksForLongerGivesNoMoreRoom(t *testing.T) {
	for name, longer := range map[string]bool{"by the way that was probed": false, "by a way that became longer": true} {
		t.Run(name, func(t *testing.T) {
			b := setup(t)
			b.wallet.Ask.Act = simnode.Holds
			pa := b.zap()
			h, delta := pa.Invoice.Hash, b.outer(pa).Request.CLTVDelta
			if longer {
				b.Node.SetRoute(simnode.Route{Fee: 1_000, Blocks: 1_000})
			}
			if err := b.Node.PayHash(h, simnode.Payment{ExpiryHeights: []uint32{b.Node.Height() + 2_000}}); err != nil {
				t.Fatal(err)
			}
			b.Advance(pa.ID)
			b.Run(b.Relay)
			if !longer {
				b.awaitHeld(pa)
				if sent, _ := b.Node.Sent(h); sent.Request.CLTVLimit > delta-77 {
					t.Errorf("the receiver may lock the money for %d blocks, and the payer was asked for %d", sent.Request.CLTVLimit, delta)
				}
				if err := b.wallet.Receiver.Settle(h); err != nil {
					t.Fatal(err)
				}
				b.Await(pa.ID, paidaction.Paid)
				b.AwaitStage(pa.ID, "completed")
				b.wantSound()
				return
			}
			b.Await(pa.ID, paidaction.Failed)
			b.wantOuter(pa, paidaction.InvoiceCanceled)
			b.wantReceived(pa, 0)
			b.WantBalance(ledger.LossSats, 0)
			b.wantSound()
		})
	}
}

// A receiver who pays themselves knows the preimage, and pays by keysend. To that they could add parts: LND gives all of it
// back for one that expires soon, and counts one that went back on chain. So nothing is paid on for it.
func TestWhatIsPaidByKeysendIsNotPaidOn(t *testing.T) {
	b := setup(t)
	pa := b.zap()
	h := pa.Invoice.Hash
	if err := b.Node.Keysend(b.wallet.Receiver.Preimage(h), 100_000, b.Node.Height()+2_000); err != nil {
		t.Fatal(err)
	}
	b.Advance(pa.ID)
	b.Run(b.Relay)
	b.Await(pa.ID, paidaction.Failed)
	if _, sent := b.Node.Sent(h); sent {
		t.Error("the receiver's invoice was paid")
	}
	if why := b.Look(pa.ID).Failure; why == nil || why.Code != paidaction.CodePaymentFailed {
		t.Errorf("the payer is told %v", why)
	}
	b.wantOuter(pa, paidaction.InvoiceCanceled)
	b.wantReceived(pa, 0)
	b.WantBalance(ledger.LossSats, 0)
	b.wantSound()
}

// Spec 05.16h: the settling's job is lost, and with it the process. The sweep settles.
func TestALostSettleJobIsMadeUpForByTheSweep(t *testing.T) {
	b := setup(t)
	pa := b.zap()
	b.pay(pa)
	b.Node.FailBefore(simnode.MethodSettle, 1_000_000)
	stop := b.Run(b.Relay)
	b.Await(pa.ID, paidaction.Forwarded)
	stop()
	if _, err := b.Pool.Exec(b.Ctx, `DELETE FROM test_job`); err != nil {
		t.Fatal(err)
	}
	b.Node.FailBefore(simnode.MethodSettle, 0)
	if _, err := b.Engine.Sweep(b.Ctx); err != nil {
		t.Fatal(err)
	}
	b.WantState(pa.ID, paidaction.Paid)
	b.wantOuter(pa, paidaction.InvoiceSettled)
	b.AwaitStage(pa.ID, "completed")
	b.wantSound()
}

// A transaction that PostgreSQL breaks to resolve a conflict is run again at once, and counted: without it the payer would wait for their money, and another node for
// the payment, until nothing can be sent under the claim any more.
func TestAConflictIsNoEndOfAClaim(t *testing.T) {
	for name, code := range map[string]string{"a deadlock": "40P01", "a serialisation failure": "40001"} {
		t.Run(name, func(t *testing.T) {
			b := setup(t)
			if _, err := b.Pool.Exec(b.Ctx, `CREATE SEQUENCE broken;
				CREATE FUNCTION breaks() RETURNS trigger LANGUAGE plpgsql AS $$
				BEGIN
					IF nextval('broken') <= 2 THEN
						RAISE EXCEPTION 'a conflict' USING ERRCODE = '`+code+`';
					END IF;
					RETURN NEW;
				END $$;
				CREATE TRIGGER breaks BEFORE UPDATE OF stage ON relay_payment FOR EACH ROW WHEN (NEW.stage = 'failed') EXECUTE FUNCTION breaks()`); err != nil {
				t.Fatal(err)
			}
			var counted []string
			r := b.NewRelay(func(c *relay.Config) { c.Conflict = func(code string) { counted = append(counted, code) } })
			b.wallet.Ask.Act = simnode.Refuses
			pa := b.zap()
			b.pay(pa)
			if more, err := r.Step(b.Ctx, b.Node.Name(), b.Engine.Advance); !more || err != nil {
				t.Fatal(more, err)
			}
			b.WantState(pa.ID, paidaction.Failed)
			if !slices.Equal(counted, []string{code, code}) {
				t.Errorf("counted %q", counted)
			}
			b.wantSound()
		})
	}
}

// Spec 05.7: what is not above zero is neither zapped nor withdrawn.
func TestNoNegativeAmountLeaves(t *testing.T) {
	b := setup(t)
	b.payer = b.User("rich", 0, 1_000_000)
	for _, args := range []community.WithdrawArgs{
		{To: "1@holdfast.example", Sats: new(int64(-5)), MaxFeeSats: 1}, {To: "1@holdfast.example", Sats: new(int64(0)), MaxFeeSats: 1},
		{To: "1@holdfast.example", Sats: new(int64(5)), MaxFeeSats: -1_000_000}, {To: "1@holdfast.example", Sats: new(int64(1 << 62)), MaxFeeSats: 1},
		{To: "1@holdfast.example", Sats: new(int64(5)), MaxFeeSats: 1 << 62},
	} {
		_, err := b.Try(b.payer, community.KindWithdraw, args, "", "")
		b.WantRefusal(err, paidaction.CodeInvalidAmount)
	}
	_, err := b.Try(b.payer, community.KindZap, community.ZapArgs{Item: b.item, Sats: -1}, paidaction.P2P, "")
	b.WantRefusal(err, paidaction.CodeInvalidAmount)
	b.WantBalance(ledger.UserSats(b.payer), 1_000_000)
	if n := len(b.wallet.Issued); n != 0 {
		t.Errorf("%d invoices were asked for", n)
	}
	b.wantSound()
}

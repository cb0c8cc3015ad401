package relay_test

import (
	"context"
	"errors"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/a-seed-a7aed72f/holdfast/lightning/simnode"
	"github.com/a-seed-a7aed72f/holdfast/paidaction"
	"github.com/a-seed-a7aed72f/holdfast/relay"
)

var errAhead = errors.New("the clock is ahead")

// ahead makes the relay of a process whose clock is ahead of all others', which it finds out when it asks.
func (b *bundle) ahead(by time.Duration) *relay.Relay {
	b.Helper()
	return b.NewRelay(func(c *relay.Config) {
		c.Now = func() time.Time { return b.Clock.Now().Add(by) }
		c.ConfirmClock = func(context.Context) error { return errAhead }
	})
}

// A process whose clock is ahead gives up nothing that waits to be sent, neither for its invoice's expiry nor because
// it has waited for long. Another process sends it.
func TestAClockThatIsNotConfirmedGivesUpNothing(t *testing.T) {
	for name, begin := range map[string]func(b *bundle) (*paidaction.PaidAction, time.Duration){
		"a forward whose invoice would have expired": func(b *bundle) (*paidaction.PaidAction, time.Duration) {
			pa := b.zap()
			b.pay(pa)
			return pa, 2 * time.Hour
		},
		"a withdrawal whose invoice would have expired": func(b *bundle) (*paidaction.PaidAction, time.Duration) {
			return b.withdraw(b.issue(simnode.Ask{Amount: 50_000}).Bolt11), 2 * time.Hour
		},
		"a withdrawal that would have waited for long": func(b *bundle) (*paidaction.PaidAction, time.Duration) {
			return b.withdraw(b.issue(simnode.Ask{Amount: 50_000, Expiry: 7 * 24 * time.Hour}).Bolt11), 2 * time.Hour
		},
	} {
		t.Run(name, func(t *testing.T) {
			b := setup(t).rich(100)
			pa, by := begin(b)
			if out, err := b.ahead(by).Proceed(b.Ctx, pa.ID); !errors.Is(err, errAhead) || out.Failure != nil {
				t.Errorf("%+v, %v", out, err)
			}
			b.AwaitStage(pa.ID, "incoming")
			b.Run(b.Relay)
			b.Await(pa.ID, paidaction.Paid)
			b.wantSound()
		})
	}
}

// That the payer's payment has too few blocks left is no matter of the clock: it goes back.
func TestBlocksCountWhateverTheClock(t *testing.T) {
	b := setup(t)
	pa := b.zap()
	b.pay(pa)
	const innerCLTV, padding, margin = 80, 3, 80
	b.Node.Mine(b.outer(pa).NodeInvoice().ExpiryHeight - (innerCLTV + padding + margin) - b.Node.Height())
	if out, err := b.ahead(2*time.Hour).Proceed(b.Ctx, pa.ID); err != nil || out.Failure == nil {
		t.Errorf("%+v, %v", out, err)
	}
	for b.Advance(pa.ID) == paidaction.Moved {
	}
	b.wantOuter(pa, paidaction.InvoiceCanceled)
	b.wantReceived(pa, 0)
	b.wantSound()
}

// Nor does it refuse, as expired, what it is to send: the node would, by its own clock.
func TestAClockThatIsNotConfirmedRefusesNothing(t *testing.T) {
	b := setup(t)
	pa := b.zap()
	b.pay(pa)
	if sent, err := b.ahead(2*time.Hour).Step(b.Ctx, b.Node.Name(), b.Engine.Advance); !sent || err != nil {
		t.Fatal(sent, err)
	}
	b.Await(pa.ID, paidaction.Paid)
	b.wantReceived(pa, 70_000)
	b.wantSound()
}

// Nor does it keep from the next node what the first could not send.
func TestAClockThatIsNotConfirmedLeavesTheNextNodeItsTurn(t *testing.T) {
	b := setup(t, "one", "two").rich(100)
	b.Node.SetIsolated(true)
	pa := b.withdraw(b.issue(simnode.Ask{Amount: 50_000}).Bolt11)
	if sent, err := b.ahead(2*time.Hour).Step(b.Ctx, b.Node.Name(), b.Engine.Advance); !sent || err != nil {
		t.Fatal(sent, err)
	}
	b.AwaitStage(pa.ID, "incoming")
	b.Run(b.Relay)
	b.Await(pa.ID, paidaction.Paid)
	b.wantSound()
}

// What a process puts back whose clock is ahead waits for no clock to come as far.
func TestAPauseByAClockThatIsAheadDoesNotCount(t *testing.T) {
	b := setup(t).rich(100)
	pa := b.withdraw(b.issue(simnode.Ask{Amount: 50_000, Expiry: 24 * time.Hour}).Bolt11)
	b.Node.SetSynced(false)
	if claimed, err := b.ahead(2*time.Hour).Step(b.Ctx, "one", b.Engine.Advance); err != nil || !claimed {
		t.Fatal(claimed, err)
	}
	b.AwaitStage(pa.ID, "incoming")
	b.Node.SetSynced(true)
	if claimed, err := b.Relay.Step(b.Ctx, "one", b.Engine.Advance); err != nil || !claimed {
		t.Fatal(claimed, err)
	}
	b.WantState(pa.ID, paidaction.Paid)
	b.wantSound()
}

// Nor does a withdrawal that hangs, and that such a process has claimed, keep its place for as long from others.
func TestAPlaceThatWasTakenByAClockThatIsAheadIsFree(t *testing.T) {
	b := setup(t).rich(1_000)
	places := func(c *relay.Config) { c.Places = map[string]int{"one": 2} }
	hung := b.issue(simnode.Ask{Amount: 50_000, Act: simnode.Holds})
	b.withdraw(hung.Bolt11)
	stop := b.Run(b.NewRelay(places, func(c *relay.Config) {
		c.Now = func() time.Time { return b.Clock.Now().Add(2 * time.Hour) }
	}))
	b.await("the receiver holds it", func() bool { return b.wallet.Receiver.Receipt(hung.Hash).Held == 50_000 })
	stop()
	pa := b.withdraw(b.issue(simnode.Ask{Amount: 50_000}).Bolt11)
	if claimed, err := b.NewRelay(places).Step(b.Ctx, "one", b.Engine.Advance); err != nil || !claimed {
		t.Fatal(claimed, err)
	}
	b.WantState(pa.ID, paidaction.Paid)
}

// Nor does the engine of such a process refuse the next attempt, its hour being over, nor tell the payer. Another process
// prepares it.
func TestAClockThatIsNotConfirmedRefusesNoNextAttempt(t *testing.T) {
	b := setup(t)
	b.wallet.Ask.Act = simnode.Refuses
	stop := b.Run(b.Relay)
	pa := b.zap()
	b.pay(pa)
	b.Await(pa.ID, paidaction.Failed)
	stop()
	ahead := *b.Engine
	ahead.Now = func() time.Time { return b.Clock.Now().Add(2 * time.Hour) }
	ahead.ConfirmClock = func(context.Context) error { return errAhead }
	if err := ahead.Again(b.Ctx, pa.ID); !errors.Is(err, errAhead) {
		t.Errorf("error %v", err)
	}
	if err := b.Engine.Again(b.Ctx, pa.ID); err != nil {
		t.Fatal(err)
	}
	b.WantState(pa.ID, paidaction.Retrying)
	if n := b.Count(`SELECT count(*) FROM notification WHERE kind = 'PAYMENT_FAILED'`); n != 0 {
		t.Errorf("the payer was told %d times", n)
	}
}

// byItself lets time pass for a relay by the clock that nobody sets, and by no other. What is to end by it does so in real
// time, so it is given an hour.
func byItself() (clock func(*relay.Config), pass func(time.Duration)) {
	began, passed := time.Now(), new(atomic.Int64)
	return func(c *relay.Config) {
		c.Monotonic = func() time.Time { return began.Add(time.Duration(passed.Load())) }
		c.Settings.SendWindow = time.Hour
	}, func(d time.Duration) { passed.Add(int64(d)) }
}

// timed is a node that notes how long its calls may take.
type timed struct {
	paidaction.SendingNode
	read, paid *time.Duration
}

func (n timed) DecodeInvoice(ctx context.Context, bolt11 string) (paidaction.Bolt11, error) {
	end, _ := ctx.Deadline()
	*n.read = time.Until(end)
	return n.SendingNode.DecodeInvoice(ctx, bolt11)
}

func (n timed) Pay(ctx context.Context, r paidaction.PaymentRequest, on func(paidaction.PaymentUpdate) error) error {
	end, _ := ctx.Deadline()
	*n.paid = time.Until(end)
	return n.SendingNode.Pay(ctx, r, on)
}

// A process whose clock is set back after a claim has no more time to send it than any other: a payment that hangs would
// keep its place for as long as the clock was set back.
func TestAClockThatIsSetBackGivesAClaimNoMoreTime(t *testing.T) {
	b := setup(t).rich(100)
	pa := b.withdraw(b.issue(simnode.Ask{Amount: 50_000}).Bolt11)
	var back, read, paid time.Duration
	r := b.NewRelay(func(c *relay.Config) {
		c.Nodes = replaced{c.Nodes, []string{"one"}, "one", func(n paidaction.SendingNode) paidaction.SendingNode { return timed{n, &read, &paid} }}
		c.Now = func() time.Time { return b.Clock.Now().Add(-back) }
		c.Trace = func(ctx context.Context, _ int64) (context.Context, func()) { // it is claimed
			back = time.Hour
			return ctx, func() {}
		}
	})
	if claimed, err := r.Step(b.Ctx, "one", b.Engine.Advance); !claimed || err != nil {
		t.Fatal(claimed, err)
	}
	b.WantState(pa.ID, paidaction.Paid)
	if window := relay.DefaultSettings().SendWindow; read <= 0 || read > window || paid <= 0 || paid > window {
		t.Errorf("its node has %v to read the invoice and %v to take the payment, want at most %v", read, paid, window)
	}
	b.wantSound()
}

// Spec 05.16d: a worker has found nothing at its node, and is stopped before it sends. A payment of the same invoice,
// made by hand, fails there. By the clock of whoever looks then, the worker's time is over; by the node's it is not,
// and it may still send. So the failure counts for nothing.
func TestAFailureBeforeTheNodesClockSaysSoIsNotBelieved(t *testing.T) {
	b := setup(t).rich(100)
	inv := b.issue(simnode.Ask{Amount: 50_000, Act: simnode.Refuses})
	pa := b.withdraw(inv.Bolt11)
	stopped, goOn := make(chan struct{}), make(chan struct{})
	b.Node.Before(simnode.MethodPay, func(paidaction.Hash) { close(stopped); <-goOn })
	var worker sync.WaitGroup
	worker.Go(func() { _, _ = b.Relay.Step(b.Ctx, b.Node.Name(), b.Engine.Advance) })
	<-stopped
	if err := b.Node.Pay(b.Ctx, paidaction.PaymentRequest{Bolt11: inv.Bolt11, FeeLimit: 3_000, Timeout: time.Minute}, func(paidaction.PaymentUpdate) error { return nil }); err != nil {
		t.Error(err)
	}
	auditor := b.NewRelay(func(c *relay.Config) { c.Now = func() time.Time { return b.Clock.Now().Add(over) } })
	if out, err := auditor.Proceed(b.Ctx, pa.ID); err != nil || out.Failure != nil {
		t.Errorf("the auditor says %+v, %v", out, err)
	}
	b.rounds(1)
	b.wallet.Receiver.Change(inv.Hash, simnode.Pays)
	close(goOn)
	worker.Wait()
	b.rounds(1)
	b.WantState(pa.ID, paidaction.Paid)
	b.wantPaidOut(inv.Hash, 50_000)
	b.wantSound()
}

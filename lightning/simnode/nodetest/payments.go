package nodetest

import (
	"errors"
	"testing"
	"time"

	"github.com/a-seed-a7aed72f/holdfast/paidaction"
)

// tooMuch: what a node lacks the balance for it says at once, and leaves to another node.
func tooMuch(_ *testing.T, o *outside) {
	sendable, err := o.node.Sendable(o.ctx)
	o.must(err)
	r := o.request(false)
	r.Amount = sendable + 1_000_000
	updates := o.send(request(o.open(r)))
	o.wantFailed(updates[len(updates)-1], r.Hash, paidaction.ReasonInsufficientBalance)
	o.lookup(r.Hash, paidaction.InvoiceOpen)
}

// inChannels: a node says of its channels what is left in them, and how much of that a payment takes that hangs.
func inChannels(t *testing.T, o *outside) {
	type sum struct {
		local, locked paidaction.Msat
		leaving       int64
	}
	add := func() (all sum) {
		channels, err := o.node.Channels(o.ctx)
		o.must(err)
		for _, c := range channels {
			if c.MostLeaving < 1 || c.MostLeaving > 483 || c.MostLocked <= 0 || c.Local < 0 || c.Locked > c.MostLocked {
				t.Errorf("%+v", c)
			}
			all.local, all.locked, all.leaving = all.local+c.Local, all.locked+c.Locked, all.leaving+c.Leaving
		}
		return all
	}
	until := func(what string, holds func(sum) bool) (now sum) {
		t.Helper()
		again := time.NewTicker(20 * time.Millisecond) // channels are a moment behind what is said of payments
		defer again.Stop()
		for now = add(); !holds(now); now = add() {
			select {
			case <-again.C:
			case <-o.ctx.Done():
				t.Fatalf("%s: %+v", what, now)
			}
		}
		return now
	}
	before := until("nothing is under way", func(now sum) bool { return now.leaving == 0 && now.locked == 0 && now.local > 0 })
	r := o.request(true)
	o.under(request(o.open(r)))
	o.await(r.Hash, paidaction.InvoiceAccepted)
	now := until("it leaves", func(now sum) bool { return now.leaving > 0 })
	if now.leaving != 1 || now.locked < amount-amount%1000 || now.locked > 2*amount || now.local > before.local-now.locked {
		t.Errorf("%+v, and before %+v", now, before)
	}
	o.must(o.Node().CancelInvoice(o.ctx, r.Hash))
	o.wantFailed(o.track(r.Hash), r.Hash, paidaction.ReasonIncorrectDetails)
	until("it is back", func(now sum) bool { return now == before })
}

// listed: whoever has lost their records finds every payment that was made or is under way, and none that failed.
func listed(t *testing.T, o *outside) {
	made, under, failed := o.request(false), o.request(true), o.request(false)
	begun := time.Now().Add(-time.Hour) // the clocks of both may differ
	o.send(request(o.open(made)))
	o.under(request(o.open(under)))
	o.await(under.Hash, paidaction.InvoiceAccepted)
	bolt11 := o.open(failed)
	o.must(o.Node().CancelInvoice(o.ctx, failed.Hash))
	o.send(request(bolt11))
	list := func(since time.Time) map[paidaction.Hash]paidaction.PaymentUpdate {
		all := map[paidaction.Hash]paidaction.PaymentUpdate{}
		o.must(o.node.EachPayment(o.ctx, since, func(u paidaction.PaymentUpdate, created time.Time) error {
			if created.Before(begun) && since.After(begun) {
				t.Errorf("of %v: %+v", created, u)
			}
			if u.Paid != 0 || u.Fee != 0 {
				t.Errorf("the list says what %s cost: %+v", u.Hash, u)
			}
			all[u.Hash] = u
			return nil
		}))
		return all
	}
	all := list(begun)
	if u := all[made.Hash]; u.State != paidaction.PaymentSucceeded || u.Amount != amount || u.Preimage == nil || *u.Preimage != made.Preimage {
		t.Errorf("made: %+v", u)
	}
	if u := all[under.Hash]; u.State != paidaction.PaymentInFlight || u.Amount != amount || u.Preimage != nil {
		t.Errorf("under way: %+v", u)
	}
	if u, ok := all[failed.Hash]; ok {
		t.Errorf("failed: %+v", u)
	}
	if later := list(time.Now().Add(24 * time.Hour)); len(later) > 0 {
		t.Errorf("of tomorrow: %v", later)
	}
	mine := errors.New("mine")
	if err := o.node.EachPayment(o.ctx, begun, func(paidaction.PaymentUpdate, time.Time) error { return mine }); !errors.Is(err, mine) {
		t.Errorf("the caller's error became %v", err)
	}
	o.must(o.Node().CancelInvoice(o.ctx, under.Hash))
	o.wantFailed(o.track(under.Hash), under.Hash, paidaction.ReasonIncorrectDetails)
}

// sentOverRestart: what was under way is under way when the node comes back. It is not sent again, and its end is told
// to whoever asks then.
func sentOverRestart(t *testing.T, o *outside) {
	taken, given := o.request(true), o.request(true)
	payments := map[paidaction.Hash]paidaction.PaymentRequest{}
	for _, r := range []paidaction.InvoiceRequest{taken, given} {
		payments[r.Hash] = request(o.open(r))
		o.under(payments[r.Hash])
		o.await(r.Hash, paidaction.InvoiceAccepted)
	}
	o.must(o.env.Restart(o.ctx))
	for h, pay := range payments {
		if now, err := paidaction.PresentPayment(o.ctx, o.node, h); err != nil || now.State != paidaction.PaymentInFlight || now.Preimage != nil {
			t.Fatalf("%+v, %v", now, err)
		}
		if err := o.node.Pay(o.ctx, pay, ignore); !errors.Is(err, paidaction.ErrPaymentExists) {
			t.Fatalf("sent again: %v", err)
		}
	}
	o.must(o.Node().SettleInvoice(o.ctx, taken.Preimage))
	o.must(o.Node().CancelInvoice(o.ctx, given.Hash))
	if u := o.track(taken.Hash); u.State != paidaction.PaymentSucceeded || u.Preimage == nil || *u.Preimage != taken.Preimage || u.Fee <= 0 {
		t.Fatalf("%+v", u)
	}
	o.wantFailed(o.track(given.Hash), given.Hash, paidaction.ReasonIncorrectDetails)
	if v := o.lookup(taken.Hash, paidaction.InvoiceSettled); v.Received != amount {
		t.Fatalf("the receiver has %+v", v)
	}
}

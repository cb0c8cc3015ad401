package simnode_test

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/a-seed-a7aed72f/holdfast/lightning/simnode"
	"github.com/a-seed-a7aed72f/holdfast/paidaction"
)

func TestCallsOfPaymentsThatFail(t *testing.T) {
	w := newTown(t)
	inv := w.carol.Issue(ask(simnode.Pays))
	w.alice.FailBefore(simnode.MethodPay, 1)
	if err := w.alice.Pay(t.Context(), pay(inv.Bolt11), ignore); !errors.Is(err, simnode.ErrUnavailable) {
		t.Fatal(err)
	}
	w.wantReceipt(inv.Hash, simnode.Receipt{})
	w.alice.FailAfter(simnode.MethodPay, 1)
	if err := w.alice.Pay(t.Context(), pay(inv.Bolt11), ignore); !errors.Is(err, simnode.ErrAnswerLost) {
		t.Fatal(err)
	}
	w.wantReceipt(inv.Hash, simnode.Receipt{Received: sum, Payments: 1})
	if n := w.alice.Count(simnode.MethodPay, inv.Hash); n != 1 {
		t.Errorf("%d calls have reached the node", n)
	}
	w.alice.SetAway(true)
	for name, err := range map[string]error{
		"track":    w.alice.TrackPayment(t.Context(), inv.Hash, ignore),
		"decode":   second(w.alice.DecodeInvoice(t.Context(), inv.Bolt11)),
		"estimate": second(w.alice.EstimateRoute(t.Context(), way(inv.Bolt11))),
		"sendable": second(w.alice.Sendable(t.Context())),
		"key":      second(w.alice.PublicKey(t.Context())),
	} {
		if !errors.Is(err, simnode.ErrUnavailable) {
			t.Errorf("%s: %v", name, err)
		}
	}
	w.alice.SetAway(false)
	w.want(w.alice, inv.Hash, paidaction.PaymentSucceeded, "")
}

func second[T any](_ T, err error) error { return err }

// spec 05.16d: a caller that was stopped on the way to the node, and goes on when the claim is over, sends nothing.
func TestACallAfterItsDeadlineSendsNothing(t *testing.T) {
	w := newTown(t)
	inv := w.carol.Issue(ask(simnode.Pays))
	ctx, cancel := context.WithTimeout(t.Context(), 10*time.Minute)
	defer cancel()
	w.alice.Before(simnode.MethodPay, func(paidaction.Hash) { w.now = w.now.Add(11 * time.Minute) })
	if err := w.alice.Pay(ctx, pay(inv.Bolt11), ignore); !errors.Is(err, simnode.ErrTooLate) {
		t.Fatal(err)
	}
	if err := w.alice.TrackPayment(t.Context(), inv.Hash, ignore); !errors.Is(err, paidaction.ErrPaymentNotFound) {
		t.Fatal(err)
	}
	w.wantReceipt(inv.Hash, simnode.Receipt{})
	// The node judges by its own clock.
	w.alice.SetAhead(11 * time.Minute)
	if err := w.alice.Pay(ctx, pay(inv.Bolt11), ignore); !errors.Is(err, simnode.ErrTooLate) {
		t.Fatal(err)
	}
	w.alice.SetAhead(0)
	w.alice.Before(simnode.MethodPay, func(paidaction.Hash) { w.now = w.now.Add(9 * time.Minute) })
	w.give(w.alice, pay(inv.Bolt11))
	w.wantReceipt(inv.Hash, simnode.Receipt{Received: sum, Payments: 1})
}

// A part that came back is no reason yet: the payment has one only at its end, and none if anything was taken.
func TestAPaymentUnderWayHasNotFailed(t *testing.T) {
	w := newTown(t)
	a := ask(simnode.TakesPart)
	a.Parts = 3
	inv := w.carol.Issue(a)
	if err := w.alice.Pay(t.Context(), pay(inv.Bolt11), func(u paidaction.PaymentUpdate) error {
		if u.Failure != "" {
			t.Errorf("%+v", u)
		}
		return nil
	}); err != nil {
		t.Fatal(err)
	}
	w.want(w.alice, inv.Hash, paidaction.PaymentSucceeded, "")
}

func TestANodeThatHangs(t *testing.T) {
	w := newTown(t)
	inv := w.carol.Issue(ask(simnode.Pays))
	w.alice.SetHung(true)
	ctx, cancel := context.WithCancel(t.Context())
	w.alice.Before(simnode.MethodPay, func(paidaction.Hash) { cancel() })
	if err := w.alice.Pay(ctx, pay(inv.Bolt11), ignore); !errors.Is(err, context.Canceled) {
		t.Fatal(err)
	}
	if _, ok := w.alice.Sent(inv.Hash); ok {
		t.Error("it was sent after its caller had gone")
	}
	short, cancel := context.WithTimeout(t.Context(), time.Millisecond)
	defer cancel()
	if _, err := w.alice.Sendable(short); !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("it answers: %v", err)
	}
	waiting, paid := make(chan struct{}), make(chan error)
	w.alice.Before(simnode.MethodPay, func(paidaction.Hash) { close(waiting) })
	go func() { paid <- w.alice.Pay(t.Context(), pay(inv.Bolt11), ignore) }()
	<-waiting
	w.alice.SetHung(false)
	if err := <-paid; err != nil {
		t.Fatal(err)
	}
	w.wantReceipt(inv.Hash, simnode.Receipt{Received: sum, Payments: 1})
}

// updates follows a payment in the background. The returned function waits for the end of the payment.
func (w *town) updates(h paidaction.Hash) func() ([]paidaction.PaymentUpdate, error) {
	tracked, ended := make(chan struct{}), make(chan error, 1)
	var all []paidaction.PaymentUpdate
	w.alice.After(simnode.MethodTrack, func(paidaction.Hash) { close(tracked) })
	go func() {
		ended <- w.alice.TrackPayment(context.Background(), h, func(u paidaction.PaymentUpdate) error {
			all = append(all, u)
			return nil
		})
	}()
	<-tracked
	return func() ([]paidaction.PaymentUpdate, error) {
		err := <-ended
		return all, err
	}
}

func TestUpdatesLateRepeatedDropped(t *testing.T) {
	w := newTown(t)
	inv := w.carol.Issue(ask(simnode.Holds))
	w.alice.HoldEvents()
	w.alice.RepeatEvents(1)
	paid := make(chan error)
	reached := make(chan struct{})
	w.alice.After(simnode.MethodPay, func(paidaction.Hash) { close(reached) })
	go func() { paid <- w.alice.Pay(context.Background(), pay(inv.Bolt11), ignore) }()
	<-reached
	late := w.updates(inv.Hash)
	if err := w.carol.Settle(inv.Hash); err != nil {
		t.Fatal(err)
	}
	select {
	case err := <-paid:
		t.Fatalf("an update came in spite of all: %v", err)
	default:
	}
	w.alice.ReleaseEvents(nil)
	if err := <-paid; err != nil {
		t.Fatal(err)
	}
	all, err := late()
	if err != nil || len(all) != 3 || all[0] != all[1] || all[0].State != paidaction.PaymentInFlight ||
		all[2].State != paidaction.PaymentSucceeded {
		t.Fatalf("%v %+v", err, all)
	}
	other := w.carol.Issue(ask(simnode.Holds))
	w.give(w.alice, pay(other.Bolt11))
	dropped := w.updates(other.Hash)
	w.alice.DropStreams()
	if _, err := dropped(); !errors.Is(err, simnode.ErrStreamLost) {
		t.Fatal(err)
	}
	w.want(w.alice, other.Hash, paidaction.PaymentInFlight, "")
}

// spec 05.16e: what such a node says of earlier payments is worthless.
func TestANodeThatLosesItsData(t *testing.T) {
	unknown := func(w *town, h paidaction.Hash) {
		w.Helper()
		if err := w.alice.TrackPayment(w.Context(), h, ignore); !errors.Is(err, paidaction.ErrPaymentNotFound) {
			w.Errorf("tracked: %v", err)
		}
	}
	for name, c := range map[string]struct {
		lose   func(*simnode.Node, simnode.Backup)
		before func(*town, paidaction.Hash) // what it says of a payment from before the backup, that was held then
		sameID bool
	}{
		"wiped":    {func(n *simnode.Node, _ simnode.Backup) { n.Wipe() }, unknown, true},
		"replaced": {func(n *simnode.Node, _ simnode.Backup) { n.Replace() }, unknown, false},
		"restored": {(*simnode.Node).Restore, func(w *town, h paidaction.Hash) {
			w.want(w.alice, h, paidaction.PaymentInFlight, "")
		}, true},
	} {
		t.Run(name, func(t *testing.T) {
			w := newTown(t)
			own := request(1, true)
			open(t, w.alice, own)
			key, _ := w.alice.PublicKey(t.Context())
			held, later := w.carol.Issue(ask(simnode.Holds)), w.carol.Issue(ask(simnode.Holds))
			w.give(w.alice, pay(held.Bolt11))
			backup := w.alice.Backup()
			w.give(w.alice, pay(later.Bolt11))
			if err := w.carol.Settle(held.Hash); err != nil {
				t.Fatal(err)
			}
			if err := w.alice.CancelInvoice(t.Context(), own.Hash); err != nil {
				t.Fatal(err)
			}
			c.lose(w.alice, backup)
			if got, _ := w.alice.PublicKey(t.Context()); (got == key) != c.sameID {
				t.Errorf("its key was %s and is %s", key, got)
			}
			c.before(w, held.Hash)
			unknown(w, later.Hash)
			if name == "restored" {
				wantState(t, w.alice, own.Hash, paidaction.InvoiceOpen)
			}
			// What was in flight goes on without it, and payments that it does not know it makes again.
			w.carol.Change(later.Hash, simnode.Unsteady)
			w.give(w.alice, pay(later.Bolt11))
			if err := w.carol.Settle(later.Hash); err != nil {
				t.Fatal(err)
			}
			w.want(w.alice, later.Hash, paidaction.PaymentInFlight, "")
			w.carol.Change(later.Hash, simnode.Pays)
			w.net.Tick()
			w.want(w.alice, later.Hash, paidaction.PaymentSucceeded, "")
			w.wantReceipt(later.Hash, simnode.Receipt{Received: 2 * sum, Payments: 2})
		})
	}
}

func TestNodesThatSend(t *testing.T) {
	w := newTown(t)
	nodes := simnode.Nodes{w.alice, w.bob}
	if names := nodes.Names(); len(names) != 2 || names[1] != "bob" {
		t.Error(names)
	}
	if n, err := nodes.Sender("bob"); err != nil || n != paidaction.SendingNode(w.bob) {
		t.Error(n, err)
	}
	if n, err := nodes.Sender("carol"); n != nil || !errors.Is(err, paidaction.Refused(paidaction.CodeLightningUnavailable)) {
		t.Error(n, err)
	}
	if n, err := nodes.Node("carol"); n != nil || err == nil {
		t.Error(n, err)
	}
}

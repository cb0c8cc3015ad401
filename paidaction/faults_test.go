package paidaction_test

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"testing"
	"time"

	"github.com/jackc/pgx/v5/pgconn"

	"github.com/a-seed-a7aed72f/holdfast/community"
	"github.com/a-seed-a7aed72f/holdfast/internal/enginetest"
	"github.com/a-seed-a7aed72f/holdfast/internal/pgtest"
	"github.com/a-seed-a7aed72f/holdfast/ledger"
	"github.com/a-seed-a7aed72f/holdfast/lightning/simnode"
	"github.com/a-seed-a7aed72f/holdfast/paidaction"
)

// anonymousPost begins a post by somebody who is not signed in.
func anonymousPost(w *enginetest.World, title string) *paidaction.PaidAction {
	w.Helper()
	return w.Pay(0, community.KindItemCreate, community.ItemCreateArgs{Title: title}, "")
}

// spec 05.1 and 01 §1.5: what cannot be performed is not settled; the payer's payment comes back.
func TestPerformRefusedGivesTheMoneyBack(t *testing.T) {
	t.Parallel()
	w := enginetest.New(t, paidaction.Settings{})
	first, second := anonymousPost(w, "the same"), anonymousPost(w, "the same")
	pay(w, first, simnode.Payment{})
	pay(w, second, simnode.Payment{})
	w.Advance(first.ID)
	w.Advance(second.ID)
	w.WantState(second.ID, paidaction.Canceling)
	w.Drain()
	w.WantState(first.ID, paidaction.Paid)
	pa := w.WantState(second.ID, paidaction.Failed)
	if pa.Failure.Code != paidaction.CodeDuplicate {
		t.Errorf("failure %v", pa.Failure)
	}
	inv, _ := w.Node.Inspect(second.Invoice.Hash)
	if inv.State != paidaction.InvoiceCanceled || w.Node.Count(simnode.MethodSettle, second.Invoice.Hash) != 0 {
		t.Errorf("the node says %s", inv.State)
	}
	if n := w.Count(`SELECT count(*) FROM item`); n != 1 {
		t.Errorf("%d items", n)
	}
	w.WantConserved()
}

// broken is an action whose own code fails in a way of the test's choosing.
type broken struct {
	paidaction.Base[struct{}, struct{}]
	perform func(tx *paidaction.Tx) error
	price   *paidaction.Msat
	off     paidaction.Msat // how much more than the price it hands out
}

func (broken) Spec() paidaction.Spec {
	return paidaction.Spec{Kind: "BROKEN", Anonable: true, Methods: []paidaction.Method{paidaction.FeeCredit, paidaction.Pessimistic}}
}
func (b broken) Cost(context.Context, *paidaction.Tx, struct{}) (paidaction.Msat, error) {
	return *b.price, nil
}
func (b broken) Perform(_ context.Context, tx *paidaction.Tx, _ struct{}) (struct{}, error) {
	return struct{}{}, b.perform(tx)
}
func (b broken) OnPaid(_ context.Context, tx *paidaction.Tx, _, _ struct{}) error {
	return tx.Pay(ledger.Rewards(tx.Asset()), tx.Cost+b.off, "test")
}
func (broken) Describe(struct{}) string { return "a test" }

// spec 05.14: an error of the database in the action's own code is neither "another worker won" nor a reason to keep the
// payer's money waiting.
func TestFaultInPerformGivesTheMoneyBackAndIsReported(t *testing.T) {
	t.Parallel()
	w := enginetest.New(t, paidaction.Settings{}, paidaction.Define(broken{price: new(paidaction.Msat(sat)), perform: func(tx *paidaction.Tx) error {
		_, err := tx.DB.GetItem(context.Background(), -1)
		return err
	}}))
	pa := w.Pay(0, "BROKEN", struct{}{}, "")
	pay(w, pa, simnode.Payment{})
	if p := w.Advance(pa.ID); p != paidaction.Moved {
		t.Fatalf("progress %d", p)
	}
	w.Drain()
	failed := w.WantState(pa.ID, paidaction.Failed)
	if failed.Failure.Code != paidaction.CodeInternal || len(w.Faults.Errors) != 1 {
		t.Errorf("failure %v, faults %v", failed.Failure, w.Faults.Errors)
	}
}

// Splits sum exactly, whatever an action's author has written: what hands out more or less than was paid does not happen.
func TestActionThatDoesNotHandOutWhatWasPaid(t *testing.T) {
	t.Parallel()
	for _, off := range []paidaction.Msat{-1, 1} {
		w := enginetest.New(t, paidaction.Settings{}, paidaction.Define(broken{off: off, price: new(paidaction.Msat(sat)),
			perform: func(*paidaction.Tx) error { return nil }}))
		user := w.User("payer", 10*sat, 0)
		if _, err := w.Try(user, "BROKEN", struct{}{}, "", ""); err == nil {
			t.Errorf("handed out %d msat too much", off)
		}
		w.WantBalance(ledger.UserCredits(user), 10*sat)
		if n := w.Count(`SELECT count(*) FROM paid_action`); n != 0 {
			t.Errorf("%d actions", n)
		}
	}
}

// A panic in the action's own code is a fault of that action alone, also in a sweep, which no job queue guards.
func TestPanicInPerformGivesTheMoneyBack(t *testing.T) {
	t.Parallel()
	w := enginetest.New(t, paidaction.Settings{}, paidaction.Define(broken{price: new(paidaction.Msat(sat)), perform: func(*paidaction.Tx) error {
		panic("a mistake")
	}}))
	pa := w.Pay(0, "BROKEN", struct{}{}, "")
	pay(w, pa, simnode.Payment{})
	if _, err := w.Engine.Sweep(w.Ctx); err != nil {
		t.Fatal(err)
	}
	if failed := w.WantState(pa.ID, paidaction.Failed); failed.Failure.Code != paidaction.CodeInternal || len(w.Faults.Errors) != 1 {
		t.Errorf("failure %v, faults %v", failed.Failure, w.Faults.Errors)
	}
}

// The other half of spec 05.14: what may pass by itself is tried again, and the action is performed in the end. A disk that fails, and a page
// that is damaged until the database is restored, are no faults of the action.
func TestPassingErrorInPerformIsTriedAgain(t *testing.T) {
	t.Parallel()
	for _, passing := range []error{context.DeadlineExceeded, &pgconn.PgError{Code: "53100"}, &pgconn.PgError{Code: "58030"}, &pgconn.PgError{Code: "58P01"},
		&pgconn.PgError{Code: "XX001"}, &pgconn.PgError{Code: "XX002"}} {
		w := enginetest.New(t, paidaction.Settings{}, paidaction.Define(broken{price: new(paidaction.Msat(sat)), perform: func(*paidaction.Tx) error { return passing }}))
		pa := w.Pay(0, "BROKEN", struct{}{}, "")
		pay(w, pa, simnode.Payment{})
		if p, err := w.Engine.Advance(w.Ctx, pa.ID); err == nil || p != paidaction.Owing {
			t.Errorf("progress %d, error %v", p, err)
		}
		w.WantState(pa.ID, paidaction.PendingHeld)
		passing = nil
		w.Advance(pa.ID)
		w.Drain()
		w.WantState(pa.ID, paidaction.Paid)
	}
}

// What does not pass after all keeps the payment no longer than its blocks last.
func TestAnErrorThatStaysGivesTheMoneyBackInTheEnd(t *testing.T) {
	t.Parallel()
	w := enginetest.New(t, paidaction.Settings{}, paidaction.Define(broken{price: new(paidaction.Msat(sat)), perform: func(*paidaction.Tx) error {
		return &pgconn.PgError{Code: "XX001"}
	}}))
	pa := w.Pay(0, "BROKEN", struct{}{}, "")
	pay(w, pa, simnode.Payment{})
	if _, err := w.Engine.Advance(w.Ctx, pa.ID); err == nil {
		t.Error("no error is told")
	}
	w.WantState(pa.ID, paidaction.PendingHeld)
	w.Node.Mine(83 - 30)
	w.Advance(pa.ID)
	w.Drain()
	w.WantState(pa.ID, paidaction.Failed)
}

// spec 02 §2.2: a price that moved is never silently charged otherwise.
func TestPriceThatMovedIsRefused(t *testing.T) {
	t.Parallel()
	price := paidaction.Msat(5 * sat)
	w := enginetest.New(t, paidaction.Settings{}, paidaction.Define(broken{price: &price, perform: func(*paidaction.Tx) error { return nil }}))
	for _, moved := range []paidaction.Msat{6 * sat, 4 * sat} {
		price = 5 * sat
		pa := w.Pay(0, "BROKEN", struct{}{}, "")
		pay(w, pa, simnode.Payment{})
		price = moved
		w.Advance(pa.ID)
		w.Drain()
		if failed := w.WantState(pa.ID, paidaction.Failed); failed.Failure.Code != paidaction.CodePriceChanged {
			t.Errorf("failure %v", failed.Failure)
		}
	}
	// spec 05.7, 05.8: a price that an action computes as negative, or as nothing where nothing is not for sale.
	for _, price = range []paidaction.Msat{-1, 0, paidaction.MaxMsat + 1} {
		_, err := w.Try(0, "BROKEN", struct{}{}, "", "")
		w.WantRefusal(err, paidaction.CodeInvalidAmount)
	}
}

// peered is broken, and pays half of its price directly.
type peered struct {
	broken
	receiver int64
}

func (peered) Spec() paidaction.Spec {
	return paidaction.Spec{Kind: "PEERED", Anonable: true, Methods: []paidaction.Method{paidaction.P2P}}
}
func (p *peered) Peers(_ context.Context, tx *paidaction.Tx, _ struct{}) ([]paidaction.Peer, error) {
	return []paidaction.Peer{{Receiver: p.receiver, Share: tx.Cost / 2}}, nil
}

// A price that moves while the receiver's wallet is asked: what the wallet gave an invoice over is a share of another price, and could be more than the payer pays.
func TestPriceThatMovedWhileAWalletWasAskedIsRefused(t *testing.T) {
	t.Parallel()
	price := paidaction.Msat(100 * sat)
	action := &peered{broken: broken{price: &price, perform: func(*paidaction.Tx) error { return nil }}}
	w := enginetest.New(t, paidaction.Settings{}, paidaction.Define(action))
	action.receiver = w.User("receiver", 0, 0)
	wallet := w.Wallets.Add(action.receiver)
	for _, moved := range []paidaction.Msat{10 * sat, 200 * sat} {
		price = 100 * sat
		wallet.Before = func() { price = moved }
		_, err := w.Try(0, "PEERED", struct{}{}, "", "")
		w.WantRefusal(err, paidaction.CodePriceChanged)
	}
	if n := w.Count(`SELECT count(*) FROM inner_invoice`); len(wallet.Issued) != 2 || n != 0 {
		t.Errorf("%d invoices were asked for, and %d wrapped", len(wallet.Issued), n)
	}
}

// spec 05.16a: a plain invoice is paid after our cancel was committed. The money is there, so the action counts.
func TestPlainInvoicePaidAfterOurCancelWasCommitted(t *testing.T) {
	t.Parallel()
	w := enginetest.New(t, paidaction.Settings{})
	user := w.User("payer", 0, 0)
	pa := zap(w, user, paidaction.Optimistic)
	// The payment lands while our cancel is on its way to the node.
	w.Node.Before(simnode.MethodCancel, func(h paidaction.Hash) {
		w.WantState(pa.ID, paidaction.Canceling)
		if err := w.Node.PayHash(h, simnode.Payment{}); err != nil {
			t.Error(err)
		}
	})
	got, err := w.Engine.Cancel(w.Ctx, enginetest.Caller(user), pa.ID)
	if err != nil || got.State != paidaction.Paid || got.Failure != nil {
		t.Errorf("%+v, %v", got, err)
	}
	w.WantConserved()
}

// spec 05.16f: the node sets no upper limit. What was received is booked, the excess is the payer's.
func TestOverpaymentIsThePayers(t *testing.T) {
	t.Parallel()
	w := enginetest.New(t, paidaction.Settings{})
	user := w.User("payer", 0, 0)
	known, anonymous := donate(w, user, ""), donate(w, 0, "")
	pay(w, known, simnode.Payment{Msat: 15*sat + 1})
	pay(w, anonymous, simnode.Payment{Msat: 13 * sat})
	w.Advance(known.ID)
	w.Advance(anonymous.ID)
	w.Drain()
	w.WantState(anonymous.ID, paidaction.Paid)
	if pa := w.WantState(known.ID, paidaction.Paid); pa.Invoice.Received != 15*sat+1 {
		t.Errorf("received %d", pa.Invoice.Received)
	}
	w.WantBalance(ledger.UserCredits(user), 5*sat+1)
	w.WantBalance(ledger.RewardSats, 10*sat+13*sat)
	w.WantBalance(ledger.Lightning, -(15*sat+1)-13*sat)
	w.WantConserved()
}

// spec 05.16b: blocks up to the safety height while HELD and no settle was permitted: undone, and the money goes back.
func TestSafetyHeightWhileHeld(t *testing.T) {
	t.Parallel()
	w := enginetest.New(t, paidaction.Settings{})
	pa := donate(w, 0, "")
	pay(w, pa, simnode.Payment{})
	w.Advance(pa.ID)
	w.WantState(pa.ID, paidaction.Held)
	deadline := w.Count(`SELECT deadline_height FROM paid_action WHERE id = $1`, pa.ID)
	w.Node.Mine(uint32(deadline) - w.Node.Height())
	w.Drain()
	w.WantState(pa.ID, paidaction.Failed)
	if n := w.Count(`SELECT count(*) FROM donation WHERE state = 'FAILED'`); n != 1 {
		t.Error("the performed action was not undone")
	}
	if w.Node.Count(simnode.MethodSettle, pa.Invoice.Hash) != 0 {
		t.Error("settled beyond the safety height")
	}
	w.WantBalance(ledger.RewardSats, 0)
	w.WantConserved()
}

// Who was about to settle when the payment was given up does not: the permission comes too late.
func TestNothingIsSettledThatWasGivenUpMeanwhile(t *testing.T) {
	t.Parallel()
	w := enginetest.New(t, paidaction.Settings{})
	pa := donate(w, 0, "")
	pay(w, pa, simnode.Payment{})
	w.Advance(pa.ID)
	w.WantState(pa.ID, paidaction.Held)
	deadline := w.Count(`SELECT deadline_height FROM paid_action WHERE id = $1`, pa.ID)
	w.Node.After(simnode.MethodChain, func(paidaction.Hash) {
		w.Node.Mine(uint32(deadline) - w.Node.Height())
		w.Advance(pa.ID)
		w.WantState(pa.ID, paidaction.Canceling)
	})
	w.Advance(pa.ID)
	if w.Node.Count(simnode.MethodSettle, pa.Invoice.Hash) != 0 {
		t.Error("settled after it was given up")
	}
	w.Drain()
	w.WantState(pa.ID, paidaction.Failed)
	w.WantConserved()
}

// The other side of it: once a settle call was permitted it may reach the node at any time, so HELD is not cancelled any
// more, and the node decides.
func TestSafetyHeightAfterSettleWasPermitted(t *testing.T) {
	t.Parallel()
	w := enginetest.New(t, paidaction.Settings{})
	settled, lost := donate(w, 0, ""), donate(w, 0, "")
	for _, pa := range []*paidaction.PaidAction{settled, lost} {
		pay(w, pa, simnode.Payment{})
		w.Advance(pa.ID)
		w.Node.FailBefore(simnode.MethodSettle, 1) // permitted, and did not arrive
		if p := w.Advance(pa.ID); p == paidaction.Moved {
			t.Fatal("moved without a settle")
		}
	}
	deadline := w.Count(`SELECT deadline_height FROM paid_action WHERE id = $1`, settled.ID)
	w.Node.Mine(uint32(deadline) - w.Node.Height())
	// Still no answer at the safety height: the call may yet arrive, so nothing is given back.
	w.Node.FailBefore(simnode.MethodSettle, 1)
	w.Advance(settled.ID)
	w.WantState(settled.ID, paidaction.Held)
	if n := w.Node.Count(simnode.MethodCancel, settled.Invoice.Hash); n != 0 {
		t.Errorf("%d cancels after a settle was permitted", n)
	}
	w.Advance(settled.ID)
	w.WantState(settled.ID, paidaction.Paid)
	w.Node.Mine(12) // now LND gives the other one back by itself
	w.Advance(lost.ID)
	w.WantState(lost.ID, paidaction.Failed)
	w.WantBalance(ledger.RewardSats, 10*sat)
	w.WantConserved()
}

func TestPaymentThatArrivesTooLateForTheChainGoesBack(t *testing.T) {
	t.Parallel()
	w := enginetest.New(t, paidaction.Settings{})
	pa := donate(w, 0, "")
	h := w.Node.Height()
	// Two parts: the earlier one decides (spec 05.16f).
	pay(w, pa, simnode.Payment{ExpiryHeights: []uint32{h + 83, h + 200}})
	w.Node.Mine(83 - 30)
	w.Advance(pa.ID)
	w.Drain()
	w.WantState(pa.ID, paidaction.Failed)
	if n := w.Count(`SELECT count(*) FROM donation`); n != 0 {
		t.Error("performed with too few blocks left")
	}
}

func TestNothingIsPerformedWhileTheNodeIsBehindTheChain(t *testing.T) {
	t.Parallel()
	w := enginetest.New(t, paidaction.Settings{})
	pa := donate(w, 0, "")
	pay(w, pa, simnode.Payment{})
	w.Node.SetSynced(false)
	if _, err := w.Engine.Advance(w.Ctx, pa.ID); err == nil {
		t.Error("advanced on the word of a node that is behind")
	}
	_, err := w.Try(0, community.KindDonate, community.DonateArgs{Sats: 10}, "", "")
	w.WantRefusal(err, paidaction.CodeLightningUnavailable)
	w.Node.SetSynced(true)
	w.Advance(pa.ID)
	w.Drain()
	w.WantState(pa.ID, paidaction.Paid)
}

// The node made the invoice and its answer was lost: the look-up by hash finds it.
func TestLostAnswerToOpenInvoice(t *testing.T) {
	t.Parallel()
	w := enginetest.New(t, paidaction.Settings{})
	w.Node.FailAfter(simnode.MethodOpen, 1)
	pa := donate(w, 0, "")
	if pa.Invoice.Bolt11 == "" {
		t.Error("no bolt11")
	}
	if n := len(w.Node.Invoices()); n != 1 {
		t.Errorf("%d invoices at the node", n)
	}
}

// What the node has under our hash is handed out only if it is the invoice that was asked for, and can be paid.
func TestAnotherInvoiceUnderOurHashIsNotHandedOut(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		other func(w *enginetest.World, r paidaction.InvoiceRequest) error
		code  paidaction.Code
	}{
		"another amount": {func(w *enginetest.World, r paidaction.InvoiceRequest) error {
			r.Amount++
			_, err := w.Node.OpenInvoice(w.Ctx, r)
			return err
		}, paidaction.CodeLightningUnavailable},
		"another program's": {func(w *enginetest.World, r paidaction.InvoiceRequest) error {
			r.Memo = "a swap"
			_, err := w.Node.OpenInvoice(w.Ctx, r)
			return err
		}, paidaction.CodeLightningUnavailable},
		"one with another final CLTV": {func(w *enginetest.World, r paidaction.InvoiceRequest) error {
			r.CLTVDelta++
			_, err := w.Node.OpenInvoice(w.Ctx, r)
			return err
		}, paidaction.CodeLightningUnavailable},
		"one that takes the payment at once": {func(w *enginetest.World, r paidaction.InvoiceRequest) error {
			var preimage []byte
			if err := w.Pool.QueryRow(w.Ctx, `SELECT preimage FROM invoice WHERE payment_hash = $1`, r.Hash[:]).Scan(&preimage); err != nil {
				return err
			}
			r.Hold, r.Preimage = false, paidaction.Preimage(preimage)
			_, err := w.Node.OpenInvoice(w.Ctx, r)
			return err
		}, paidaction.CodeLightningUnavailable},
		"cancelled": {func(w *enginetest.World, r paidaction.InvoiceRequest) error {
			if _, err := w.Node.OpenInvoice(w.Ctx, r); err != nil {
				return err
			}
			return w.Node.CancelInvoice(w.Ctx, r.Hash)
		}, paidaction.CodeLightningUnavailable},
	} {
		for _, lost := range []bool{false, true} {
			t.Run(fmt.Sprintf("%s, lost %t", name, lost), func(t *testing.T) {
				t.Parallel()
				w := enginetest.New(t, paidaction.Settings{})
				w.Node.Before(simnode.MethodOpen, func(h paidaction.Hash) {
					r := paidaction.InvoiceRequest{Hold: true, Hash: h, Amount: 10 * sat, Expiry: time.Minute}
					err := w.Pool.QueryRow(w.Ctx, `SELECT memo, cltv_delta FROM invoice WHERE payment_hash = $1`, h[:]).Scan(&r.Memo, &r.CLTVDelta)
					if err := errors.Join(err, c.other(w, r)); err != nil {
						t.Error(err)
					}
					if lost {
						w.Node.FailBefore(simnode.MethodOpen, 1)
					}
				})
				_, err := w.Try(0, community.KindDonate, community.DonateArgs{Sats: 10}, "", "")
				w.WantRefusal(err, c.code)
				if n := w.Count(`SELECT count(*) FROM invoice WHERE bolt11 IS NOT NULL`); n != 0 {
					t.Error("its bolt11 was stored")
				}
			})
		}
	}
}

// The node cannot be reached at all: nothing is charged, the caller is told, and the watchdog fails the row.
func TestInvoiceThatWasNeverIssuedFails(t *testing.T) {
	t.Parallel()
	w := enginetest.New(t, paidaction.Settings{})
	user := w.User("payer", 0, 0)
	w.Node.FailBefore(simnode.MethodOpen, 1)
	w.Node.FailBefore(simnode.MethodLookup, 1)
	author := w.User("author", 100*sat, 0)
	_, err := w.Try(user, community.KindZap, community.ZapArgs{Item: w.Post(author, "x"), Sats: 10}, "", "")
	w.WantRefusal(err, paidaction.CodeLightningUnavailable)
	id := w.Count(`SELECT max(id) FROM paid_action`)
	w.Drain()
	w.WantState(id, paidaction.Pending)
	w.Clock.Advance(29 * time.Second)
	if p := w.Advance(id); p != paidaction.Waiting { // its node may be at work
		t.Errorf("progress %d", p)
	}
	w.Clock.Advance(2 * time.Second)
	w.Drain()
	w.WantState(id, paidaction.Failed)
}

// Nor is it issued later than it could be paid, for whoever repeats the request: a node takes no time at all for the
// time that is usual there.
func TestInvoiceThatWasNeverIssuedIsNotIssuedTooLate(t *testing.T) {
	t.Parallel()
	w := enginetest.New(t, paidaction.Settings{InvoiceExpiry: time.Minute})
	user := w.User("payer", 0, 0)
	w.Node.FailBefore(simnode.MethodOpen, 2) // it is tried again at once
	w.Node.FailBefore(simnode.MethodLookup, 2)
	try := func() error {
		_, err := w.Try(user, community.KindDonate, community.DonateArgs{Sats: 10}, "", "key")
		return err
	}
	w.WantRefusal(try(), paidaction.CodeLightningUnavailable)
	w.Clock.Advance(time.Minute - time.Millisecond)
	w.WantRefusal(try(), paidaction.CodeLightningUnavailable)
	if n := len(w.Node.Invoices()); n != 0 {
		t.Errorf("%d invoices are issued", n)
	}
	w.Drain()
	w.WantState(w.Count(`SELECT max(id) FROM paid_action`), paidaction.Failed)
}

// Given up by its payer, it fails at once: the node knows of nothing that it could cancel, and from there nothing more is issued.
func TestInvoiceThatWasNeverIssuedIsCancelled(t *testing.T) {
	t.Parallel()
	w := enginetest.New(t, paidaction.Settings{})
	user := w.User("payer", 0, 0)
	w.Node.FailBefore(simnode.MethodOpen, 1)
	w.Node.FailBefore(simnode.MethodLookup, 1)
	_, err := w.Try(user, community.KindDonate, community.DonateArgs{Sats: 10}, "", "")
	w.WantRefusal(err, paidaction.CodeLightningUnavailable)
	pa, err := w.Engine.Cancel(w.Ctx, enginetest.Caller(user), w.Count(`SELECT max(id) FROM paid_action`))
	if err != nil || pa.State != paidaction.Failed {
		t.Errorf("%+v, %v", pa, err)
	}
}

// The node has another invoice with its hash, which is not for the price: nobody is given that one, also once the node has been asked what
// became of ours; and what it holds is given back, and nothing is done for it.
func TestAnotherInvoiceWithItsHashIsNotIts(t *testing.T) {
	t.Parallel()
	for name, paid := range map[string]bool{"nobody pays it": false, "somebody does": true} {
		w := enginetest.New(t, paidaction.Settings{})
		user := w.User("payer", 0, 0)
		w.Node.FailBefore(simnode.MethodOpen, 1)
		w.Node.FailBefore(simnode.MethodLookup, 1)
		_, err := w.Try(user, community.KindDonate, community.DonateArgs{Sats: 10}, "", "")
		w.WantRefusal(err, paidaction.CodeLightningUnavailable)
		pa := w.Look(w.Count(`SELECT max(id) FROM paid_action`))
		other := paidaction.InvoiceRequest{Hold: true, Hash: pa.Invoice.Hash, Amount: 1 * sat, Expiry: time.Hour, CLTVDelta: 80}
		if _, err := w.Node.Add(w.Ctx, other); err != nil {
			t.Fatal(err)
		}
		if w.Advance(pa.ID); w.Look(pa.ID).Invoice.Bolt11 != "" {
			t.Errorf("%s: it was handed out", name)
		}
		if paid {
			if err := w.Node.PayHash(pa.Invoice.Hash, simnode.Payment{}); err != nil {
				t.Fatal(err)
			}
		} else {
			w.Clock.Advance(11 * time.Minute)
		}
		w.Advance(pa.ID)
		w.Drain()
		w.WantState(pa.ID, paidaction.Failed)
		if inv, _ := w.Node.Inspect(pa.Invoice.Hash); inv.State != paidaction.InvoiceCanceled {
			t.Errorf("%s: the invoice is %s", name, inv.State)
		}
		w.WantConserved()
	}
}

// The watchdog gives the action up while the node is at work: the invoice that comes too late is cancelled, and nobody
// ever sees it.
func TestInvoiceThatComesTooLateIsNotHandedOut(t *testing.T) {
	t.Parallel()
	w := enginetest.New(t, paidaction.Settings{})
	w.Node.Before(simnode.MethodOpen, func(paidaction.Hash) {
		w.Clock.Advance(31 * time.Second)
		w.Drain()
	})
	_, err := w.Try(0, community.KindDonate, community.DonateArgs{Sats: 10}, "", "")
	w.WantRefusal(err, paidaction.CodeLightningUnavailable)
	w.WantState(w.Count(`SELECT max(id) FROM paid_action`), paidaction.Failed)
	if inv := w.Node.Invoices()[0]; inv.State != paidaction.InvoiceCanceled {
		t.Errorf("the invoice is %s", inv.State)
	}
}

// spec 01 §1.6: that the node does not know an invoice it once issued is not taken for "not paid".
func TestWipedNodeIsNotBelieved(t *testing.T) {
	t.Parallel()
	w := enginetest.New(t, paidaction.Settings{})
	pa := donate(w, 0, "")
	pay(w, pa, simnode.Payment{})
	w.Node.Wipe()
	w.Clock.Advance(time.Hour)
	if _, err := w.Engine.Advance(w.Ctx, pa.ID); !errors.Is(err, paidaction.ErrInvoiceNotFound) {
		t.Errorf("error %v", err)
	}
	w.WantState(pa.ID, paidaction.PendingHeld)
}

// Every event ten times, and all at once: one effect.
func TestWorkersAtOnceDoEverythingOnce(t *testing.T) {
	t.Parallel()
	w := enginetest.New(t, paidaction.Settings{})
	pa := donate(w, 0, "")
	pay(w, pa, simnode.Payment{})
	for range 3 {
		var wg sync.WaitGroup
		for range 10 {
			wg.Go(func() { _, _ = w.Engine.Advance(w.Ctx, pa.ID) })
		}
		wg.Wait()
	}
	w.Drain()
	w.WantState(pa.ID, paidaction.Paid)
	if n := w.Count(`SELECT count(*) FROM action_history WHERE action_id = $1`, pa.ID); n != 3 {
		t.Errorf("%d steps, want 3", n)
	}
	w.WantBalance(ledger.RewardSats, 10*sat)
	w.WantConserved()
	if n := pgtest.Deadlocks(t, w.Pool); n != 0 {
		t.Errorf("%d deadlocks", n)
	}
}

func TestSweepFindsWhatEventsMissed(t *testing.T) {
	t.Parallel()
	w := enginetest.New(t, paidaction.Settings{})
	var all []*paidaction.PaidAction
	for range 5 {
		pa := donate(w, 0, "")
		pay(w, pa, simnode.Payment{})
		all = append(all, pa)
	}
	if _, err := w.Pool.Exec(w.Ctx, `DELETE FROM test_job`); err != nil {
		t.Fatal(err)
	}
	moved, err := w.Engine.Sweep(w.Ctx)
	if err != nil || moved != 10 {
		t.Errorf("%d steps, error %v", moved, err)
	}
	for _, pa := range all {
		w.WantState(pa.ID, paidaction.Paid)
	}
	w.WantConserved()
}

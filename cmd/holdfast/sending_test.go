package main

import (
	"testing"
	"time"

	"github.com/a-seed-a7aed72f/holdfast/community"
	"github.com/a-seed-a7aed72f/holdfast/internal/enginetest"
	"github.com/a-seed-a7aed72f/holdfast/lightning/simnode"
	"github.com/a-seed-a7aed72f/holdfast/paidaction"
)

// A node that is told to send no more has still sent what it was given before: its receiver takes that, and so the payer's payment is taken as well.
func TestWhatWasSentIsFollowedWhereNothingIsSentAnyMore(t *testing.T) {
	t.Parallel()
	w := enginetest.New(t, paidaction.Settings{MaxForwards: 10})
	author, payer := w.User("author", 100_000, 0), w.User("payer", 0, 0)
	post := w.Post(author, "a post")
	wallet := w.Wallets.Add(author)
	wallet.Ask.Act = simnode.Holds
	pa := w.Pay(payer, community.KindZap, community.ZapArgs{Item: post, Sats: 100}, paidaction.P2P)
	h := pa.Invoice.Hash
	if err := w.Node.PayHash(h, simnode.Payment{}); err != nil {
		t.Fatal(err)
	}
	w.Advance(pa.ID)
	stop := w.Run(w.Relay)
	(&server{t: t}).await("the receiver to hold the payment", func() bool { return wallet.Receiver.Receipt(h).Held > 0 })
	stop()

	// The same node, as its LND shows it after the process was started anew.
	node, setting := newNode(t)
	if _, err := node.Node.OpenInvoice(t.Context(), paidaction.InvoiceRequest{Hold: true, Hash: h, Amount: pa.Invoice.Amount, Expiry: time.Hour, CLTVDelta: 200}); err != nil {
		t.Fatal(err)
	}
	if err := node.Node.PayHash(h, simnode.Payment{}); err != nil {
		t.Fatal(err)
	}
	node.ScriptWasPaid(wallet.Receiver.Preimage(h), 70_000, 1_000)
	serve(t, settings(w.Pool, setting+";send=no")).await("the action to be PAID", func() bool { return w.Look(pa.ID).State == paidaction.Paid })
	if inv, _ := node.Node.Inspect(h); inv.State != paidaction.InvoiceSettled {
		t.Errorf("the payer's payment is %s", inv.State)
	}
}

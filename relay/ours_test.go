package relay_test

import (
	"errors"
	"testing"
	"time"

	"github.com/a-seed-a7aed72f/holdfast/community"
	"github.com/a-seed-a7aed72f/holdfast/lightning/simnode"
	"github.com/a-seed-a7aed72f/holdfast/paidaction"
	"github.com/a-seed-a7aed72f/holdfast/relay"
)

// oneSends are nodes of which the first sends, and the others only issue invoices.
type oneSends struct{ relay.Nodes }

func (n oneSends) Names() []string { return n.Nodes.Names()[:1] }

// Spec 03 §3.2: an invoice of any node of ours is not wrapped, also of one that only issues. Somebody else may have made it
// there, so a withdrawal to it is paid.
func TestAnInvoiceOfANodeThatOnlyIssuesIsNotWrapped(t *testing.T) {
	b := setup(t, "one", "two")
	inv, err := b.Nodes[1].OpenInvoice(b.Ctx, paidaction.InvoiceRequest{Hash: paidaction.Preimage{1}.Hash(), Preimage: paidaction.Preimage{1}, Amount: 70_000,
		Expiry: time.Hour, CLTVDelta: 40})
	if err != nil {
		t.Fatal(err)
	}
	process := func() *relay.Relay { return b.NewRelay(func(c *relay.Config) { c.Nodes = oneSends{c.Nodes} }) }
	wrap := func() error {
		_, err := process().Wrap(b.Ctx, b.wrapping())
		return err
	}
	down := func(calls int) { b.Nodes[1].FailBefore(simnode.MethodPublicKey, calls) }
	refused := func(why string) {
		t.Helper()
		err := wrap()
		said, _ := paidaction.AsRefusal(b.wallet.Said[len(b.wallet.Said)-1])
		if !errors.Is(err, paidaction.ErrNoReceiver) || said == nil || string(said.Code) != why {
			t.Errorf("%v, and the wallet's owner was told %v, not %s", err, said, why)
		}
	}

	down(1 << 30)
	if err := wrap(); !errors.Is(err, paidaction.ErrNoReceiver) {
		t.Errorf("whose it is could not be said: %v", err)
	}
	down(0)
	b.wallet.Same = inv
	refused("OURS")
	down(1 << 30) // its key is known by now
	refused("OURS")
	b.wallet.Same = ""
	if err := wrap(); err != nil {
		t.Errorf("what is not ours, while the node that only issues is down: %v", err)
	}
	paid, err := process().Resolve(b.Ctx, paidaction.Payee{To: inv})
	if err != nil || paid.Amount != 70_000 {
		t.Errorf("a withdrawal: %+v, %v", paid, err)
	}
}

// Another program may have a hold invoice at the node under the hash of a receiver's invoice, such as one for a swap. It
// is not taken for ours: its payment would be forwarded to the receiver.
func TestWhatTheNodeHasForAnotherProgramIsNotWrapped(t *testing.T) {
	b := setup(t)
	b.wallet.Same = b.issue(simnode.Ask{Amount: 70_000}).Bolt11
	inner, err := b.Node.DecodeInvoice(b.Ctx, b.wallet.Same)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := b.Node.OpenInvoice(b.Ctx, paidaction.InvoiceRequest{Hold: true, Hash: inner.Hash, Amount: 100_000, Expiry: time.Hour, CLTVDelta: 80}); err != nil {
		t.Fatal(err)
	}
	_, err = b.NewRelay().Wrap(b.Ctx, b.wrapping())
	said, _ := paidaction.AsRefusal(b.wallet.Said[len(b.wallet.Said)-1])
	if !errors.Is(err, paidaction.ErrNoReceiver) || said == nil || said.Code != "OURS" {
		t.Errorf("%v, and the wallet's owner was told %v", err, said)
	}
}

// Nor is it, where it was made between the look at the node and our invoice: nothing is forwarded for it, and it is left
// alone.
func TestWhatAnotherProgramMakesMeanwhileIsLeftAlone(t *testing.T) {
	b := setup(t)
	var swap paidaction.InvoiceRequest
	b.Node.Before(simnode.MethodOpen, func(h paidaction.Hash) {
		if swap.Hash == h {
			return
		}
		swap = paidaction.InvoiceRequest{Hold: true, Hash: h, Amount: 100_000, Memo: "a swap", Expiry: 24 * time.Hour, CLTVDelta: 300}
		if _, err := b.Node.OpenInvoice(b.Ctx, swap); err != nil {
			t.Error(err)
		}
	})
	_, err := b.Try(b.payer, community.KindZap, community.ZapArgs{Item: b.item, Sats: 100}, paidaction.P2P, "")
	b.WantRefusal(err, paidaction.CodeLightningUnavailable)
	if err := b.Node.PayHash(swap.Hash, simnode.Payment{}); err != nil {
		t.Fatal(err)
	}
	id := b.Count(`SELECT max(id) FROM paid_action`)
	b.Advance(id)
	b.WantState(id, paidaction.PendingHeld)
	b.Clock.Advance(12 * time.Hour)
	b.Advance(id)
	b.WantState(id, paidaction.Failed)
	if inv, err := b.Node.LookupInvoice(b.Ctx, swap.Hash); err != nil || inv.State != paidaction.InvoiceAccepted {
		t.Errorf("the other program's invoice is %s, %v", inv.State, err)
	}
}

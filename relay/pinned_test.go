package relay_test

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/a-seed-a7aed72f/holdfast/ledger"
	"github.com/a-seed-a7aed72f/holdfast/lightning/simnode"
	"github.com/a-seed-a7aed72f/holdfast/paidaction"
)

// A payment waits for the one node that may have been given it, and it was. Who that node is is asked after its answer:
// another one may have taken its place just before.
func TestAPaymentThatWaitsForItsNodeIsNotGivenUpByTheWordOfAnother(t *testing.T) {
	b := setup(t).rich(100)
	inv := b.issue(simnode.Ask{Amount: 50_000, Act: simnode.Holds})
	pa := b.withdraw(inv.Bolt11)
	b.Node.FailBefore(simnode.MethodPay, 1)
	if claimed, err := b.NewRelay().Step(b.Ctx, "one", nothing); !claimed || err != nil {
		t.Fatal(claimed, err)
	}
	b.Clock.Advance(over)
	b.rounds(1)
	b.AwaitStage(pa.ID, "incoming")
	sending, sent := context.WithCancel(b.Ctx) // the call arrives after all
	_ = b.Node.Pay(sending, paidaction.PaymentRequest{Bolt11: inv.Bolt11, FeeLimit: 3_000, Timeout: time.Minute},
		func(paidaction.PaymentUpdate) error { sent(); return nil })
	b.await("the receiver holds it", func() bool { return b.wallet.Receiver.Receipt(inv.Hash).Held == 50_000 })
	b.Clock.Advance(2 * time.Hour)
	b.Node.Before(simnode.MethodTrack, func(paidaction.Hash) { b.Node.Replace() })
	if out, err := b.NewRelay().Proceed(b.Ctx, pa.ID); out.Failure != nil || !errors.Is(err, paidaction.ErrLost) {
		t.Errorf("%+v, %v", out, err)
	}
	b.AwaitStage(pa.ID, "incoming")
	b.rounds(2)
	b.WantState(pa.ID, paidaction.Forwarding)
	if err := b.wallet.Receiver.Settle(inv.Hash); err != nil {
		t.Fatal(err)
	}
	b.wantPaidOut(inv.Hash, 50_000)
	b.WantBalance(ledger.UserSats(b.payer), 45_000)
}

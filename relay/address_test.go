package relay_test

import (
	"context"
	"errors"
	"fmt"
	"testing"

	"github.com/a-seed-a7aed72f/holdfast/community"
	"github.com/a-seed-a7aed72f/holdfast/internal/enginetest"
	"github.com/a-seed-a7aed72f/holdfast/lightning/simnode"
	"github.com/a-seed-a7aed72f/holdfast/paidaction"
	"github.com/a-seed-a7aed72f/holdfast/wallet"
)

func TestAWithdrawalToAnAddress(t *testing.T) {
	b := setup(t).rich(100)
	b.Run(b.Relay)
	pa, err := b.Try(b.payer, community.KindWithdraw, community.WithdrawArgs{To: fmt.Sprintf("%d@holdfast.example", b.author), Sats: new(int64(40)), MaxFeeSats: 1}, "", "")
	if err != nil {
		t.Fatal(err)
	}
	b.Await(pa.ID, paidaction.Paid)
	b.wantPaidOut(b.wallet.Last().Hash, 40_000)
	b.wantSats(59_000)
	b.wantSound()
}

// An address that asks for another amount than was said is not paid.
func TestAnAddressThatAsksForMore(t *testing.T) {
	b := setup(t).rich(100)
	b.wallet.Ask.Amount = 1_000
	_, err := b.Try(b.payer, community.KindWithdraw, community.WithdrawArgs{To: fmt.Sprintf("%d@holdfast.example", b.author), Sats: new(int64(40)), MaxFeeSats: 1}, "", "")
	b.WantRefusal(err, paidaction.CodeInvalidAmount)
	b.wantSats(100_000)
}

// Both amounts are said in sats only where both are whole ones: rounded, they could look the same.
func TestAmountsThatDifferAreToldApart(t *testing.T) {
	b := setup(t).rich(100)
	for of, want := range map[paidaction.Msat]string{
		1_000: "The invoice is for 1 sats, not for 40.", 39_999: "The invoice is for 39999 msat, not for 40000.", 40_001: "The invoice is for 40001 msat, not for 40000.",
	} {
		_, err := b.Try(b.payer, community.KindWithdraw, community.WithdrawArgs{To: b.issue(simnode.Ask{Amount: of}).Bolt11, Sats: new(int64(40)), MaxFeeSats: 1}, "", "")
		b.WantRefusal(err, paidaction.CodeInvalidAmount)
		if said, _ := paidaction.AsRefusal(err); said.Message != want {
			t.Errorf("%d msat: %q", of, said.Message)
		}
	}
}

// Who gives up while the address is asked is not told that something is wrong with it; an address that gives nothing
// says why.
func TestAnAddressThatIsNotWaitedFor(t *testing.T) {
	b := setup(t).rich(100)
	ask := func(ctx context.Context) error {
		_, err := b.Engine.Pay(ctx, paidaction.Request{Kind: community.KindWithdraw, Caller: enginetest.Caller(b.payer),
			Args: community.WithdrawArgs{To: fmt.Sprintf("%d@holdfast.example", b.author), Sats: new(int64(40)), MaxFeeSats: 1}})
		return err
	}
	b.wallet.Err = paidaction.Errorf(wallet.CodeDeclined, "Not today.")
	b.WantRefusal(ask(b.Ctx), wallet.CodeDeclined)
	ctx, cancel := context.WithCancel(b.Ctx)
	b.wallet.Before, b.wallet.Err = cancel, context.Canceled
	if err := ask(ctx); !errors.Is(err, context.Canceled) || errors.Is(err, paidaction.Refused(paidaction.CodeInvalidInput)) {
		t.Errorf("who gave up was told: %v", err)
	}
	b.wantSats(100_000)
}

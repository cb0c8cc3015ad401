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
	"github.com/a-seed-a7aed72f/holdfast/relay"
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

// anyAddress are wallets that know every address.
type anyAddress struct {
	relay.Wallets
	issue func() string
}

func (a anyAddress) Address(context.Context, string, paidaction.Msat, string) (string, error) {
	return a.issue(), nil
}

// What a wallet may be saved by can be paid to as well, in each of its forms; what it stands for its server knows.
func TestEachFormOfAnAddress(t *testing.T) {
	b := setup(t).rich(100)
	r := b.NewRelay(func(c *relay.Config) {
		c.Wallets = anyAddress{c.Wallets, func() string { return b.issue(simnode.Ask{Amount: 40_000}).Bolt11 }}
	})
	for _, to := range []string{"alice@wallet.example", "lightning:alice@wallet.example", "https://wallet.example/pay", "LNURL1DP68GURN8GHJ7AMPD3KX2AR0VEEKZAR0WD5XJTNRDAKJ7TNHV4KXCTTTDEHHWM30D3H82UNVWQHKK",
		"lightning:lnurl1dp68gurn8ghj7ampd3kx2ar0veekzar0wd5xjtnrdakj7tnhv4kxctttdehhwm30d3h82unvwqhkk", "lnurlp://wallet.example/pay", "lnurlp:wallet.example/pay", "LNURLP://wallet.example/pay", "lnurl:https://wallet.example/pay"} {
		if _, err := r.Resolve(b.Ctx, paidaction.Payee{To: to, Amount: 40_000, FeeLimit: 1_000}); err != nil {
			t.Errorf("%s: %v", to, err)
		}
	}
}

// What somebody says with a payment goes with it, or the payment does not go: an invoice has no place for it.
func TestAnInvoiceTakesNoComment(t *testing.T) {
	b := setup(t).rich(100)
	_, err := b.Try(b.payer, community.KindWithdraw, community.WithdrawArgs{To: b.issue(simnode.Ask{Amount: 40_000}).Bolt11, MaxFeeSats: 1, Comment: "order 12"}, "", "")
	b.WantRefusal(err, paidaction.CodeInvalidInput)
	b.wantSats(100_000)
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

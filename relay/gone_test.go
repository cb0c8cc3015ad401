package relay_test

import (
	"testing"

	"github.com/a-seed-a7aed72f/holdfast/paidaction"
)

// Whoever removes a wallet, or disables it, is not paid by it any more, although a payer has paid for its invoice: the money goes back, and the next attempt is
// made through the next wallet. The wallet is not to blame.
func TestAWalletThatIsGoneIsNotPaid(t *testing.T) {
	b := setup(t)
	pa := b.zap()
	b.pay(pa)
	gone, next := b.wallet, b.Wallets.Add(b.author)
	gone.Gone = true
	b.Run(b.Relay)
	if failed := b.Await(pa.ID, paidaction.Failed); failed.Failure.Code != paidaction.CodePaymentFailed {
		t.Errorf("%v", failed.Failure)
	}
	b.wantOuter(pa, paidaction.InvoiceCanceled)
	b.wantReceived(pa, 0)
	if n := b.Count(`SELECT count(*) FROM relay_attempt WHERE outcome = 'NOT_SENT' AND reason = 'WALLET_GONE'`); n != 1 || b.Wallets.Failures(gone.ID, pa.ID) != 0 {
		t.Errorf("%d claims ended by it, %d failures of the wallet", n, b.Wallets.Failures(gone.ID, pa.ID))
	}
	b.Drain()
	again := b.Look(*b.WantState(pa.ID, paidaction.Retrying).Successor)
	b.wallet = next
	b.pay(again)
	b.Await(again.ID, paidaction.Paid)
	b.wantReceived(again, 70_000)
	b.wantSound()
}

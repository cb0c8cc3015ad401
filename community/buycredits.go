package community

import (
	"context"
	"fmt"

	"github.com/a-seed-a7aed72f/holdfast/ledger"
	"github.com/a-seed-a7aed72f/holdfast/paidaction"
)

// BuyCredits turns sats into credits, one to one. OnPaid creates the credits, never Perform: what Perform posts must
// not be spendable (spec 01 §1.5).
type BuyCredits struct {
	paidaction.Base[BuyCreditsArgs, BuyCreditsResult]
}

// BuyCreditsArgs say how many credits to buy, one sat each.
type BuyCreditsArgs struct {
	Credits int64 `json:"credits"`
}

// BuyCreditsResult is how many were bought.
type BuyCreditsResult struct {
	Credits int64 `json:"credits"`
}

// KindBuyCredits names the action.
const KindBuyCredits = "BUY_CREDITS"

// Spec follows the table of spec 02 §2.3: from the sats balance or by hold invoice, never with credits.
func (BuyCredits) Spec() paidaction.Spec {
	return paidaction.Spec{Kind: KindBuyCredits, Methods: []paidaction.Method{paidaction.RewardSats, paidaction.Pessimistic}}
}

// Check refuses amounts that nobody can buy.
func (BuyCredits) Check(a BuyCreditsArgs) error { return checkSats(a.Credits) }

// Cost is one sat per credit.
func (BuyCredits) Cost(_ context.Context, _ *paidaction.Tx, a BuyCreditsArgs) (paidaction.Msat, error) {
	return paidaction.Sats(a.Credits)
}

// Perform has nothing to do yet.
func (BuyCredits) Perform(_ context.Context, _ *paidaction.Tx, a BuyCreditsArgs) (BuyCreditsResult, error) {
	return BuyCreditsResult(a), nil
}

// OnPaid credits the payer.
func (BuyCredits) OnPaid(_ context.Context, tx *paidaction.Tx, _ BuyCreditsArgs, _ BuyCreditsResult) error {
	return tx.Pay(ledger.UserCredits(*tx.Payer), tx.Cost, "credits bought")
}

// Describe is what the payer's wallet shows.
func (BuyCredits) Describe(a BuyCreditsArgs) string { return fmt.Sprintf("buy %d credits", a.Credits) }

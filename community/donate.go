package community

import (
	"context"
	"fmt"

	"github.com/a-seed-a7aed72f/holdfast/internal/db"
	"github.com/a-seed-a7aed72f/holdfast/ledger"
	"github.com/a-seed-a7aed72f/holdfast/paidaction"
)

// Donate gives an amount to the rewards pool, all of it.
type Donate struct {
	paidaction.Base[DonateArgs, DonateResult]
}

// DonateArgs say how many whole sats to give.
type DonateArgs struct {
	Sats int64 `json:"sats"`
}

// DonateResult is what was given.
type DonateResult struct {
	Sats int64 `json:"sats"`
}

// KindDonate names the action.
const KindDonate = "DONATE"

// Spec follows the table of spec 02 §2.3.
func (Donate) Spec() paidaction.Spec {
	return paidaction.Spec{Kind: KindDonate, Anonable: true,
		Methods: []paidaction.Method{paidaction.FeeCredit, paidaction.RewardSats, paidaction.Pessimistic}}
}

// Check refuses amounts that nobody can give.
func (Donate) Check(a DonateArgs) error { return checkSats(a.Sats) }

// Cost is what is given.
func (Donate) Cost(_ context.Context, _ *paidaction.Tx, a DonateArgs) (paidaction.Msat, error) {
	return paidaction.Sats(a.Sats)
}

// Perform notes the donation.
func (Donate) Perform(ctx context.Context, tx *paidaction.Tx, a DonateArgs) (DonateResult, error) {
	err := tx.DB.InsertDonation(ctx, db.InsertDonationParams{ActionID: tx.Action, UserID: tx.Payer, Msat: int64(tx.Cost)})
	if err != nil {
		return DonateResult{}, fmt.Errorf("insert the donation: %w", err)
	}
	return DonateResult(a), nil
}

// OnPaid gives the money to the rewards pool.
func (Donate) OnPaid(ctx context.Context, tx *paidaction.Tx, _ DonateArgs, _ DonateResult) error {
	if err := tx.DB.MarkDonation(ctx, db.MarkDonationParams{ActionID: tx.Action, State: statePaid}); err != nil {
		return fmt.Errorf("mark the donation: %w", err)
	}
	return tx.Pay(ledger.Rewards(tx.Asset()), tx.Cost, "donation")
}

// OnFail marks the donation as failed.
func (Donate) OnFail(ctx context.Context, tx *paidaction.Tx, _ DonateArgs, _ DonateResult) error {
	if err := tx.DB.MarkDonation(ctx, db.MarkDonationParams{ActionID: tx.Action, State: stateFailed}); err != nil {
		return fmt.Errorf("mark the donation: %w", err)
	}
	return nil
}

// Describe is what the payer's wallet shows.
func (Donate) Describe(a DonateArgs) string {
	return fmt.Sprintf("donate %d sats to the rewards pool", a.Sats)
}

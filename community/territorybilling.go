package community

import (
	"context"
	"time"

	"github.com/a-seed-a7aed72f/holdfast/internal/db"
	"github.com/a-seed-a7aed72f/holdfast/paidaction"
)

// TerritoryBilling pays for a territory's next period.
type TerritoryBilling struct {
	reservation[TerritoryBillingArgs]
	Settings Settings
}

// TerritoryBillingArgs say which territory.
type TerritoryBillingArgs struct {
	Name string `json:"name"`
	// Renews is the end of the period after which the server renews it by itself; nil: its founder asks.
	Renews *time.Time `json:"renews,omitempty"`
}

func (a TerritoryBillingArgs) territory() string { return a.Name }

// KindTerritoryBilling names the action.
const KindTerritoryBilling = "TERRITORY_BILLING"

// Spec follows the table of spec 02 §2.3.
func (TerritoryBilling) Spec() paidaction.Spec {
	return paidaction.Spec{Kind: KindTerritoryBilling, Methods: territoryMethods}
}

// Check refuses impossible names.
func (TerritoryBilling) Check(a TerritoryBillingArgs) error { return checkTerritoryName(a.Name) }

// Cost is the price of a period. No more than the one after the present one can be paid.
func (b TerritoryBilling) Cost(ctx context.Context, tx *paidaction.Tx, a TerritoryBillingArgs) (paidaction.Msat, error) {
	t, err := lockOwnTerritory(ctx, tx, a.Name)
	switch {
	case err != nil:
		return 0, err
	case t.PaidUntil == nil:
		return 0, paidaction.Errorf(paidaction.CodeInvalidInput, "This territory is paid once and for all: nothing is due.")
	case a.Renews != nil && !(t.AutoRenew && t.PaidUntil.Equal(*a.Renews)):
		// Found to be due before the lock was held: its founder has paid, or has said that it is not to be renewed, and did not ask for another period.
		return 0, paidaction.Errorf(paidaction.CodeDuplicate, "This period is paid for, or is not to be renewed.")
	case t.PeriodStart.After(tx.Now):
		return 0, paidaction.Errorf(paidaction.CodeDuplicate, "The next period is paid for. Come back when it has begun.")
	}
	return b.Settings.TerritoryPrice(Billing(t.Billing)), nil
}

// OnPaid prolongs: the new period begins where the old one ends, however late it is paid.
func (TerritoryBilling) OnPaid(ctx context.Context, tx *paidaction.Tx, a TerritoryBillingArgs, _ TerritoryResult) error {
	return payTerritory(ctx, tx, a.Name, func(t *db.Territory) { rent(t, *t.PaidUntil, tx.Cost) })
}

// Describe is shown by the payer's wallet.
func (TerritoryBilling) Describe(a TerritoryBillingArgs) string {
	return "pay for the territory " + a.Name
}

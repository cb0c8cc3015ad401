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

// TerritoryBillingArgs say which territory to pay for.
type TerritoryBillingArgs struct {
	Name string `json:"name"`
	// PaidUntil is until when it is paid, as far as its founder knows: if it is paid for longer by now, nothing happens.
	// nil: whatever it is.
	PaidUntil *time.Time `json:"paidUntil,omitempty"`
	// Renews is the end of the period after which the service renews it by itself; nil: its founder asks.
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

// Cost is the price of a period. At most one period after the present one can be paid in advance.
func (b TerritoryBilling) Cost(ctx context.Context, tx *paidaction.Tx, a TerritoryBillingArgs) (paidaction.Msat, error) {
	t, err := lockOwnTerritory(ctx, tx, a.Name)
	switch {
	case err != nil:
		return 0, err
	case t.PaidUntil == nil:
		return 0, paidaction.Errorf(paidaction.CodeInvalidInput, "This territory is paid for ever: nothing is due.")
	case a.Renews != nil && !(t.AutoRenew && t.PaidUntil.Equal(*a.Renews)):
		// It was due before the lock was held. Since then its founder has paid or cancelled the renewal, and has not
		// asked for another period.
		return 0, paidaction.Errorf(paidaction.CodeDuplicate, "This period is already paid for, or the territory is not set to renew.")
	case a.PaidUntil != nil && !t.PaidUntil.Equal(*a.PaidUntil):
		// Of two payments for one period the other would pay the next one in advance. The service may be the other payer.
		return 0, paidaction.Errorf(paidaction.CodeDuplicate, "The territory is paid until %s by now. Look at it again.", t.PaidUntil.UTC().Format(time.RFC3339Nano))
	case t.PeriodStart.After(tx.Now):
		return 0, paidaction.Errorf(paidaction.CodeDuplicate, "The next period is already paid for. Come back when it has begun.")
	}
	return b.Settings.TerritoryPrice(Billing(t.Billing)), nil
}

// OnPaid extends the territory: the new period begins where the old one ends, however late it is paid.
func (TerritoryBilling) OnPaid(ctx context.Context, tx *paidaction.Tx, a TerritoryBillingArgs, _ TerritoryResult) error {
	return payTerritory(ctx, tx, a.Name, func(t *db.Territory) { rent(t, *t.PaidUntil, tx.Cost) })
}

// Describe is what the payer's wallet shows.
func (TerritoryBilling) Describe(a TerritoryBillingArgs) string {
	return "pay for the territory " + a.Name
}

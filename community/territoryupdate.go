package community

import (
	"context"

	"github.com/a-seed-a7aed72f/holdfast/internal/db"
	"github.com/a-seed-a7aed72f/holdfast/paidaction"
)

// TerritoryUpdate changes a territory. A longer billing costs the difference to what was paid for the period, and
// extends that period from its beginning; a shorter one applies from the next bill.
type TerritoryUpdate struct {
	reservation[TerritoryUpdateArgs]
	Settings Settings
}

// TerritoryUpdateArgs say what to change; nil stays as it is.
type TerritoryUpdateArgs struct {
	Name          string   `json:"name"`
	Description   *string  `json:"description,omitempty"`
	BaseCostSats  *int64   `json:"baseCostSats,omitempty"`
	ReplyCostSats *int64   `json:"replyCostSats,omitempty"`
	Billing       *Billing `json:"billing,omitempty"`
	AutoRenew     *bool    `json:"autoRenew,omitempty"`
}

func (a TerritoryUpdateArgs) territory() string { return a.Name }

// KindTerritoryUpdate names the action.
const KindTerritoryUpdate = "TERRITORY_UPDATE"

// Spec follows the table of spec 02 §2.3. Most changes cost nothing.
func (TerritoryUpdate) Spec() paidaction.Spec {
	return paidaction.Spec{Kind: KindTerritoryUpdate, Free: true, Methods: territoryMethods}
}

// Check refuses impossible texts, costs and billings, and empty changes.
func (u TerritoryUpdate) Check(a TerritoryUpdateArgs) error {
	if err := checkTerritoryName(a.Name); err != nil {
		return err
	}
	if a == (TerritoryUpdateArgs{Name: a.Name}) {
		return paidaction.Errorf(paidaction.CodeInvalidInput, "Say what to change.")
	}
	if a.Description != nil {
		if err := checkText("description", *a.Description, 0, maxDescription); err != nil {
			return err
		}
	}
	for _, sats := range []*int64{a.BaseCostSats, a.ReplyCostSats} {
		if sats != nil {
			if err := u.Settings.checkItemCost(*sats); err != nil {
				return err
			}
		}
	}
	if a.Billing != nil {
		return a.Billing.check()
	}
	return nil
}

// Cost is max(0, the new period − what was paid for the current one), under the lock of the territory.
func (u TerritoryUpdate) Cost(ctx context.Context, tx *paidaction.Tx, a TerritoryUpdateArgs) (paidaction.Msat, error) {
	t, err := lockOwnTerritory(ctx, tx, a.Name)
	if err != nil || a.Billing == nil {
		return 0, err
	}
	if Billing(t.Billing) == Once && *a.Billing != Once {
		return 0, paidaction.Errorf(paidaction.CodeInvalidInput, "This territory is paid for ever: there is no next bill to make smaller.")
	}
	return u.Settings.TerritoryChange(Billing(t.Billing), *a.Billing, paidaction.Msat(t.PaidMsat)), nil
}

// OnPaid changes the territory.
func (TerritoryUpdate) OnPaid(ctx context.Context, tx *paidaction.Tx, a TerritoryUpdateArgs, _ TerritoryResult) error {
	return payTerritory(ctx, tx, a.Name, func(t *db.Territory) {
		set(&t.Description, a.Description)
		set(&t.AutoRenew, a.AutoRenew)
		setCost(&t.BaseCostMsat, a.BaseCostSats)
		setCost(&t.ReplyCostMsat, a.ReplyCostSats)
		if a.Billing == nil {
			return
		}
		before := *t
		t.Billing = string(*a.Billing)
		if !a.Billing.longerThan(Billing(before.Billing)) {
			return
		}
		rent(t, *t.PeriodStart, paidaction.Msat(t.PaidMsat)+tx.Cost)
		if t.PaidUntil != nil && !t.PaidUntil.After(tx.Now) {
			// The longer period is over, too, so what was once paid for it ends no grace. Otherwise shortening and
			// lengthening it again, both free, would begin a new grace each time, and the territory would be free for
			// ever.
			t.State, t.GraceUntil, t.BillAt = before.State, before.GraceUntil, before.BillAt
		}
	})
}

func set[T any](to *T, given *T) {
	if given != nil {
		*to = *given
	}
}

// setCost sets msat to sats that Check has bounded.
func setCost(msat, sats *int64) {
	if sats != nil {
		*msat = *sats * 1000
	}
}

// Describe is what the payer's wallet shows.
func (TerritoryUpdate) Describe(a TerritoryUpdateArgs) string {
	return "change the territory " + a.Name
}

package community

import (
	"cmp"
	"context"
	"errors"
	"fmt"

	"github.com/jackc/pgx/v5"

	"github.com/a-seed-a7aed72f/holdfast/internal/db"
	"github.com/a-seed-a7aed72f/holdfast/paidaction"
)

// TerritoryCreate founds a territory, for one period.
type TerritoryCreate struct {
	paidaction.Base[TerritoryCreateArgs, TerritoryResult]
	Settings Settings
}

// TerritoryCreateArgs are the territory, and how it is paid for.
type TerritoryCreateArgs struct {
	Name          string  `json:"name"`
	Description   string  `json:"description,omitempty"`
	BaseCostSats  int64   `json:"baseCostSats"`  // of a post
	ReplyCostSats int64   `json:"replyCostSats"` // of a comment
	Billing       Billing `json:"billing"`
	AutoRenew     bool    `json:"autoRenew"` // pay from the founder's balance when due
}

// KindTerritoryCreate names the action.
const KindTerritoryCreate = "TERRITORY_CREATE"

// Spec follows the table of spec 02 §2.3.
func (TerritoryCreate) Spec() paidaction.Spec {
	return paidaction.Spec{Kind: KindTerritoryCreate, Methods: territoryMethods}
}

// Check refuses impossible names, texts, costs and billings.
func (c TerritoryCreate) Check(a TerritoryCreateArgs) error {
	return cmp.Or(checkTerritoryName(a.Name), checkText("description", a.Description, 0, maxDescription),
		c.Settings.checkItemCost(a.BaseCostSats), c.Settings.checkItemCost(a.ReplyCostSats), a.Billing.check())
}

// Cost is the price of the period. It refuses a name that is taken.
func (c TerritoryCreate) Cost(ctx context.Context, tx *paidaction.Tx, a TerritoryCreateArgs) (paidaction.Msat, error) {
	t, err := tx.DB.GetTerritory(ctx, a.Name)
	switch {
	case err == nil && t.State == territoryStopped:
		return 0, paidaction.Errorf(paidaction.CodeDuplicate, "The territory %s exists and is archived. Take it over, or choose another name.", a.Name)
	case err == nil:
		return 0, errTerritoryTaken(a.Name)
	case !errors.Is(err, pgx.ErrNoRows):
		return 0, fmt.Errorf("look for territory %s: %w", a.Name, err)
	}
	return c.Settings.TerritoryPrice(a.Billing), nil
}

func errTerritoryTaken(name string) error {
	return paidaction.Errorf(paidaction.CodeDuplicate, "The name %s is taken. Choose another one.", name)
}

// Perform founds the territory as pending. If two do so at once, the primary key lets one pass.
func (TerritoryCreate) Perform(ctx context.Context, tx *paidaction.Tx, a TerritoryCreateArgs) (TerritoryResult, error) {
	n, err := tx.DB.FoundTerritory(ctx, db.FoundTerritoryParams{Name: a.Name, FounderID: *tx.Payer, BaseCostMsat: a.BaseCostSats * 1000,
		ReplyCostMsat: a.ReplyCostSats * 1000, At: tx.Now, Billing: string(a.Billing), AutoRenew: a.AutoRenew, Description: a.Description,
		ActionID: tx.Action})
	if err != nil {
		return TerritoryResult{}, fmt.Errorf("found territory %s: %w", a.Name, err)
	}
	if n == 0 {
		return TerritoryResult{}, errTerritoryTaken(a.Name)
	}
	return TerritoryResult{Territory: a.Name}, nil
}

// OnPaid opens the territory to everybody: the period begins.
func (TerritoryCreate) OnPaid(ctx context.Context, tx *paidaction.Tx, a TerritoryCreateArgs, _ TerritoryResult) error {
	return payTerritory(ctx, tx, a.Name, func(t *db.Territory) { rentAnew(t, tx) })
}

// OnFail frees the name.
func (TerritoryCreate) OnFail(ctx context.Context, tx *paidaction.Tx, a TerritoryCreateArgs, _ TerritoryResult) error {
	n, err := tx.DB.DropTerritory(ctx, db.DropTerritoryParams{Name: a.Name, ActionID: tx.Action})
	if err != nil {
		return fmt.Errorf("drop territory %s: %w", a.Name, err)
	}
	if n == 0 {
		return errNotReserved(a.Name, tx.Action)
	}
	return nil
}

// Describe is what the payer's wallet shows.
func (TerritoryCreate) Describe(a TerritoryCreateArgs) string {
	return "create the territory " + a.Name
}

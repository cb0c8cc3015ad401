package community

import (
	"cmp"
	"context"
	"fmt"

	"github.com/a-seed-a7aed72f/holdfast/internal/db"
	"github.com/a-seed-a7aed72f/holdfast/paidaction"
)

// TerritoryUnarchive takes over a stopped territory for one period. Anybody may, including the old founder.
type TerritoryUnarchive struct {
	reservation[TerritoryUnarchiveArgs]
	Settings Settings
}

// TerritoryUnarchiveArgs say which territory, and how it is paid for from now on.
type TerritoryUnarchiveArgs struct {
	Name      string  `json:"name"`
	Billing   Billing `json:"billing"`
	AutoRenew bool    `json:"autoRenew"`
}

func (a TerritoryUnarchiveArgs) territory() string { return a.Name }

// KindTerritoryUnarchive names the action.
const KindTerritoryUnarchive = "TERRITORY_UNARCHIVE"

// Spec follows the table of spec 02 §2.3.
func (TerritoryUnarchive) Spec() paidaction.Spec {
	return paidaction.Spec{Kind: KindTerritoryUnarchive, Methods: territoryMethods}
}

// Check refuses impossible names and billings.
func (TerritoryUnarchive) Check(a TerritoryUnarchiveArgs) error {
	return cmp.Or(checkTerritoryName(a.Name), a.Billing.check())
}

// Cost is the price of the period. It refuses a territory that is not stopped.
func (u TerritoryUnarchive) Cost(ctx context.Context, tx *paidaction.Tx, a TerritoryUnarchiveArgs) (paidaction.Msat, error) {
	t, err := lockTerritory(ctx, tx, a.Name)
	if err != nil {
		return 0, err
	}
	if t.State != territoryStopped {
		return 0, paidaction.Errorf(paidaction.CodeInvalidInput, "This territory is not archived: it has a founder who runs it.")
	}
	return u.Settings.TerritoryPrice(a.Billing), nil
}

// OnPaid hands the territory over, and records from whom to whom.
func (TerritoryUnarchive) OnPaid(ctx context.Context, tx *paidaction.Tx, a TerritoryUnarchiveArgs, _ TerritoryResult) error {
	var from int64
	err := payTerritory(ctx, tx, a.Name, func(t *db.Territory) {
		from, t.FounderID = t.FounderID, *tx.Payer
		t.Billing, t.AutoRenew = string(a.Billing), a.AutoRenew
		rentAnew(t, tx)
	})
	if err != nil {
		return err
	}
	err = tx.DB.InsertTerritoryTransfer(ctx, db.InsertTerritoryTransferParams{Territory: a.Name, FromUser: from, ToUser: *tx.Payer,
		ActionID: tx.Action, At: tx.Now})
	if err != nil {
		return fmt.Errorf("record the transfer of territory %s: %w", a.Name, err)
	}
	return nil
}

// Describe is what the payer's wallet shows.
func (TerritoryUnarchive) Describe(a TerritoryUnarchiveArgs) string {
	return "take over the territory " + a.Name
}

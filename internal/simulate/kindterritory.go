package simulate

import (
	"fmt"

	"github.com/a-seed-a7aed72f/holdfast/community"
)

// territoryKinds pay for territories. All of it goes to the rewards. The price depends on what was paid before it, and
// is checked in the order in which the territories were paid for (see ages).
var territoryKinds = []*kind{
	{name: community.KindTerritoryCreate, weight: 2, first: true, methods: heldFirst,
		args: func(_ *world, r *request) any {
			return community.TerritoryCreateArgs{Name: newNames[r.draw%2], Description: fmt.Sprintf("act %d", r.id), BaseCostSats: 1, ReplyCostSats: 2,
				Billing: r.billing(), AutoRenew: r.draw>>12%2 == 0}
		},
		price: territoryPrice, shares: nobodys, leaves: paysTerritory},
	{name: community.KindTerritoryUpdate, weight: 2, first: true, methods: heldFirst,
		args: func(_ *world, r *request) any {
			args := community.TerritoryUpdateArgs{Name: r.territory(dueName, newNames[0]), Description: new(fmt.Sprintf("act %d", r.id))}
			if r.draw>>16%4 > 0 {
				args.Billing = new(r.billing())
			}
			if r.draw>>20%2 == 0 {
				args.AutoRenew = new(r.draw>>12%2 == 0)
			}
			return args
		},
		price: territoryPrice, shares: nobodys, leaves: paysTerritory},
	{name: community.KindTerritoryBilling, weight: 2, first: true, methods: heldFirst,
		args: func(_ *world, r *request) any {
			return community.TerritoryBillingArgs{Name: r.territory(dueName, newNames[0])}
		},
		price: territoryPrice, shares: nobodys, leaves: paysTerritory},
	{name: community.KindTerritoryUnarchive, weight: 2, methods: heldFirst,
		args: func(_ *world, r *request) any {
			return community.TerritoryUnarchiveArgs{Name: r.territory(stoppedName, dueName), Billing: r.billing(), AutoRenew: r.draw>>12%2 == 0}
		},
		price: territoryPrice, shares: nobodys, leaves: paysTerritory},
}

// Territories: one that is paid for ever, one that falls due, one that is stopped, and those that people may found.
const (
	landName    = "land"
	dueName     = "due"
	stoppedName = "stopped"
)

var newNames = [2]string{"new0", "new1"}

func (a *act) billing() community.Billing {
	return [...]community.Billing{community.Monthly, community.Monthly, community.Yearly, community.Once}[a.draw>>8%4]
}

// territory is mostly the first of these.
func (a *act) territory(mostly, otherwise string) string {
	if a.draw%4 > 0 {
		return mostly
	}
	return otherwise
}

// territoryPrice is a wide range, because what decides the price is known only at the end.
func territoryPrice(*model, *attempt) (least, most int64) { return 0, prices["ONCE"] }

func paysTerritory(m *model, a *attempt) {
	name, _ := a.args["name"].(string)
	m.territories[name] = append(m.territories[name], a)
}

package community_test

import (
	"encoding/json"
	"time"

	"github.com/a-seed-a7aed72f/holdfast/community"
	"github.com/a-seed-a7aed72f/holdfast/internal/db"
	"github.com/a-seed-a7aed72f/holdfast/internal/enginetest"
	"github.com/a-seed-a7aed72f/holdfast/ledger"
	"github.com/a-seed-a7aed72f/holdfast/paidaction"
)

// seeTerritories is what somebody sees of all territories; how they are billed is nobody's business.
func seeTerritories(w *enginetest.World) func(*int64) any {
	return func(viewer *int64) any {
		q := db.New(w.Pool)
		rows, err := q.TerritoriesAfter(w.Ctx, db.TerritoriesAfterParams{Viewer: viewer, Page: 100})
		if err != nil {
			w.Fatal(err)
		}
		all, names := []any{}, []string{"bitcoin"}
		for _, t := range rows {
			all = append(all, []any{t.Name, t.FounderID, t.State, t.Description, t.BaseCostMsat, t.ReplyCostMsat})
		}
		byName, err := q.TerritoriesByName(w.Ctx, db.TerritoriesByNameParams{Names: names, Viewer: viewer})
		if err != nil {
			w.Fatal(err)
		}
		transfers, err := q.TransfersOfTerritories(w.Ctx, db.TransfersOfTerritoriesParams{Territories: names, Before: 1 << 60, Page: 100})
		if err != nil {
			w.Fatal(err)
		}
		return []any{all, len(byName), transfers}
	}
}

// toRewards is where the price of a territory goes, all of it.
func toRewards(m paidaction.Method, cost paidaction.Msat) map[ledger.Account]int64 {
	return map[ledger.Account]int64{ledger.Rewards(assetOf(m)): int64(cost)}
}

func territoryCreateScene(w *enginetest.World, _ int64, m paidaction.Method) *scene {
	return &scene{args: createArgs("bitcoin", community.Monthly), cost: month, paid: toRewards(m, month), see: seeTerritories(w),
		spoil: func() { territory(w, "bitcoin", w.User("faster", 0, 0)) }}
}

// A month that becomes a year; or, where nothing is to be paid, another description.
func territoryUpdateScene(w *enginetest.World, payer int64, m paidaction.Method) *scene {
	found(w, payer, "bitcoin", community.Monthly)
	args := community.TerritoryUpdateArgs{Name: "bitcoin", Description: new("better than before")}
	s := &scene{cost: year - month, paid: toRewards(m, year-month), see: seeTerritories(w),
		spoil: func() { mustExec(w, `UPDATE territory SET founder_id = $1`, w.User("another", 0, 0)) }}
	if m == paidaction.ZeroCost {
		s.cost, s.paid = 0, nil
	} else {
		args.Billing = new(community.Yearly)
	}
	s.args = args
	return s
}

// Paid in its grace, which everybody sees.
func territoryBillingScene(w *enginetest.World, payer int64, m paidaction.Method) *scene {
	found(w, payer, "bitcoin", community.Monthly)
	w.Clock.Advance(32 * 24 * time.Hour)
	bill(w)
	return &scene{args: community.TerritoryBillingArgs{Name: "bitcoin"}, cost: month, paid: toRewards(m, month), see: seeTerritories(w),
		spoil: func() { w.Clock.Advance(6 * 24 * time.Hour); bill(w); w.Clock.Advance(-6 * 24 * time.Hour) }}
}

func territoryUnarchiveScene(w *enginetest.World, _ int64, m paidaction.Method) *scene {
	stopped(w, w.User("founder", 0, 0), "bitcoin")
	return &scene{args: community.TerritoryUnarchiveArgs{Name: "bitcoin", Billing: community.Monthly}, cost: month, paid: toRewards(m, month),
		see: seeTerritories(w), spoil: func() {
			faster := w.User("faster", year, 0)
			w.Pay(faster, community.KindTerritoryUnarchive, community.TerritoryUnarchiveArgs{Name: "bitcoin", Billing: community.Yearly}, paidaction.FeeCredit)
		}}
}

// What a territory costs, in msat.
const (
	month = 50_000 * sat
	year  = 500_000 * sat
	once  = 3_000_000 * sat
)

func createArgs(name string, b community.Billing) community.TerritoryCreateArgs {
	return community.TerritoryCreateArgs{Name: name, BaseCostSats: 10, ReplyCostSats: 2, Billing: b}
}

// found has somebody found a territory, with money that they are given for it.
func found(w *enginetest.World, founder int64, name string, b community.Billing) {
	w.Helper()
	args := createArgs(name, b)
	give(w, founder, int64(community.DefaultSettings().TerritoryPrice(b)), 0)
	w.Pay(founder, community.KindTerritoryCreate, args, paidaction.FeeCredit)
}

// stopped is found for a month, and let go.
func stopped(w *enginetest.World, founder int64, name string) {
	w.Helper()
	found(w, founder, name, community.Monthly)
	w.Clock.Advance(31 * 24 * time.Hour)
	bill(w)
	w.Clock.Advance(5 * 24 * time.Hour)
	bill(w)
	if t := lookAt(w, name); t.State != "STOPPED" {
		w.Fatalf("%+v", t)
	}
}

// give gives somebody credits and sats, in msat.
func give(w *enginetest.World, user, credits, sats int64) {
	w.Helper()
	var transfers []ledger.Transfer
	if credits > 0 {
		transfers = append(transfers, ledger.Transfer{From: ledger.Lightning, To: ledger.BackingSats, Msat: credits, Reason: "deposit"},
			ledger.Transfer{From: ledger.IssuedCredits, To: ledger.UserCredits(user), Msat: credits, Reason: "deposit"})
	}
	if sats > 0 {
		transfers = append(transfers, ledger.Transfer{From: ledger.Lightning, To: ledger.UserSats(user), Msat: sats, Reason: "deposit"})
	}
	if err := ledger.Post(w.Ctx, db.New(w.Pool), nil, w.Clock.Now(), transfers); err != nil {
		w.Fatal(err)
	}
}

// bill is the check of what is due.
func bill(w *enginetest.World) {
	w.Helper()
	if err := community.BillTerritories(w.Ctx, w.Engine, community.DefaultSettings()); err != nil {
		w.Fatal(err)
	}
}

func lookAt(w *enginetest.World, name string) db.Territory {
	w.Helper()
	t, err := db.New(w.Pool).GetTerritory(w.Ctx, name)
	if err != nil {
		w.Fatalf("territory %s: %v", name, err)
	}
	return t
}

// wantTerritory fails the test unless the territory is in this state, paid until then with this.
func wantTerritory(w *enginetest.World, name, state string, until *time.Time, paid paidaction.Msat) {
	w.Helper()
	t := lookAt(w, name)
	same := until == nil && t.PaidUntil == nil || until != nil && t.PaidUntil != nil && until.Equal(*t.PaidUntil)
	if t.State != state || !same || t.PaidMsat != int64(paid) || t.PendingAction != nil {
		raw, _ := json.Marshal(t)
		w.Errorf("got %s, want %s until %v, paid %d", raw, state, until, paid)
	}
}

func date(y int, m time.Month, d int) *time.Time {
	return new(time.Date(y, m, d, 0, 0, 0, 0, time.UTC))
}

package simulate

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"time"

	"github.com/a-seed-a7aed72f/holdfast/community"
	"github.com/a-seed-a7aed72f/holdfast/internal/simulate/simdb"
)

// renewal is the argument by which the server pays for a territory that renews itself. No client can give it.
const renewal = "renews"

// rented is a territory as it should be.
type rented struct {
	founder     int64
	billing     string
	renews      bool
	description string
	day         int // of the month, on which its periods begin
	start       time.Time
	until       *time.Time
	paid        int64
}

// periods are how long a territory can be paid for, in months, shortest first; 0 is for ever.
var periods = []struct {
	billing string
	months  int
}{{"MONTHLY", 1}, {"YEARLY", 12}, {"ONCE", 0}}

// rentAnew begins the periods at this moment.
func (t *rented) rentAnew(at time.Time, paid int64) {
	t.day = at.UTC().Day()
	t.rent(at, paid)
}

func (t *rented) rent(start time.Time, paid int64) {
	t.start, t.paid, t.until = start, paid, nil
	for _, p := range periods {
		if p.billing == t.billing && p.months > 0 {
			y, month, _ := start.UTC().Date()
			last := time.Date(y, month+time.Month(p.months)+1, 0, 0, 0, 0, 0, time.UTC)
			end := last.AddDate(0, 0, min(0, t.day-last.Day())).Add(start.Sub(start.Truncate(24 * time.Hour)))
			t.until = &end
		}
	}
}

func longer(billing, than string) bool {
	rank := func(b string) int {
		for i, p := range periods {
			if p.billing == b {
				return i
			}
		}
		return -1
	}
	return rank(billing) > rank(than)
}

// checkTerritories replays the payments for territories in the order in which they were made, which the territories'
// locks decided, and compares the outcome with what exists.
func (m *model) checkTerritories() error {
	w := m.world
	rows, err := w.database.queries().Territories(w.ctx)
	if err != nil {
		return err
	}
	transfers, err := w.database.queries().Transfers(w.ctx)
	if err != nil {
		return err
	}
	want := map[string]*rented{}
	for _, t := range w.plan.territories {
		if t.billing != "" {
			want[t.name] = &rented{founder: w.people[1], billing: t.billing, renews: t.renews, day: epoch.Add(t.due).Day(),
				start: epoch.Add(t.due).AddDate(0, -1, 0), until: new(epoch.Add(t.due)), paid: prices[t.billing]}
		}
	}
	var handed []simdb.TransfersRow
	for _, name := range slices.Sorted(maps.Keys(m.territories)) {
		slices.SortFunc(m.territories[name], func(a, b *attempt) int { return cmp.Compare(a.last, b.last) })
		for _, a := range m.territories[name] {
			before := want[name]
			if said := m.age(want, name, a); said != "" {
				w.violate("territory", "action %d (%s of %s for %d msat, %s): %s", a.id, a.kind.name, name, a.cost, a.changed, said)
				return nil
			}
			if a.kind.name == community.KindTerritoryUnarchive {
				handed = append(handed, simdb.TransfersRow{Territory: name, FromUser: before.founder, ToUser: *a.payer, ActionID: a.id})
				want[name].founder = *a.payer
			}
		}
	}
	for _, r := range rows {
		if r.Name != landName {
			m.checkTerritory(r, want[r.Name])
		}
		delete(want, r.Name)
	}
	for name := range want {
		w.violate("territory", "%s is paid for, and is not there", name)
	}
	if len(transfers) != len(handed) || slices.ContainsFunc(handed, func(t simdb.TransfersRow) bool { return !slices.Contains(transfers, t) }) {
		w.violate("territory", "%v were handed over, and should be %v", transfers, handed)
	}
	return nil
}

// age applies a payment to a territory, or says why it should not have been possible.
func (m *model) age(all map[string]*rented, name string, a *attempt) string {
	t := all[name]
	text, _ := a.args["description"].(string)
	billing, _ := a.args["billing"].(string)
	renews, _ := a.args["autoRenew"].(bool)
	if a.kind.name == community.KindTerritoryCreate {
		if t != nil || a.cost != prices[billing] {
			return fmt.Sprintf("there is one already, or it costs %d", prices[billing])
		}
		t = &rented{founder: *a.payer, billing: billing, renews: renews, description: text}
		t.rentAnew(a.changed, a.cost)
		all[name] = t
		return ""
	}
	if t == nil {
		return "there is none"
	}
	if a.kind.name == community.KindTerritoryUnarchive {
		if a.cost != prices[billing] || t.until == nil || a.changed.Before(t.until.Add(grace-early)) {
			return fmt.Sprintf("it is paid until %v, or costs %d", t.until, prices[billing])
		}
		t.billing, t.renews = billing, renews
		t.rentAnew(a.changed, a.cost)
		return ""
	}
	if t.founder != *a.payer {
		return fmt.Sprintf("its founder is user %d", t.founder)
	}
	if a.kind.name == community.KindTerritoryBilling {
		if t.until == nil || a.cost != prices[t.billing] || t.start.After(a.changed.Add(early)) {
			return fmt.Sprintf("it is paid from %s until %v, or costs %d", t.start, t.until, prices[t.billing])
		}
		if a.args[renewal] != nil && (!t.renews || t.until.After(a.changed.Add(early))) {
			return fmt.Sprintf("the server has paid for it, and it is due at %s, and renews itself: %t", t.until, t.renews)
		}
		t.rent(*t.until, a.cost)
		return ""
	}
	t.description = text
	if a.args["autoRenew"] != nil {
		t.renews = renews
	}
	price := int64(0)
	if longer(billing, t.billing) {
		price = max(0, prices[billing]-t.paid)
		t.billing = billing
		t.rent(t.start, t.paid+price)
	} else if billing != "" {
		t.billing = billing
	}
	if a.cost != price {
		return fmt.Sprintf("it should cost %d", price)
	}
	return ""
}

// checkTerritory compares one territory with what it should be.
func (m *model) checkTerritory(r simdb.TerritoriesRow, t *rented) {
	if t == nil {
		m.world.violate("territory", "%s is there, and nobody has paid for it", r.Name)
		return
	}
	same := (r.PaidUntil == nil) == (t.until == nil) && (t.until == nil || r.PaidUntil.Equal(*t.until))
	if r.FounderID != t.founder || r.Billing != t.billing || r.AutoRenew != t.renews || r.Description != t.description || r.PaidMsat != t.paid ||
		!r.PeriodStart.Equal(t.start) || r.PeriodDay != int16(t.day) || !same || r.PendingAction != nil {
		m.world.violate("territory", "%+v should be %+v", r, *t)
	}
	if t.until == nil {
		if r.State != "ACTIVE" {
			m.world.violate("territory", "%s is paid for ever, and is %s", r.Name, r.State)
		}
		return
	}
	over := m.world.Now().Sub(*t.until)
	for _, a := range m.attempts {
		if a.args["name"] == r.Name && a.changed.After(m.done[billsTerritories]) {
			return // it was reserved until then
		}
	}
	if r.State != "ACTIVE" && over < -early || r.State == "STOPPED" && over < grace-early ||
		r.State == "ACTIVE" && m.overdue(billsTerritories, *t.until) || r.State == "GRACE" && m.overdue(billsTerritories, *r.GraceUntil) {
		m.world.violate("territory", "%s is %s, and was paid until %s", r.Name, r.State, t.until)
	}
}

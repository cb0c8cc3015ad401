package community_test

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/a-seed-a7aed72f/holdfast/community"
	"github.com/a-seed-a7aed72f/holdfast/internal/db"
	"github.com/a-seed-a7aed72f/holdfast/internal/enginetest"
	"github.com/a-seed-a7aed72f/holdfast/ledger"
	"github.com/a-seed-a7aed72f/holdfast/paidaction"
)

// A period ends on the day of the month from which they are counted, or on the last one of a month that is shorter.
func TestPeriodsAreOfTheCalendar(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		billing    community.Billing
		start, end *time.Time
		day        int
	}{
		{community.Monthly, date(2026, 1, 1), date(2026, 2, 1), 1},
		{community.Monthly, date(2026, 1, 31), date(2026, 2, 28), 31},
		{community.Monthly, date(2026, 2, 28), date(2026, 3, 31), 31},
		{community.Monthly, date(2028, 1, 30), date(2028, 2, 29), 30},
		{community.Monthly, date(2026, 2, 28), date(2026, 3, 28), 28},
		{community.Monthly, date(2026, 12, 31), date(2027, 1, 31), 31},
		{community.Yearly, date(2028, 2, 29), date(2029, 2, 28), 29},
		{community.Yearly, date(2031, 2, 28), date(2032, 2, 29), 29},
		{community.Yearly, date(2026, 2, 28), date(2027, 2, 28), 31},
		{community.Yearly, date(2026, 1, 1), date(2027, 1, 1), 1},
		{community.Once, date(2026, 1, 1), nil, 1},
	} {
		end := c.billing.End(*c.start, c.day)
		if (end == nil) != (c.end == nil) || end != nil && !end.Equal(*c.end) {
			t.Errorf("%s from %s ends %v, want %v", c.billing, c.start, end, c.end)
		}
	}
	rapid.Check(t, func(t *rapid.T) {
		zone := time.FixedZone("somewhere", rapid.IntRange(-12*3600, 14*3600).Draw(t, "zone"))
		start := time.Unix(rapid.Int64Range(0, 4e9).Draw(t, "start"), 0).UTC()
		end, months := start, 0
		for _, b := range rapid.SliceOfN(rapid.SampledFrom([]community.Billing{community.Monthly, community.Yearly}), 1, 30).Draw(t, "periods") {
			end = *b.End(end.In(zone), start.Day())
			months += map[community.Billing]int{community.Monthly: 1, community.Yearly: 12}[b]
		}
		// They end where one period of that many months does.
		last := time.Date(start.Year(), start.Month()+time.Month(months)+1, 0, 0, 0, 0, 0, time.UTC)
		want := last.AddDate(0, 0, min(start.Day(), last.Day())-last.Day()).Add(start.Sub(start.Truncate(24 * time.Hour)))
		if !end.Equal(want) {
			t.Fatalf("%d months from %s end %s, want %s", months, start, end, want)
		}
	})
}

// From the 31st on a territory is paid until the last day of each month, however and whenever its periods are paid; who takes it over begins anew.
func TestPeriodsDoNotDrift(t *testing.T) {
	t.Parallel()
	w := enginetest.New(t, paidaction.Settings{})
	founder, heir := w.User("founder", 2*year, 0), w.User("heir", 2*month, 0)
	at := func(m time.Month, day int) {
		w.Helper()
		w.Clock.Advance(date(2026, m, day).Sub(w.Clock.Now()))
		bill(w)
	}
	pay := func(payer int64) {
		w.Helper()
		w.Pay(payer, community.KindTerritoryBilling, community.TerritoryBillingArgs{Name: "bitcoin"}, "")
	}
	change := func(a community.TerritoryUpdateArgs) {
		w.Helper()
		a.Name = "bitcoin"
		w.Pay(founder, community.KindTerritoryUpdate, a, "")
	}
	at(1, 31)
	found(w, founder, "bitcoin", community.Monthly)
	wantTerritory(w, "bitcoin", "ACTIVE", date(2026, 2, 28), month)
	at(2, 10)
	pay(founder) // ahead
	wantTerritory(w, "bitcoin", "ACTIVE", date(2026, 3, 31), month)
	at(4, 2)
	pay(founder) // in its grace
	wantTerritory(w, "bitcoin", "ACTIVE", date(2026, 4, 30), month)
	change(community.TerritoryUpdateArgs{AutoRenew: new(true)})
	at(4, 30) // by itself
	wantTerritory(w, "bitcoin", "ACTIVE", date(2026, 5, 31), month)
	change(community.TerritoryUpdateArgs{Billing: new(community.Yearly)}) // the period that began on 30 April
	wantTerritory(w, "bitcoin", "ACTIVE", date(2027, 4, 30), year)
	change(community.TerritoryUpdateArgs{Billing: new(community.Monthly), AutoRenew: new(false)})
	pay(founder)
	wantTerritory(w, "bitcoin", "ACTIVE", date(2027, 5, 31), month)

	w.Clock.Advance(date(2027, 6, 1).Sub(w.Clock.Now()))
	bill(w)
	w.Clock.Advance(date(2027, 6, 29).Sub(w.Clock.Now()))
	bill(w)
	w.Pay(heir, community.KindTerritoryUnarchive, community.TerritoryUnarchiveArgs{Name: "bitcoin", Billing: community.Monthly}, "")
	wantTerritory(w, "bitcoin", "ACTIVE", date(2027, 7, 29), month)
	pay(heir)
	wantTerritory(w, "bitcoin", "ACTIVE", date(2027, 8, 29), month)
}

// spec 05.8: whatever the settings, no change has a negative price, and one that is shorter has none.
func TestNoChangeOfATerritoryHasANegativePrice(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		price := func(name string) paidaction.Msat {
			return paidaction.Msat(rapid.Int64Range(1, int64(paidaction.MaxMsat)).Draw(t, name))
		}
		s := community.DefaultSettings()
		s.TerritoryMonthly, s.TerritoryYearly, s.TerritoryOnce = price("monthly"), price("yearly"), price("once")
		if err := s.Check(); err != nil {
			t.Fatal(err)
		}
		billing := rapid.SampledFrom(community.Billings).Draw(t, "billing")
		paid, charged := s.TerritoryPrice(billing), s.TerritoryPrice(billing)
		for range 10 {
			to := rapid.SampledFrom(community.Billings).Draw(t, "to")
			cost := s.TerritoryChange(billing, to, paid)
			longer := slices.Index(community.Billings, to) > slices.Index(community.Billings, billing)
			switch {
			case cost < 0, !longer && cost != 0, longer && cost != max(0, s.TerritoryPrice(to)-paid):
				t.Fatalf("%s to %s, paid %d, costs %d", billing, to, paid, cost)
			}
			if longer {
				paid += cost
			}
			charged += cost
			billing = to
		}
		// Going up and down again and again is never cheaper than, nor dearer than, the dearest of what was had.
		if charged != paid {
			t.Fatalf("charged %d, and %d counts", charged, paid)
		}
	})
}

func TestPricesOfTerritories(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		billing community.Billing
		cost    paidaction.Msat
		until   *time.Time
	}{{community.Monthly, month, date(2026, 2, 1)}, {community.Yearly, year, date(2027, 1, 1)}, {community.Once, once, nil}} {
		t.Run(string(c.billing), func(t *testing.T) {
			t.Parallel()
			w := enginetest.New(t, paidaction.Settings{})
			founder := w.User("founder", int64(c.cost), 0)
			pa := w.Pay(founder, community.KindTerritoryCreate, createArgs("bitcoin", c.billing), "")
			if pa.Cost != c.cost || pa.Method != paidaction.FeeCredit {
				t.Errorf("%+v", pa)
			}
			wantTerritory(w, "bitcoin", "ACTIVE", c.until, c.cost)
			// The founder gets no share of what is paid for the territory itself.
			w.WantBalance(ledger.UserCredits(founder), 0)
			w.WantBalance(ledger.RewardCredits, int64(c.cost))
			w.WantConserved()
			post := w.Pay(w.User("author", 100*sat, 0), community.KindItemCreate, community.ItemCreateArgs{Title: "hello", Territory: "bitcoin"}, "")
			if post.Cost != 10*sat {
				t.Errorf("a post costs %d", post.Cost)
			}
		})
	}
}

// Territories of before have neither a period nor an end, and nobody is billed for them.
func TestTerritoriesOfBeforeArePaidForEver(t *testing.T) {
	t.Parallel()
	w := enginetest.New(t, paidaction.Settings{})
	founder := w.User("founder", once, 0)
	territory(w, "old", founder)
	w.Clock.Advance(100 * 365 * 24 * time.Hour)
	bill(w)
	wantTerritory(w, "old", "ACTIVE", nil, 0)
	if t0 := lookAt(w, "old"); t0.Billing != "ONCE" {
		t.Errorf("%+v", t0)
	}
	for _, args := range []any{community.TerritoryBillingArgs{Name: "old"}, community.TerritoryUpdateArgs{Name: "old", Billing: new(community.Yearly)}} {
		kind := community.KindTerritoryBilling
		if _, ok := args.(community.TerritoryUpdateArgs); ok {
			kind = community.KindTerritoryUpdate
		}
		_, err := w.Try(founder, kind, args, "", "")
		w.WantRefusal(err, paidaction.CodeInvalidInput)
	}
	pa := w.Pay(founder, community.KindTerritoryUpdate, community.TerritoryUpdateArgs{Name: "old", BaseCostSats: new(int64(7))}, "")
	if pa.Method != paidaction.ZeroCost || lookAt(w, "old").BaseCostMsat != 7*sat {
		t.Errorf("%+v", pa)
	}
	w.WantBalance(ledger.UserCredits(founder), once)
}

// A longer billing costs the difference, and counts from the period's beginning.
func TestUpgradeCostsTheDifference(t *testing.T) {
	t.Parallel()
	w := enginetest.New(t, paidaction.Settings{})
	founder := w.User("founder", once, 0)
	found(w, founder, "bitcoin", community.Monthly)
	w.Clock.Advance(20 * 24 * time.Hour)
	change := func(b community.Billing, cost paidaction.Msat, until *time.Time, paid paidaction.Msat) {
		t.Helper()
		pa := w.Pay(founder, community.KindTerritoryUpdate, community.TerritoryUpdateArgs{Name: "bitcoin", Billing: &b}, "")
		if pa.Cost != cost {
			t.Errorf("%s costs %d, want %d", b, pa.Cost, cost)
		}
		wantTerritory(w, "bitcoin", "ACTIVE", until, paid)
	}
	change(community.Monthly, 0, date(2026, 2, 1), month) // as it is
	change(community.Yearly, year-month, date(2027, 1, 1), year)
	change(community.Once, once-year, nil, once)
	change(community.Once, 0, nil, once)
	w.WantBalance(ledger.UserCredits(founder), month)
	w.WantBalance(ledger.RewardCredits, once)
	w.WantConserved()
}

// spec 05.8: a shorter billing pays nothing out. What was paid for stays, the next bill is the smaller one.
func TestDowngradePaysNothingOut(t *testing.T) {
	t.Parallel()
	w := enginetest.New(t, paidaction.Settings{})
	founder := w.User("founder", 0, 0)
	found(w, founder, "bitcoin", community.Yearly)
	for range 3 {
		for _, b := range []community.Billing{community.Monthly, community.Yearly, community.Monthly} {
			pa := w.Pay(founder, community.KindTerritoryUpdate, community.TerritoryUpdateArgs{Name: "bitcoin", Billing: &b}, "")
			if pa.Cost != 0 || pa.Method != paidaction.ZeroCost || pa.State != paidaction.Paid {
				t.Errorf("%+v", pa)
			}
			wantTerritory(w, "bitcoin", "ACTIVE", date(2027, 1, 1), year)
		}
	}
	w.WantBalance(ledger.UserCredits(founder), 0)
	w.WantBalance(ledger.UserSats(founder), 0)
	w.WantBalance(ledger.RewardCredits, year)
	give(w, founder, month, 0)
	w.Pay(founder, community.KindTerritoryBilling, community.TerritoryBillingArgs{Name: "bitcoin"}, "")
	wantTerritory(w, "bitcoin", "ACTIVE", date(2027, 2, 1), month)
	w.WantConserved()
}

func TestOnlyWhatIsGivenChanges(t *testing.T) {
	t.Parallel()
	w := enginetest.New(t, paidaction.Settings{})
	founder := w.User("founder", 0, 0)
	found(w, founder, "bitcoin", community.Monthly)
	want := lookAt(w, "bitcoin")
	update := func(a community.TerritoryUpdateArgs) {
		t.Helper()
		a.Name = "bitcoin"
		if pa := w.Pay(founder, community.KindTerritoryUpdate, a, ""); pa.Method != paidaction.ZeroCost {
			t.Errorf("%+v", pa)
		}
		if got := lookAt(w, "bitcoin"); fmt.Sprintf("%+v", publicly(got)) != fmt.Sprintf("%+v", publicly(want)) {
			t.Errorf("got %+v, want %+v", publicly(got), publicly(want))
		}
	}
	want.Description = "Money"
	update(community.TerritoryUpdateArgs{Description: new("Money")})
	want.AutoRenew = true
	update(community.TerritoryUpdateArgs{AutoRenew: new(true)})
	want.BaseCostMsat = 21 * sat
	update(community.TerritoryUpdateArgs{BaseCostSats: new(int64(21))})
	want.ReplyCostMsat = 3 * sat
	update(community.TerritoryUpdateArgs{ReplyCostSats: new(int64(3))})
	want.Description, want.AutoRenew = "", false
	update(community.TerritoryUpdateArgs{Description: new(""), AutoRenew: new(false)})
}

// publicly is a territory without pointers, to be compared.
func publicly(t db.Territory) db.Territory {
	t.PeriodStart, t.PeriodDay, t.PaidUntil, t.BillAt = nil, nil, nil, nil
	return t
}

func TestTerritoriesThatAreRefused(t *testing.T) {
	t.Parallel()
	w := enginetest.New(t, paidaction.Settings{})
	founder, other := w.User("founder", 10*once, 10*once), w.User("other", 10*once, 10*once)
	stopped(w, founder, "archived")
	found(w, founder, "monthly", community.Monthly)
	found(w, founder, "ahead", community.Monthly)
	w.Pay(founder, community.KindTerritoryBilling, community.TerritoryBillingArgs{Name: "ahead"}, "")
	found(w, founder, "once", community.Once)
	rich := func() (all []int64) {
		for _, u := range []int64{founder, other} {
			all = append(all, w.Balance(ledger.UserCredits(u)), w.Balance(ledger.UserSats(u)))
		}
		return append(all, w.Count(`SELECT count(*) FROM paid_action`), w.Count(`SELECT count(*) FROM territory_transfer`),
			w.Count(`SELECT ('x' || left(md5(string_agg(territory::text, '|' ORDER BY name)), 15))::bit(60)::bigint FROM territory`))
	}
	before := rich()
	create := func(change func(*community.TerritoryCreateArgs)) community.TerritoryCreateArgs {
		a := createArgs("fresh", community.Monthly)
		change(&a)
		return a
	}
	type update = community.TerritoryUpdateArgs
	for name, c := range map[string]struct {
		user int64
		kind string
		args any
		code paidaction.Code
	}{
		"no name":                  {other, community.KindTerritoryCreate, create(func(a *community.TerritoryCreateArgs) { a.Name = "" }), paidaction.CodeInvalidInput},
		"capital letters":          {other, community.KindTerritoryCreate, create(func(a *community.TerritoryCreateArgs) { a.Name = "Fresh" }), paidaction.CodeInvalidInput},
		"a line after the name":    {other, community.KindTerritoryCreate, create(func(a *community.TerritoryCreateArgs) { a.Name = "fresh\n" }), paidaction.CodeInvalidInput},
		"too long a name":          {other, community.KindTerritoryCreate, create(func(a *community.TerritoryCreateArgs) { a.Name = strings.Repeat("x", 33) }), paidaction.CodeInvalidInput},
		"too long a description":   {other, community.KindTerritoryCreate, create(func(a *community.TerritoryCreateArgs) { a.Description = strings.Repeat("ä", 1001) }), paidaction.CodeInvalidInput},
		"a zero byte":              {other, community.KindTerritoryCreate, create(func(a *community.TerritoryCreateArgs) { a.Description = "\x00" }), paidaction.CodeInvalidInput},
		"posts for nothing":        {other, community.KindTerritoryCreate, create(func(a *community.TerritoryCreateArgs) { a.BaseCostSats = 0 }), paidaction.CodeInvalidAmount},
		"replies below nothing":    {other, community.KindTerritoryCreate, create(func(a *community.TerritoryCreateArgs) { a.ReplyCostSats = -1 }), paidaction.CodeInvalidAmount},
		"too dear posts":           {other, community.KindTerritoryCreate, create(func(a *community.TerritoryCreateArgs) { a.BaseCostSats = 100_001 }), paidaction.CodeInvalidAmount},
		"overflowing replies":      {other, community.KindTerritoryCreate, create(func(a *community.TerritoryCreateArgs) { a.ReplyCostSats = 1 << 62 }), paidaction.CodeInvalidAmount},
		"no billing":               {other, community.KindTerritoryCreate, create(func(a *community.TerritoryCreateArgs) { a.Billing = "" }), paidaction.CodeInvalidInput},
		"weekly":                   {other, community.KindTerritoryCreate, create(func(a *community.TerritoryCreateArgs) { a.Billing = "WEEKLY" }), paidaction.CodeInvalidInput},
		"a name that is taken":     {other, community.KindTerritoryCreate, createArgs("monthly", community.Once), paidaction.CodeDuplicate},
		"one's own name":           {founder, community.KindTerritoryCreate, createArgs("monthly", community.Once), paidaction.CodeDuplicate},
		"an archived name":         {other, community.KindTerritoryCreate, createArgs("archived", community.Once), paidaction.CodeDuplicate},
		"create anonymously":       {0, community.KindTerritoryCreate, createArgs("fresh", community.Monthly), paidaction.CodeUnauthenticated},
		"change another's":         {other, community.KindTerritoryUpdate, update{Name: "monthly", AutoRenew: new(true)}, paidaction.CodeForbidden},
		"change nothing":           {founder, community.KindTerritoryUpdate, update{Name: "monthly"}, paidaction.CodeInvalidInput},
		"change what is not there": {founder, community.KindTerritoryUpdate, update{Name: "nowhere", AutoRenew: new(true)}, paidaction.CodeNotFound},
		"change an impossible one": {founder, community.KindTerritoryUpdate, update{Name: "\x00", AutoRenew: new(true)}, paidaction.CodeInvalidInput},
		"change an archived one":   {founder, community.KindTerritoryUpdate, update{Name: "archived", AutoRenew: new(true)}, community.CodeArchived},
		"change to weekly":         {founder, community.KindTerritoryUpdate, update{Name: "monthly", Billing: new(community.Billing("WEEKLY"))}, paidaction.CodeInvalidInput},
		"change to a novel":        {founder, community.KindTerritoryUpdate, update{Name: "monthly", Description: new(strings.Repeat("x", 1001))}, paidaction.CodeInvalidInput},
		"change to no cost":        {founder, community.KindTerritoryUpdate, update{Name: "monthly", BaseCostSats: new(int64(0))}, paidaction.CodeInvalidAmount},
		"change to any cost":       {founder, community.KindTerritoryUpdate, update{Name: "monthly", ReplyCostSats: new(int64(100_001))}, paidaction.CodeInvalidAmount},
		"back from for ever":       {founder, community.KindTerritoryUpdate, update{Name: "once", Billing: new(community.Monthly)}, paidaction.CodeInvalidInput},
		"change anonymously":       {0, community.KindTerritoryUpdate, update{Name: "monthly", AutoRenew: new(true)}, paidaction.CodeUnauthenticated},
		"pay for another's":        {other, community.KindTerritoryBilling, community.TerritoryBillingArgs{Name: "monthly"}, paidaction.CodeForbidden},
		"pay for what is for ever": {founder, community.KindTerritoryBilling, community.TerritoryBillingArgs{Name: "once"}, paidaction.CodeInvalidInput},
		"pay two periods ahead":    {founder, community.KindTerritoryBilling, community.TerritoryBillingArgs{Name: "ahead"}, paidaction.CodeDuplicate},
		"pay for an archived one":  {founder, community.KindTerritoryBilling, community.TerritoryBillingArgs{Name: "archived"}, community.CodeArchived},
		"pay for nothing":          {founder, community.KindTerritoryBilling, community.TerritoryBillingArgs{Name: "nowhere"}, paidaction.CodeNotFound},
		"take over an active one":  {other, community.KindTerritoryUnarchive, community.TerritoryUnarchiveArgs{Name: "monthly", Billing: community.Once}, paidaction.CodeInvalidInput},
		"take over nothing":        {other, community.KindTerritoryUnarchive, community.TerritoryUnarchiveArgs{Name: "nowhere", Billing: community.Once}, paidaction.CodeNotFound},
		"take over for a week":     {other, community.KindTerritoryUnarchive, community.TerritoryUnarchiveArgs{Name: "archived", Billing: "WEEKLY"}, paidaction.CodeInvalidInput},
		"take over anonymously":    {0, community.KindTerritoryUnarchive, community.TerritoryUnarchiveArgs{Name: "archived", Billing: community.Once}, paidaction.CodeUnauthenticated},
		"post in an archived one":  {other, community.KindItemCreate, community.ItemCreateArgs{Title: "x", Territory: "archived"}, community.CodeArchived},
	} {
		_, err := w.Try(c.user, c.kind, c.args, "", "")
		if w.WantRefusal(err, c.code); t.Failed() {
			t.Fatal(name)
		}
	}
	for _, m := range []paidaction.Method{paidaction.Optimistic, paidaction.P2P} {
		_, err := w.Try(other, community.KindTerritoryCreate, createArgs("fresh", community.Monthly), m, "")
		w.WantRefusal(err, paidaction.CodeMethodUnavailable)
	}
	if after := rich(); !slices.Equal(after, before) {
		t.Errorf("before %v, after %v", before, after)
	}
}

// What is not paid for is seen by its founder alone, nobody writes in it, and if the payment fails its name is free again.
func TestPendingTerritory(t *testing.T) {
	t.Parallel()
	w := enginetest.New(t, paidaction.Settings{})
	founder, other := w.User("founder", 100*sat, 0), w.User("other", 10*once, 0)
	pa := heldPayment(w, founder, community.KindTerritoryCreate, createArgs("bitcoin", community.Monthly))
	if got := lookAt(w, "bitcoin"); got.State != "PENDING" {
		t.Fatalf("%+v", got)
	}
	for _, viewer := range []*int64{&founder, &other, nil} {
		rows, err := db.New(w.Pool).TerritoriesByName(w.Ctx, db.TerritoriesByNameParams{Names: []string{"bitcoin"}, Viewer: viewer})
		if err != nil || (len(rows) == 1) != (viewer == &founder) {
			t.Errorf("%d rows, %v", len(rows), err)
		}
	}
	for _, user := range []int64{founder, other} {
		_, err := w.Try(user, community.KindItemCreate, community.ItemCreateArgs{Title: "too early", Territory: "bitcoin"}, "", "")
		w.WantRefusal(err, paidaction.CodeNotFound)
	}
	_, err := w.Try(other, community.KindTerritoryCreate, createArgs("bitcoin", community.Monthly), "", "")
	w.WantRefusal(err, paidaction.CodeDuplicate)
	_, err = w.Try(other, community.KindTerritoryUnarchive, community.TerritoryUnarchiveArgs{Name: "bitcoin", Billing: community.Once}, "", "")
	w.WantRefusal(err, paidaction.CodeNotFound)
	_, err = w.Try(founder, community.KindTerritoryUpdate, community.TerritoryUpdateArgs{Name: "bitcoin", AutoRenew: new(true)}, "", "")
	w.WantRefusal(err, paidaction.CodeTryAgain)
	bill(w)

	giveBack(w, pa)
	if n := w.Count(`SELECT count(*) FROM territory`); n != 0 {
		t.Errorf("%d territories", n)
	}
	w.Pay(other, community.KindTerritoryCreate, createArgs("bitcoin", community.Monthly), paidaction.FeeCredit)
	// The one who was too slow tries again, and learns why it cannot be.
	_, err = w.Engine.Retry(w.Ctx, enginetest.Caller(founder), pa.ID, "", paidaction.Terms{}, nil)
	w.WantRefusal(err, paidaction.CodeDuplicate)
	w.WantConserved()
}

// What has gone wrong is told where a territory is not reserved for the payment that has it performed, undone or paid.
func TestATerritoryThatIsNotReservedIsAFault(t *testing.T) {
	t.Parallel()
	w := enginetest.New(t, paidaction.Settings{})
	tx := &paidaction.Tx{DB: db.New(w.Pool), Action: 7, Now: w.Clock.Now()}
	_, performed := community.TerritoryUpdate{}.Perform(w.Ctx, tx, community.TerritoryUpdateArgs{Name: "nowhere"})
	for what, err := range map[string]error{
		"performed": performed,
		"undone":    community.TerritoryUpdate{}.OnFail(w.Ctx, tx, community.TerritoryUpdateArgs{Name: "nowhere"}, community.TerritoryResult{}),
		"dropped":   community.TerritoryCreate{}.OnFail(w.Ctx, tx, community.TerritoryCreateArgs{Name: "nowhere"}, community.TerritoryResult{}),
	} {
		if err == nil || err.Error() != "territory nowhere is not reserved for action 7" {
			t.Errorf("%s: %v", what, err)
		}
	}
	found(w, w.User("founder", 0, 0), "bitcoin", community.Monthly)
	for what, reserve := range map[string]string{"for nobody": `UPDATE territory SET pending_action = NULL`,
		"for another": `UPDATE territory SET pending_action = (SELECT min(id) FROM paid_action)`} {
		mustExec(w, reserve)
		err := community.TerritoryUpdate{}.OnPaid(w.Ctx, tx, community.TerritoryUpdateArgs{Name: "bitcoin", Description: new("changed")}, community.TerritoryResult{})
		if err == nil || err.Error() != "territory bitcoin is not reserved for action 7" || lookAt(w, "bitcoin").Description == "changed" {
			t.Errorf("paid, reserved %s: %v", what, err)
		}
	}
}

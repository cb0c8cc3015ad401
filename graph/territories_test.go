package graph_test

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/a-seed-a7aed72f/holdfast/community"
	"github.com/a-seed-a7aed72f/holdfast/graph"
)

const territoryFields = `name state description founder { name } baseCostMsat replyCostMsat billing autoRenew paidUntil graceUntil`

// A territory's life: founded, changed, paid for, in grace, stopped, taken over. Only its founder sees how it is
// billed.
func TestTerritory(t *testing.T) {
	t.Parallel()
	a := serve(t)
	founder, heir := a.Person("founder", 600_000, 0), a.Person("heir", 50_000, 0)
	bill := func() {
		t.Helper()
		if err := community.BillTerritories(a.Ctx, a.Engine, community.DefaultSettings()); err != nil {
			t.Fatal(err)
		}
	}
	want := func(r answer, field string, as ...string) {
		t.Helper()
		got := r.at(field)
		if result := r.at(field, "result", "territory"); result != nil {
			got = result
		}
		if text := fmt.Sprint(got); !contains(text, as) {
			t.Errorf("got %s, want %q", text, as)
		}
	}
	r := a.Want(founder, `mutation { territoryCreate(name: "bitcoin", description: "Money", baseCostSats: 10, replyCostSats: 2, billing: MONTHLY) {
		state costSats result { territory { `+territoryFields+` } } } }`, nil)
	want(r, "territoryCreate", "name:bitcoin", "state:ACTIVE", "description:Money", "founder:map[name:founder]", "baseCostMsat:10000", "replyCostMsat:2000",
		"billing:MONTHLY", "autoRenew:false", "paidUntil:2026-02-01T00:00:00Z", "graceUntil:<nil>")
	for _, as := range []person{heir, nobody} {
		want(a.Want(as, `{ territory(name: "bitcoin") { `+territoryFields+` } }`, nil), "territory",
			"state:ACTIVE", "description:Money", "billing:<nil>", "autoRenew:<nil>", "paidUntil:<nil>", "graceUntil:<nil>")
	}
	r = a.Want(founder, `mutation { territoryUpdate(name: "bitcoin", replyCostSats: 3, billing: YEARLY) { paymentMethod costSats result { territory { `+territoryFields+` } } } }`, nil)
	want(r, "territoryUpdate", "replyCostMsat:3000", "baseCostMsat:10000", "description:Money", "billing:YEARLY", "paidUntil:2027-01-01T00:00:00Z")
	if r.at("territoryUpdate", "costSats") != 450_000.0 {
		t.Errorf("%s", r.Raw)
	}
	r = a.Want(founder, `mutation($b: TerritoryBilling) { territoryUpdate(name: "bitcoin", billing: $b, description: null) { paymentMethod costSats result { territory { `+territoryFields+` } } } }`, vars{"b": "MONTHLY"})
	want(r, "territoryUpdate", "description:Money", "billing:MONTHLY", "paidUntil:2027-01-01T00:00:00Z")
	if r.text("territoryUpdate", "paymentMethod") != "ZERO_COST" {
		t.Errorf("%s", r.Raw)
	}
	const named = `mutation { territoryBilling(name: "bitcoin", paidUntil: "2027-01-01T00:00:00Z") { costSats result { territory { ` + territoryFields + ` } } } }`
	r = a.Want(founder, named, nil)
	want(r, "territoryBilling", "paidUntil:2027-02-01T00:00:00Z")
	if r := a.Do(founder, named, nil); r.code() != "DUPLICATE" {
		t.Errorf("%s", r.Raw)
	}

	a.Clock.Advance(400 * 24 * time.Hour)
	bill()
	want(a.Want(founder, `{ territory(name: "bitcoin") { `+territoryFields+` } }`, nil), "territory", "state:GRACE", "graceUntil:2027-02-10T00:00:00Z")
	want(a.Want(heir, `{ territory(name: "bitcoin") { `+territoryFields+` } }`, nil), "territory", "state:GRACE", "graceUntil:<nil>")
	a.Clock.Advance(5 * 24 * time.Hour)
	bill()
	want(a.Want(nobody, `{ territories { nodes { `+territoryFields+` } } }`, nil), "territories", "name:bitcoin", "state:STOPPED")
	want(a.Want(founder, `{ notifications { nodes { kind item { id } territory { name } } } }`, nil), "notifications",
		"kind:TERRITORY_STOPPED territory:map[name:bitcoin]", "kind:TERRITORY_DUE territory:map[name:bitcoin]")
	r = a.Want(heir, `mutation { territoryUnarchive(name: "bitcoin", billing: MONTHLY, autoRenew: true) { result { territory { `+territoryFields+`
		transfers { nodes { id from { name } to { name } at } next } } } } }`, nil)
	want(r, "territoryUnarchive", "founder:map[name:heir]", "state:ACTIVE", "autoRenew:true", "from:map[name:founder]", "to:map[name:heir]")
	a.WantConserved()
}

func contains(text string, all []string) bool {
	for _, s := range all {
		if !strings.Contains(text, s) {
			return false
		}
	}
	return true
}

// Only its founder sees a territory that is not paid for yet.
func TestPendingTerritoryIsItsFoundersAlone(t *testing.T) {
	t.Parallel()
	a := serve(t)
	founder, other := a.Person("founder", 0, 0), a.Person("other", 0, 0)
	r := a.Want(founder, `mutation { territoryCreate(name: "bitcoin", baseCostSats: 1, replyCostSats: 1, billing: ONCE) { id state result { territory { name } } invoice { bolt11 } } }`, nil)
	if r.text("territoryCreate", "state") != "PENDING_HELD" || r.at("territoryCreate", "result") != nil {
		t.Fatalf("%s", r.Raw)
	}
	a.PayInvoice(r.text("territoryCreate", "invoice", "bolt11"))
	a.Advance(number(t, r.text("territoryCreate", "id")))
	const query = `{ territory(name: "bitcoin") { state } territories { nodes { name } } }`
	if r := a.Want(founder, query, nil); r.text("territory", "state") != "PENDING" || !strings.Contains(r.Raw, `"nodes":[{"name":"bitcoin"}]`) {
		t.Errorf("%s", r.Raw)
	}
	for _, as := range []person{other, nobody} {
		if r := a.Want(as, query, nil); r.at("territory") != nil || !strings.Contains(r.Raw, `"nodes":[]`) {
			t.Errorf("%s", r.Raw)
		}
	}
	a.Drain()
	if r := a.Want(nobody, query, nil); r.text("territory", "state") != "ACTIVE" {
		t.Errorf("%s", r.Raw)
	}
}

// All territories come in pages by name, without a gap. With everything that belongs to them they need only a few
// queries.
func TestTerritoriesInPages(t *testing.T) {
	t.Parallel()
	asked := &recorder{}
	// So that fields share queries even on a busy machine.
	a := serve(t, recorded(t, asked), func(c *graph.Config) { c.GatherFor = 200 * time.Millisecond })
	reader := a.Person("reader", 1, 0)
	a.Want(reader, `mutation { donate(sats: 1) { id } }`, nil)
	for _, sql := range []string{
		`INSERT INTO usr (name, created_at) SELECT 'founder_' || n, $1 FROM generate_series(1, 100) n`,
		`INSERT INTO territory (name, founder_id, base_cost_msat, reply_cost_msat, created_at)
			SELECT 'place_' || lpad(n::text, 3, '0'), (SELECT id FROM usr WHERE name = 'founder_' || n), 1000, 1000, $1 FROM generate_series(1, 100) n`,
		`WITH action AS (INSERT INTO paid_action (kind, flow, method, state, payer_id, cost_msat, created_at, changed_at, args, result)
				SELECT 'DONATE', 'BALANCE', 'FEE_CREDIT', 'PAID', 1, 1000, $1, $1, '{}', '{}' FROM generate_series(1, 300) RETURNING id)
			INSERT INTO territory_transfer (territory, from_user, to_user, action_id, at)
			SELECT 'place_' || lpad((1 + id % 100)::text, 3, '0'), (SELECT min(id) FROM usr), (SELECT min(id) FROM usr) + id % 50, id, $1 FROM action`,
	} {
		if _, err := a.Pool.Exec(a.Ctx, sql, a.Clock.Now()); err != nil {
			t.Fatal(err)
		}
	}
	var names []string
	var after any
	for pages := 0; ; pages++ {
		r := a.Want(reader, `query($a: String) { territories(first: 33, after: $a) { next nodes { name } } }`, vars{"a": after})
		for _, n := range r.at("territories", "nodes").([]any) {
			names = append(names, n.(map[string]any)["name"].(string))
		}
		if after = r.at("territories", "next"); after == nil {
			if pages != 3 {
				t.Errorf("%d pages before the last", pages)
			}
			break
		}
	}
	for i, name := range names {
		if name != fmt.Sprintf("place_%03d", i+1) {
			t.Fatalf("%q", names)
		}
	}
	if len(names) != 100 {
		t.Errorf("%d names", len(names))
	}
	asked.take()
	r := a.Want(reader, `{ territories(first: 100) { nodes { name founder { name } transfers(first: 2) { next nodes { from { name } to { name } } } } } }`, nil)
	if n := len(asked.take()); n > 10 {
		t.Errorf("%d queries", n)
	}
	if strings.Count(r.Raw, `"from"`) != 200 || strings.Contains(r.Raw, `"next":null`) {
		t.Errorf("not two transfers each, and one more: %s", r.Raw)
	}
	for query, code := range map[string]string{
		`{ territories(first: 101) { next } }`:                                                                     "INVALID_INPUT",
		`{ territories(first: 0) { next } }`:                                                                       "INVALID_INPUT",
		`{ territory(name: "place_001") { transfers(first: 101) { next } } }`:                                      "INVALID_INPUT",
		`{ territories(first: 100) { nodes { transfers(first: 100) { nodes { id } } } } }`:                         "COMPLEXITY_LIMIT_EXCEEDED",
		`{ territories(after: "\u0000") { next } territory(name: "\u0000") { name } }`:                             "",
		`mutation { territoryBilling(name: "\u0000") { id } }`:                                                     "INVALID_INPUT",
		`mutation { territoryUnarchive(name: "place_001", billing: WEEKLY) { id } }`:                               "GRAPHQL_VALIDATION_FAILED",
		`mutation { territoryUnarchive(name: "place_001", billing: ONCE) { id } }`:                                 "INVALID_INPUT",
		`mutation { territoryUpdate(name: "place_001", autoRenew: true) { id } }`:                                  "FORBIDDEN",
		`mutation { territoryCreate(name: "place_001", baseCostSats: 1, replyCostSats: 1, billing: ONCE) { id } }`: "DUPLICATE",
		`mutation { territoryCreate(name: "x", baseCostSats: 1.5, replyCostSats: 1, billing: ONCE) { id } }`:       "INVALID_AMOUNT",
	} {
		if r := a.Do(reader, query, nil); r.code() != code {
			t.Errorf("%s: %s", query, r.Raw)
		}
	}
	if r := a.Do(nobody, `mutation { territoryBilling(name: "place_001") { id } }`, nil); r.code() != "UNAUTHENTICATED" {
		t.Errorf("%s", r.Raw)
	}
}

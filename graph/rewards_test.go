package graph_test

import (
	"fmt"
	"testing"
	"time"

	"github.com/a-seed-a7aed72f/holdfast/community"
	"github.com/a-seed-a7aed72f/holdfast/internal/db"
)

// Everybody sees what a day's pool was and who got it; those who got it are notified.
func TestRewardsOfADay(t *testing.T) {
	t.Parallel()
	a := serve(t)
	donor := a.Person("donor", 1000, 6)
	a.Want(donor, `mutation { credits: donate(sats: 10, paymentMethod: FEE_CREDIT) { id } sats: donate(sats: 6, paymentMethod: REWARD_SATS) { id } }`, nil)
	var authors []person
	for i := range 3 {
		author := a.Person(fmt.Sprintf("author%d", i), 100, 0)
		authors = append(authors, author)
		_, err := a.Pool.Exec(a.Ctx, `WITH zap AS (
				INSERT INTO paid_action (kind, flow, method, state, cost_msat, created_at, changed_at, args)
				SELECT 'ZAP', 'BALANCE', method, 'PAID', 1, $2, $2, '{}' FROM unnest(ARRAY['FEE_CREDIT', 'REWARD_SATS']::payment_method[]) AS method RETURNING id, method)
			INSERT INTO vote_event (action_id, item_id, author_id, micros, at, credits) SELECT id, 1, $1, $3, $2, method = 'FEE_CREDIT' FROM zap`,
			author.ID, a.Clock.Now(), 3-i)
		if err != nil {
			t.Fatal(err)
		}
	}
	const ask = `query($d: Date, $after: ID) { rewards(day: $d) { day poolCreditsMsat poolSatsMsat paidCreditsMsat paidSatsMsat paidAt
		receivers(first: 2, after: $after) { next nodes { rank user { name } creditsMsat satsMsat } } } rewardsMsat { credits } }`
	if r := a.Want(nobody, ask, nil); r.at("rewards") != nil {
		t.Errorf("before any day is paid: %s", r.Raw)
	}
	a.Clock.Advance(25 * time.Hour)
	if _, err := community.PayRewards(a.Ctx, db.New(a.Pool), a.Clock.Now(), community.DefaultSettings()); err != nil {
		t.Fatal(err)
	}

	r := a.Want(nobody, ask, vars{"d": "2026-01-01"})
	if r.text("rewards", "day") != "2026-01-01" || r.text("rewards", "poolCreditsMsat") != "10000" || r.text("rewards", "paidCreditsMsat") != "10000" ||
		r.text("rewards", "poolSatsMsat") != "6000" || r.text("rewards", "paidSatsMsat") != "6000" || r.text("rewardsMsat", "credits") != "0" || r.text("rewards", "receivers", "next") != "2" {
		t.Errorf("%s", r.Raw)
	}
	nodes, _ := r.at("rewards", "receivers", "nodes").([]any)
	next, _ := a.Want(nobody, ask, vars{"after": "2"}).at("rewards", "receivers", "nodes").([]any) // the last day
	if nodes = append(nodes, next...); len(nodes) != 3 {
		t.Fatalf("%d receivers: %v", len(nodes), nodes)
	}
	for i, want := range [][2]string{{"5000", "3000"}, {"3333", "2000"}, {"1667", "1000"}} {
		n := nodes[i].(map[string]any)
		if n["rank"] != float64(i+1) || n["creditsMsat"] != want[0] || n["satsMsat"] != want[1] || n["user"].(map[string]any)["name"] != fmt.Sprintf("author%d", i) {
			t.Errorf("rank %d is %v", i+1, n)
		}
	}
	if r := a.Want(nobody, ask, vars{"d": "2026-01-02"}); r.at("rewards") != nil {
		t.Errorf("of a day that is not paid: %s", r.Raw)
	}
	for _, bad := range []any{"yesterday", "2026-02-30", 20260101, ""} {
		if r := a.Do(nobody, ask, vars{"d": bad}); r.code() != "INVALID_INPUT" {
			t.Errorf("%v: %s", bad, r.Raw)
		}
	}
	if r := a.Do(nobody, `{ rewards { receivers(first: 101) { next } } }`, nil); r.code() != "INVALID_INPUT" {
		t.Errorf("a page that is too long: %s", r.Raw)
	}

	told := a.Want(authors[0], `{ notifications { nodes { kind day item { id } } } }`, nil)
	list, _ := told.at("notifications", "nodes").([]any)
	if len(list) != 1 || list[0].(map[string]any)["kind"] != "REWARD" || list[0].(map[string]any)["day"] != "2026-01-01" {
		t.Errorf("told: %s", told.Raw)
	}
}

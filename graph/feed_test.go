package graph_test

import (
	"strings"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/a-seed-a7aed72f/holdfast/community"
	"github.com/a-seed-a7aed72f/holdfast/internal/db"
)

// titles reads a feed to its end, in pages of two.
func (a *api) titles(as person, feed string) string {
	a.Helper()
	var all []string
	for after := any(nil); ; {
		r := a.Want(as, `query($after: String) { items(first: 2, after: $after`+feed+`) { nodes { title } next } }`, vars{"after": after})
		for _, n := range r.at("items", "nodes").([]any) {
			all = append(all, n.(map[string]any)["title"].(string))
		}
		if after = r.at("items", "next"); after == nil {
			return strings.Join(all, " ")
		}
	}
}

func TestFeedsOverTheWire(t *testing.T) {
	t.Parallel()
	a := serve(t)
	author, fan := a.Person("author", 10_000, 0), a.Person("fan", 0, 10_000)
	err := db.New(a.Pool).InsertTerritory(a.Ctx, db.InsertTerritoryParams{Name: "bitcoin", FounderID: author.ID, BaseCostMsat: 1000, ReplyCostMsat: 1000, CreatedAt: a.Clock.Now()})
	if err != nil {
		t.Fatal(err)
	}
	one := a.PostBy(author, "one")
	a.Want(author, `mutation { createPost(title: "two", territory: "bitcoin", boost: 5000) { id } }`, nil)
	a.Clock.Advance(time.Hour)
	three := a.PostBy(author, "three")
	// Authors see their own pending post, but not in a feed.
	a.Want(author, `mutation { createPost(title: "pending", paymentMethod: OPTIMISTIC) { id } }`, nil)
	vote := func(mutation, item string) answer {
		return a.Want(fan, `mutation($id: ID!) { vote: `+mutation+`(item: $id, sats: 1000) { state paymentMethod
			result { sats item { msat upvotes downMsat downvotes boostMsat } } } }`, vars{"id": item})
	}
	vote("zap", one)
	if r := vote("downZap", three); r.text("vote", "state") != "PAID" || r.text("vote", "result", "item", "downMsat") != "1000000" {
		t.Error(r.Raw)
	}
	if r := vote("boost", three); r.text("vote", "paymentMethod") != "REWARD_SATS" || r.text("vote", "result", "item", "boostMsat") != "1000000" {
		t.Error(r.Raw)
	}
	if err := pgx.BeginFunc(a.Ctx, a.Pool, func(tx pgx.Tx) error {
		q := db.New(tx)
		if err := q.PlanOnce(a.Ctx); err != nil {
			return err
		}
		_, err := community.FoldItems(a.Ctx, q, 100)
		return err
	}); err != nil {
		t.Fatal(err)
	}
	for feed, want := range map[string]string{
		"":                                    "three two one",
		", sort: NEW":                         "three two one",
		", sort: HOT":                         "two one three",
		", sort: TOP":                         "one two three",
		", sort: TOP, within: DAY":            "one two three",
		", sort: HOT, territory: \"bitcoin\"": "two",
		", territory: \"bitcoin\"":            "two",
		", territory: \"nowhere\"":            "",
		", territory: \"No, this is no territory's…\"": "",
	} {
		for _, as := range []person{author, nobody} {
			if got := a.titles(as, feed); got != want {
				t.Errorf("items(%s): %s, want %s", feed, got, want)
			}
		}
	}
	for _, feed := range []string{`after: "1"`, `within: WEEK`, `sort: HOT, within: YEAR`, `sort: TOP, after: "TkVXIDEgMQ"`} {
		if r := a.Do(nobody, `{ items(`+feed+`) { next } }`, nil); r.code() != "INVALID_INPUT" {
			t.Errorf("items(%s): %s", feed, r.Raw)
		}
	}
	for _, m := range []string{"downZap", "boost"} {
		if r := a.Do(nobody, `mutation { `+m+`(item: "`+one+`", sats: 1) { id } }`, nil); r.code() != "UNAUTHENTICATED" {
			t.Error(r.Raw)
		}
	}
}

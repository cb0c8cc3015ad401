package graph_test

import (
	"strings"
	"testing"
	"time"

	"github.com/a-seed-a7aed72f/holdfast/graph"
)

// A hundred items with their authors, territories, two levels of comments and the viewer's own payments need no more
// queries than ten: a number that depends on the fields of the request. The same goes for lists of actions, histories
// and notifications. Two fields that ask for the same kind of row at different depths need one query or two, depending
// on when they get there; that is why this checks a limit rather than a number.
func TestListsTakeFewQueries(t *testing.T) {
	t.Parallel()
	asked := &recorder{}
	a := serve(t, recorded(t, asked), func(c *graph.Config) {
		// By default fields wait for each other for a few milliseconds. On a busy machine one may come too late for
		// that.
		c.GatherFor = 1500 * time.Millisecond
	})
	reader := a.Person("reader", 0, 0)
	// A hundred posts by as many authors in ten territories, each with three comments and an answer to each comment.
	// Half of it all belongs to the reader, who was also notified of each.
	if _, err := a.Pool.Exec(a.Ctx, `
		WITH people AS (INSERT INTO usr (name, created_at) SELECT 'author_' || n, $1 FROM generate_series(1, 100) n RETURNING id),
		places AS (INSERT INTO territory SELECT 'place_' || n, (SELECT min(id) + n FROM people), 1000, 1000, $1 FROM generate_series(1, 10) n RETURNING name),
		action AS (INSERT INTO paid_action (kind, flow, method, state, payer_id, cost_msat, created_at, changed_at, args, result)
			SELECT 'DONATE', 'BALANCE', 'FEE_CREDIT', 'PAID', $2, 1000, $1, $1, '{"sats": 1}', '{"sats": 1}' FROM people RETURNING id),
		told AS (INSERT INTO notification (user_id, kind, action_id, created_at) SELECT $2, 'RECEIVED', id, $1 FROM action),
		came AS (INSERT INTO posting (action_id, from_account, to_account, msat, reason, at) SELECT id, 1, $2 * 16 + 1, 1000, 'zap', $1 FROM action),
		posts AS (INSERT INTO item (author_id, action_id, state, territory, ancestors, title, body, created_at)
			SELECT CASE WHEN people.id % 2 = 0 THEN people.id ELSE $2 END, action.id, 'PAID', 'place_' || (1 + people.id % 10), '{}', 'post', '', $1
			FROM people JOIN (SELECT id, row_number() OVER () AS n FROM action) AS action ON n = people.id - (SELECT min(id) FROM people) + 1
			RETURNING id, author_id, action_id),
		shares AS (INSERT INTO item_forward SELECT posts.id, people.id, 10 FROM posts JOIN people ON people.id % 50 = posts.id % 50),
		comments AS (INSERT INTO item (kind, author_id, action_id, state, parent_id, ancestors, body, created_at)
			SELECT 'COMMENT', author_id, action_id, 'PAID', id, ARRAY[id], 'comment ' || n, $1 FROM posts, generate_series(1, 3) n RETURNING id, author_id, action_id, ancestors)
		INSERT INTO item (kind, author_id, action_id, state, parent_id, ancestors, body, created_at)
			SELECT 'COMMENT', author_id, action_id, 'PAID', id, ancestors || id, 'answer', $1 FROM comments`,
		a.Clock.Now(), reader.ID); err != nil {
		t.Fatal(err)
	}
	// Each query of the API may need so many queries of the database, one of which looks up the key.
	for query, most := range map[string]int{
		`query($n: Int!) { list: items(first: $n) { next nodes { id title author { name } territory { name founder { name } } payment { id state invoice { bolt11 } }
			comments(first: 2) { nodes { id author { name } payment { state } parent { author { name } }
				comments(first: 2) { nodes { id author { name } payment { state } } } } } } } }`: 11,
		`query($n: Int!) { list: items(first: $n) { nodes { author { items(first: 2) { nodes { id } } } thread(limit: 5) { nodes { depth item { id author { name } } } } } } }`: 7,
		`query($n: Int!) { list: items(first: $n) { nodes { forwards { pct user { name } } } } }`:                                                                               5,
		`query($n: Int!) { list: paidActions(first: $n) { nodes { id kind costMsat ... on DonateAction { result { sats } } } } }`:                                               2,
		`query($n: Int!) { list: notifications(first: $n) { nodes { kind item { id } retryUntil action { state } } } }`:                                                         3,
		`query($n: Int!) { me { history(first: $n) { nodes { action { state } received { msat item { id } } } } } }`:                                                            5,
	} {
		for _, n := range []int{10, 100} {
			asked.take()
			r := a.Want(reader, query, vars{"n": n})
			if nodes, isList := r.at("list", "nodes").([]any); isList && len(nodes) != n {
				t.Errorf("%d of %d", len(nodes), n)
			}
			taken := asked.take()
			t.Logf("%d queries for a list of %d: %s", len(taken), n, query)
			if len(taken) > most {
				t.Errorf("%d queries for a list of %d; want at most %d: %s", len(taken), n, most, query)
				for _, q := range taken {
					name, _, _ := strings.Cut(q.SQL, "\n")
					t.Log(name)
				}
			}
		}
	}
}

// Pages follow each other without a gap to the end.
func TestPages(t *testing.T) {
	t.Parallel()
	a := serve(t)
	author := a.Person("author", 1000, 0)
	var want []string
	for range 5 {
		want = append([]string{a.PostBy(author, "post")}, want...)
	}
	var got []string
	for after, more := any(nil), true; more; {
		r := a.Want(nobody, `query($after: String) { items(first: 2, after: $after) { nodes { id } next } }`, vars{"after": after})
		for _, n := range r.at("items", "nodes").([]any) {
			got = append(got, n.(map[string]any)["id"].(string))
		}
		after = r.at("items", "next")
		more = after != nil
	}
	if len(got) != len(want) {
		t.Fatalf("%v, want %v", got, want)
	}
	for i := range want {
		if got[i] != want[i] {
			t.Fatalf("%v, want %v", got, want)
		}
	}

	root := want[0]
	for range 3 {
		r := a.Want(author, `mutation($p: ID!, $b: String!) { createComment(parent: $p, body: $b) { state result { item { id parent { commentCount } } } } }`,
			vars{"p": root, "b": "again"})
		if r.text("createComment", "state") != "PAID" {
			t.Fatal(r.Raw)
		}
		a.Clock.Advance(1e12)
	}
	r := a.Want(nobody, `query($p: ID!) { item(id: $p) { commentCount comments(first: 2) { nodes { id } next } } }`, vars{"p": root})
	next := r.at("item", "comments", "next")
	r = a.Want(nobody, `query($p: ID!, $n: ID) { item(id: $p) { commentCount comments(first: 2, after: $n) { nodes { id } next } } }`, vars{"p": root, "n": next})
	if nodes := r.at("item", "comments", "nodes").([]any); r.at("item", "commentCount") != 3.0 || len(nodes) != 1 || r.at("item", "comments", "next") != nil {
		t.Errorf("%s", r.Raw)
	}
}

// A mutation sees what the earlier ones in the same request did.
func TestMutationsFollowEachOther(t *testing.T) {
	t.Parallel()
	a := serve(t)
	author, payer := a.Person("author", 100, 0), a.Person("payer", 100, 0)
	post := a.PostBy(author, "zapped twice")
	r := a.Want(payer, `mutation($p: ID!) {
		a: zap(item: $p, sats: 10) { result { sats item { msat creditMsat upvotes } } }
		b: zap(item: $p, sats: 5) { result { sats item { msat creditMsat upvotes } } } }`, vars{"p": post})
	if r.text("a", "result", "item", "msat") != "10000" || r.text("b", "result", "item", "creditMsat") != "15000" ||
		r.at("b", "result", "item", "upvotes") != 1.0 || r.at("b", "result", "sats") != 5.0 {
		t.Errorf("%s", r.Raw)
	}
	if r := a.Want(nobody, `{ rewardsMsat { credits sats } }`, nil); r.text("rewardsMsat", "credits") != "5500" || r.text("rewardsMsat", "sats") != "0" {
		t.Errorf("a post of 1 sat and 30%% of 15 sats: %s", r.Raw)
	}
}

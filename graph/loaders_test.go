package graph_test

import (
	"context"
	"sync/atomic"
	"testing"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/a-seed-a7aed72f/holdfast/graph"
)

// counter counts the queries of a pool.
type counter struct{ queries atomic.Int64 }

func (c *counter) TraceQueryStart(ctx context.Context, _ *pgx.Conn, _ pgx.TraceQueryStartData) context.Context {
	c.queries.Add(1)
	return ctx
}
func (c *counter) TraceQueryEnd(context.Context, *pgx.Conn, pgx.TraceQueryEndData) {}

// serveCounted is serve with the API's queries counted.
func serveCounted(t *testing.T) (*api, *counter) {
	t.Helper()
	counted := &counter{}
	return serve(t, func(c *graph.Config) {
		config := c.Pool.Config()
		config.ConnConfig.Tracer = counted
		pool, err := pgxpool.NewWithConfig(t.Context(), config)
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(pool.Close)
		c.Pool = pool
		// The engine lists a payer's actions.
		c.Engine.Pool = pool
	}), counted
}

// A hundred items with all that hangs on them take a handful of queries, as does a hundred actions.
func TestListsTakeFewQueries(t *testing.T) {
	t.Parallel()
	a, counted := serveCounted(t)
	reader := a.Person("reader", 0, 0)
	// A hundred posts of as many authors, in ten territories, with three comments each.
	if _, err := a.Pool.Exec(a.Ctx, `
		WITH people AS (INSERT INTO usr (name, created_at) SELECT 'author_' || n, $1 FROM generate_series(1, 100) n RETURNING id),
		action AS (INSERT INTO paid_action (kind, flow, method, state, payer_id, cost_msat, created_at, changed_at, args, result)
			SELECT 'DONATE', 'BALANCE', 'FEE_CREDIT', 'PAID', $2, 1000, $1, $1, '{"sats": 1}', '{"sats": 1}' FROM generate_series(1, 100) RETURNING id),
		places AS (INSERT INTO territory SELECT 'place_' || n, (SELECT min(id) + n FROM people), 1000, 1000, $1 FROM generate_series(1, 10) n RETURNING name),
		posts AS (INSERT INTO item (author_id, action_id, state, territory, ancestors, title, body, created_at)
			SELECT id, (SELECT min(id) FROM action), 'PAID', 'place_' || (1 + id % 10), '{}', 'post', '', $1 FROM people RETURNING id, author_id)
		INSERT INTO item (kind, author_id, action_id, state, parent_id, ancestors, body, created_at)
			SELECT 'COMMENT', author_id, (SELECT min(id) FROM action), 'PAID', id, ARRAY[id], 'comment ' || n, $1 FROM posts, generate_series(1, 3) n`,
		a.Clock.Now(), reader.ID); err != nil {
		t.Fatal(err)
	}
	// How long the loaders wait for each other is a matter of milliseconds: on a busy machine one of them may go twice.
	for query, most := range map[string]int64{
		`{ items(first: 100) { next nodes { id title author { name } territory { name founder { name } }
			comments(first: 2) { next nodes { id author { name } parent { id author { name } } } } } } }`: 20,
		`{ paidActions(first: 100) { nodes { id kind costMsat ... on DonateAction { result { sats } } } } }`: 3,
	} {
		before := counted.queries.Load()
		r := a.Want(reader, query, nil)
		if nodes, _ := r.at("items", "nodes").([]any); nodes != nil && len(nodes) != 100 {
			t.Errorf("%d items", len(nodes))
		}
		n := counted.queries.Load() - before
		t.Logf("%d queries", n)
		if n > most {
			t.Errorf("%d queries, want at most %d: %s", n, most, query)
		}
	}
}

// Pages follow each other without a gap, until the end.
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

// A mutation sees what those before it in the same request did.
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

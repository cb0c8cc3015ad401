package graph_test

import (
	"context"
	"encoding/json"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/a-seed-a7aed72f/holdfast/graph"
)

// recorder records the queries of a pool.
type recorder struct {
	mu      sync.Mutex
	queries []pgx.TraceQueryStartData
}

func (r *recorder) TraceQueryStart(ctx context.Context, _ *pgx.Conn, q pgx.TraceQueryStartData) context.Context {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.queries = append(r.queries, q)
	return ctx
}

func (r *recorder) TraceQueryEnd(context.Context, *pgx.Conn, pgx.TraceQueryEndData) {}

// take returns the queries since the last time.
func (r *recorder) take() []pgx.TraceQueryStartData {
	r.mu.Lock()
	defer r.mu.Unlock()
	taken := r.queries
	r.queries = nil
	return taken
}

// recorded makes the API and its engine use a pool that records their queries.
func recorded(t testing.TB, r *recorder) func(*graph.Config) {
	return func(c *graph.Config) {
		config := c.Pool.Config()
		config.ConnConfig.Tracer = r
		pool, err := pgxpool.NewWithConfig(t.Context(), config)
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(pool.Close)
		c.Pool, c.Engine.Pool = pool, pool
	}
}

// work says how a query was executed.
type work struct {
	blocks int64    // that were read
	scans  []string // the grown tables that were read from end to end
}

// explain executes a query once more, to see its plan. A small table may be read as a whole, where the rows of a large
// one have to be looked up: what is held against a large one is planned to look them up too.
func (a *api) explain(q pgx.TraceQueryStartData, small bool) work {
	a.Helper()
	var raw []byte
	err := pgx.BeginFunc(a.Ctx, a.Pool, func(tx pgx.Tx) error {
		if small {
			if _, err := tx.Exec(a.Ctx, "SET LOCAL enable_seqscan = off; SET LOCAL enable_hashjoin = off; SET LOCAL enable_mergejoin = off"); err != nil {
				return err
			}
		}
		return tx.QueryRow(a.Ctx, "EXPLAIN (ANALYZE, BUFFERS, FORMAT JSON) "+q.SQL, q.Args...).Scan(&raw)
	})
	if err != nil {
		a.Fatalf("%s: %v", q.SQL, err)
	}
	var plans []struct{ Plan node }
	if err := json.Unmarshal(raw, &plans); err != nil {
		a.Fatal(err)
	}
	top := plans[0].Plan
	w := work{blocks: top.Hit + top.Read}
	top.scans(&w.scans)
	return w
}

// node is a part of a plan, with the parts below it.
type node struct {
	Type  string `json:"Node Type"`
	Table string `json:"Relation Name"`
	Hit   int64  `json:"Shared Hit Blocks"`
	Read  int64  `json:"Shared Read Blocks"`
	Plans []node
}

func (n node) scans(found *[]string) {
	// The first partition is the one that grows.
	if strings.HasSuffix(n.Type, "Seq Scan") && slices.Contains(grown, strings.TrimSuffix(n.Table, "_1")) {
		*found = append(*found, n.Table)
	}
	for _, p := range n.Plans {
		p.scans(found)
	}
}

// grown are the tables that grow writes to.
var grown = []string{"item", "paid_action", "invoice", "posting", "relay_payment", "notification"}

// grow writes n more of everything that belongs to one person and one post: comments beside each other, comments too
// deep to be shown, comments that failed, payments made and received, and notifications.
func (a *api) grow(author person, post int64, n int) {
	a.Helper()
	for _, sql := range []string{
		`WITH action AS (
			INSERT INTO paid_action (kind, flow, method, state, payer_id, cost_msat, created_at, changed_at, args, result)
			SELECT 'ZAP', 'BALANCE', 'FEE_CREDIT', 'PAID', $1, 1000, $3, $3, jsonb_build_object('item', $2::bigint, 'sats', 1), '{}' FROM generate_series(1, $4::int)
			RETURNING id
		), asked AS (
			INSERT INTO invoice (action_id, node, payment_hash, hold, amount_msat, memo, cltv_delta, expires_at)
			SELECT id, 'sim', sha256(id::text::bytea), true, 1000, '', 80, $3 FROM action
		), came AS (
			INSERT INTO posting (action_id, from_account, to_account, msat, reason, at)
			SELECT id, side, $1 * 16 + side, 1000, 'zap', $3 FROM action, generate_series(0, 1) AS side
		), direct AS (
			INSERT INTO relay_payment (action_id, stage, payment_hash, bolt11, receiver_id, wallet_id, amount_msat, budget_msat, final_cltv, expires_at,
				preimage, fee_msat, created_at, changed_at)
			SELECT id, 'completed', sha256(id::text::bytea), '', $1, 1, 1000, 0, 18, $3, sha256('x'), 0, $3, $3 FROM action
		)
		INSERT INTO notification (user_id, kind, action_id, item_id, created_at) SELECT $1, 'ZAP', id, $2, $3 FROM action`,
		`WITH RECURSIVE chain AS (
			SELECT 1 AS depth, ARRAY[$2::bigint] AS above, nextval('item_id_seq') AS id
			UNION ALL SELECT depth + 1, above || id, nextval('item_id_seq') FROM chain WHERE depth < 9
		), deep AS (
			INSERT INTO item (kind, id, author_id, action_id, state, parent_id, ancestors, body, created_at) OVERRIDING SYSTEM VALUE
			SELECT 'COMMENT', id, $1, 1, 'PAID', above[depth], above, 'deep', $3 FROM chain
		), shown AS (
			INSERT INTO item (kind, author_id, action_id, state, parent_id, ancestors, body, created_at)
			SELECT 'COMMENT'::item_kind, $1, 1, 'PAID'::item_state, id, above || id, 'deeper', $3 FROM chain, generate_series(1, $4::int) WHERE depth = 9
			UNION ALL SELECT 'COMMENT', $1, 1, 'PAID', $2, ARRAY[$2::bigint], 'beside', $3 FROM generate_series(1, $4::int)
		)
		INSERT INTO item (kind, author_id, action_id, state, parent_id, ancestors, body, created_at)
		SELECT 'COMMENT', $1, 1, 'FAILED', $2, ARRAY[$2::bigint], 'failed', $3 FROM generate_series(1, $4::int)`,
	} {
		if _, err := a.Pool.Exec(a.Ctx, sql, author.ID, post, a.Clock.Now(), n); err != nil {
			a.Fatal(err)
		}
	}
	for _, table := range grown {
		if _, err := a.Pool.Exec(a.Ctx, "VACUUM ANALYZE "+table); err != nil {
			a.Fatal(err)
		}
	}
}

// failedComments writes n comments that nobody has paid for.
func (a *api) failedComments(author person, post int64, n int) {
	a.Helper()
	if _, err := a.Pool.Exec(a.Ctx, `INSERT INTO item (kind, author_id, action_id, state, parent_id, ancestors, body, created_at)
		SELECT 'COMMENT', $1, 1, 'FAILED', $2, ARRAY[$2::bigint], 'failed', $3 FROM generate_series(1, $4::int)`, author.ID, post, a.Clock.Now(), n); err != nil {
		a.Fatal(err)
	}
	if _, err := a.Pool.Exec(a.Ctx, "VACUUM ANALYZE item"); err != nil {
		a.Fatal(err)
	}
}

// The cost of a page does not depend on how much there is beyond it.
func TestPagesCostTheSameHoweverMuchThereIs(t *testing.T) {
	t.Parallel()
	asked := &recorder{}
	a := serve(t, recorded(t, asked))
	author, reader := a.Person("author", 100, 0), a.Person("reader", 0, 0)
	post := a.PostBy(author, "popular")
	failed := a.PostBy(author, "all of whose comments failed")
	small := number(t, post)
	pages := []struct {
		as    person
		query string
	}{
		{reader, `{ item(id: "` + post + `") { thread(limit: 100) { next nodes { depth more item { id } } } } }`},
		{author, `{ item(id: "` + post + `") { thread(limit: 100) { next nodes { depth more item { id payment { id } } } } } }`},
		{reader, `{ item(id: "` + post + `") { comments(first: 100) { next nodes { id } } } }`},
		{author, `{ item(id: "` + post + `") { comments(first: 100) { next nodes { id payment { id } } } } }`},
		{reader, `{ item(id: "` + failed + `") { comments(first: 100) { next nodes { id } } } }`},
		{reader, `{ user(name: "author") { postCount commentCount items(first: 50) { next nodes { id } } } }`},
		{author, `{ user(name: "author") { items(first: 50) { next nodes { id } } } }`},
		{author, `{ me { unseenNotifications history(first: 50) { next nodes { at action { id } received { msat item { id } } } } } }`},
		{author, `{ notifications(first: 50) { next nodes { kind action { id } } } }`},
		{author, `mutation { notificationsSeen(upTo: "9000000000000000000") { unseenNotifications } }`},
	}
	before := make([]int64, len(pages))
	for round, size := range []int{2_000, 20_000} {
		a.grow(author, small, size)
		a.failedComments(author, number(t, failed), size)
		for i, p := range pages {
			asked.take()
			a.Want(p.as, p.query, nil)
			var total int64
			for _, q := range asked.take() {
				w := a.explain(q, round == 0)
				total += w.blocks
				if len(w.scans) > 0 {
					t.Errorf("%s reads all of %s:\n%s", p.query, w.scans, q.SQL)
				}
			}
			t.Logf("%d of everything: %d blocks for %s", size, total, p.query)
			if round == 0 {
				before[i] = total
			} else if total > before[i]*6/5+10 { // an index of ten times as many rows may be a level deeper
				t.Errorf("%d blocks where %d sufficed for a tenth: %s", total, before[i], p.query)
			}
		}
	}
}

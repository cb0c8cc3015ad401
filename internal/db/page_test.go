package db_test

import (
	"context"
	"errors"
	"math"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/a-seed-a7aed72f/holdfast/internal/db"
	"github.com/a-seed-a7aed72f/holdfast/internal/pgtest"
)

// A page is read from its beginning in an index of its own order, even if much belongs to one owner and all of it is
// old: an index over all owners would be read past everything newer.
func TestAPageIsReadWhereItBegins(t *testing.T) {
	t.Parallel()
	ctx, pool, now := t.Context(), pgtest.New(t), time.Now()
	if _, err := pool.Exec(ctx, `
		INSERT INTO usr (name, created_at) SELECT 'user_' || g, now() FROM generate_series(1, 300) AS g ORDER BY g;
		INSERT INTO territory (name, founder_id, base_cost_msat, reply_cost_msat, created_at) VALUES ('big', 1, 1000, 1000, now());
		INSERT INTO paid_action (kind, flow, method, state, payer_id, cost_msat, created_at, changed_at, args, result)
			SELECT 'ITEM_CREATE', 'BALANCE', 'ZERO_COST', 'PAID', CASE WHEN g <= 5000 THEN 1 ELSE 2 + g % 299 END, 0, now(), now(), '{}', '{}'
			FROM generate_series(1, 20000) AS g ORDER BY g;
		INSERT INTO item (author_id, action_id, state, territory, ancestors, title, body, created_at)
			SELECT payer_id, id, 'PAID', CASE WHEN id % 2 = 0 THEN 'big' END, '{}', 'title', 'body', now() - interval '400 days' + id * interval '25 minutes'
			FROM paid_action ORDER BY id;
		UPDATE item_count SET vote_micros = 1000000 * (item_id / 100);
		INSERT INTO webhook (user_id, url, events, secret, created_at) SELECT 1, '', '{}', '', now() FROM generate_series(1, 5);
		INSERT INTO webhook_message (webhook_id, type, created_at) SELECT CASE WHEN g <= 15000 THEN 1 ELSE 2 + g % 4 END, '', now()
			FROM generate_series(1, 20000) AS g ORDER BY g;
		ANALYZE`); err != nil {
		t.Fatal(err)
	}
	tx, err := pool.Begin(ctx)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = tx.Rollback(context.WithoutCancel(ctx)) }()
	if _, err := tx.Exec(ctx, "SET LOCAL enable_incremental_sort = off"); err != nil { // as in the service's connections
		t.Fatal(err)
	}
	const all = math.MaxInt64
	day := int32(now.Unix() / (24 * 60 * 60))
	e := &explained{t: t, pool: tx}
	q := db.New(e)
	for _, page := range []struct {
		name, index, other string
		do                 func() error
	}{
		{"ActionsOfPayerInFull", "paid_action_payer", "paid_action_pkey", func() error {
			_, err := q.ActionsOfPayerInFull(ctx, db.ActionsOfPayerInFullParams{PayerID: 1, Before: all, Page: 101})
			return err
		}},
		{"ActionsAfter", "paid_action_payer", "paid_action_pkey", func() error {
			_, err := q.ActionsAfter(ctx, db.ActionsAfterParams{Before: now, PayerID: 1, Page: 101})
			return err
		}},
		{"MessagesOf", "webhook_message_webhook", "webhook_message_pkey", func() error {
			_, err := q.MessagesOf(ctx, db.MessagesOfParams{WebhookID: 1, Before: all, Page: 101})
			return err
		}},
		{"ItemsOfEach", "item_of_author", "item_author ", func() error {
			_, err := q.ItemsOfEach(ctx, db.ItemsOfEachParams{Authors: []int64{1, 2, 3}, Before: all, Page: 31})
			return err
		}},
		// The next pages of a year, of which little is left below.
		{"TopPostsSince", "item_count_top_of_day", "item_count_top ", func() error {
			_, err := q.TopPostsSince(ctx, db.TopPostsSinceParams{FirstDay: day - 365, LastDay: day, Since: now.Add(-365 * 24 * time.Hour), Score: 0, Before: all, Page: 101})
			return err
		}},
		{"TopPostsSinceIn", "item_count_top_of_day_in", "item_count_top ", func() error {
			_, err := q.TopPostsSinceIn(ctx, db.TopPostsSinceInParams{Territory: "big", FirstDay: day - 365, LastDay: day, Since: now.Add(-365 * 24 * time.Hour), Score: 0, Before: all, Page: 101})
			return err
		}},
	} {
		if err := page.do(); err != nil {
			t.Fatal(err)
		}
		if !strings.Contains(e.plan, "using "+page.index+" ") || strings.Contains(e.plan, "using "+page.other) {
			t.Errorf("%s reads more:\n%s", page.name, e.plan)
		}
	}
	// As many threads as a page has posts: each row is found by its key, and no table is joined as a whole.
	if _, err := q.Threads(ctx, db.ThreadsParams{Tops: make([]int64, 100), Depth: 6, Page: 41}); err != nil && err != pgx.ErrNoRows {
		t.Fatal(err)
	}
	if strings.Contains(e.plan, "Seq Scan on item_count") || strings.Contains(e.plan, "Seq Scan on item ") {
		t.Errorf("Threads reads more:\n%s", e.plan)
	}
}

// Old rows are found by an index, however many newer ones there are.
func TestWhatIsOldIsFoundByAnIndex(t *testing.T) {
	t.Parallel()
	ctx, pool, now := t.Context(), pgtest.New(t), time.Now()
	if _, err := pool.Exec(ctx, `
		INSERT INTO usr (name, created_at) VALUES ('alice', now());
		INSERT INTO paid_action (kind, flow, method, state, payer_id, cost_msat, created_at, changed_at, args, result)
			SELECT 'ITEM_CREATE', 'BALANCE', 'ZERO_COST', 'PAID', 1, 0, now(), now(), '{}', '{}' FROM generate_series(1, 20000);
		INSERT INTO api_key (user_id, key_hash, scopes, created_at, expires_at) SELECT 1, sha256(g::text::bytea), '{READ}', now(), now() FROM generate_series(1, 20000) AS g;
		INSERT INTO item (author_id, action_id, state, ancestors, title, body, created_at) SELECT 1, 1, 'PAID', '{}', 'title', 'body', now();
		INSERT INTO item_fingerprint (fingerprint, item_id, until) SELECT sha256(g::text::bytea), 1, now() FROM generate_series(1, 20000) AS g;
		INSERT INTO receiver_wallet (user_id, kind, label, priority, settings, created_at, changed_at) SELECT 1, 'LNBITS', '', 1, '', now(), now();
		INSERT INTO wallet_failure (genesis_id, wallet_id, failures) SELECT g, 1, 1 FROM generate_series(1, 20000) AS g;
		INSERT INTO route_probe (receiver_id, node, hash, amount_msat, hangs_at, until) SELECT 1, 'node' || g % 100, sha256(g::text::bytea), 1, now(), now() FROM generate_series(1, 20000) AS g;
		ANALYZE`); err != nil {
		t.Fatal(err)
	}
	e := &explained{t: t, pool: pool}
	q := db.New(e)
	for _, sweep := range []struct {
		name    string
		indexes []string
		do      func() error
	}{
		{"DeleteKeys", []string{"api_key_over", "api_key_pkey"}, func() error {
			_, err := q.DeleteKeys(ctx, db.DeleteKeysParams{Before: now, Page: 100})
			return err
		}},
		{"DeleteFingerprints", []string{"item_fingerprint_until", "item_fingerprint_pkey"}, func() error {
			_, err := q.DeleteFingerprints(ctx, db.DeleteFingerprintsParams{Before: now, Page: 1000})
			return err
		}},
		{"DeleteWalletFailures", []string{"wallet_failure_pkey", "paid_action_pkey"}, func() error {
			_, err := q.DeleteWalletFailures(ctx, db.DeleteWalletFailuresParams{Before: now, Page: 100})
			return err
		}},
		{"DeleteProbes", []string{"route_probe_until", "route_probe_pkey"}, func() error {
			_, err := q.DeleteProbes(ctx, db.DeleteProbesParams{Before: now, Page: 1000})
			return err
		}},
		{"ProbesOfNode", []string{"route_probe_node"}, func() error {
			_, err := q.ProbesOfNode(ctx, db.ProbesOfNodeParams{Node: "node1", Before: now, At: now, After: 10_000, Page: 100})
			return err
		}},
	} {
		if err := sweep.do(); err != nil {
			t.Fatal(err)
		}
		for _, index := range sweep.indexes {
			if !strings.Contains(e.plan, index) {
				t.Errorf("%s does not use %s:\n%s", sweep.name, index, e.plan)
			}
		}
		if strings.Contains(e.plan, "Seq Scan") {
			t.Errorf("%s reads all:\n%s", sweep.name, e.plan)
		}
	}
}

// Reconcile looks at what a page of actions has made by the keys of these rows, and reads no action but those.
func TestWhatActionsMadeIsReadByItsKeys(t *testing.T) {
	t.Parallel()
	ctx, pool := t.Context(), pgtest.New(t)
	if _, err := pool.Exec(ctx, `
		INSERT INTO usr (name, created_at) VALUES ('alice', now());
		INSERT INTO paid_action (kind, flow, method, state, payer_id, cost_msat, created_at, changed_at, args, result)
			SELECT 'DONATE', 'BALANCE', 'FEE_CREDIT', 'PAID', 1, 1, now(), now(), '{}', '{}' FROM generate_series(1, 20000) AS g ORDER BY g;
		INSERT INTO item (author_id, action_id, state, ancestors, title, body, created_at) SELECT 1, id, 'PAID', '{}', 'x', '', now() FROM paid_action ORDER BY id;
		INSERT INTO zap (action_id, item_id, user_id, msat, state) SELECT id, id, 1, 1, 'PAID' FROM paid_action;
		INSERT INTO donation (action_id, user_id, msat, state) SELECT id, 1, 1, 'PAID' FROM paid_action;
		INSERT INTO boost (action_id, item_id, user_id, msat, state) SELECT id, id, 1, 1, 'PENDING' FROM paid_action;
		INSERT INTO poll_vote (action_id, item_id, option_id, user_id, state) SELECT id, id, 1, 1, 'FAILED' FROM paid_action;
		ANALYZE`); err != nil {
		t.Fatal(err)
	}
	page := make([]int64, 300)
	for i := range page {
		page[i] = 10_000 + int64(i)
	}
	e := &explained{t: t, pool: pool}
	q := db.New(e)
	for name, do := range map[string]func() error{
		"BreaksOfEffects": func() error { _, err := q.BreaksOfEffects(ctx, page); return err },
		"MissingEffects": func() error {
			_, err := q.MissingEffects(ctx, db.MissingEffectsParams{Actions: page})
			return err
		},
	} {
		if err := do(); err != nil {
			t.Fatal(err)
		}
		for _, table := range []string{"paid_action", "item", "zap", "donation", "boost", "poll_vote"} {
			if regexp.MustCompile(`Seq Scan on `+table+`\b`).MatchString(e.plan) || !strings.Contains(e.plan, " on "+table) {
				t.Errorf("%s reads all of %s:\n%s", name, table, e.plan)
			}
		}
	}
}

// plannedOnce explains what is asked in a transaction whose statements are planned once for all (PlanOnce).
func plannedOnce(t *testing.T, pool *pgxpool.Pool) *explained {
	t.Helper()
	tx, err := pool.Begin(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = tx.Rollback(context.WithoutCancel(t.Context())) })
	if err := db.New(tx).PlanOnce(t.Context()); err != nil {
		t.Fatal(err)
	}
	return &explained{t: t, pool: tx}
}

// Of many withdrawals in flight only those of one payer are counted, because that payer's row is locked meanwhile.
func TestWithdrawalsOfOnePayerAreCountedByTheirIndex(t *testing.T) {
	t.Parallel()
	ctx, pool := t.Context(), pgtest.New(t)
	if _, err := pool.Exec(ctx, `
		INSERT INTO usr (name, created_at) SELECT 'user_' || g, now() FROM generate_series(1, 2000) AS g ORDER BY g;
		INSERT INTO paid_action (kind, flow, method, state, payer_id, cost_msat, created_at, changed_at, deadline, args)
			SELECT 'WITHDRAW', 'OUTGOING', 'OUTGOING', 'FORWARDING', 1 + g % 2000, 0, now(), now(), now(), '{}' FROM generate_series(1, 20000) AS g ORDER BY g;
		INSERT INTO relay_payment (action_id, payer_id, payment_hash, bolt11, amount_msat, budget_msat, final_cltv, expires_at, created_at, changed_at)
			SELECT id, payer_id, sha256(id::text::bytea), '', 1, 0, 0, now(), now(), now() FROM paid_action;
		ANALYZE`); err != nil {
		t.Fatal(err)
	}
	e := plannedOnce(t, pool)
	if err := db.New(e).BoundWithdrawals(ctx, db.BoundWithdrawalsParams{PayerID: 1, Most: 10}); err != nil {
		t.Fatal(err)
	}
	if !strings.Contains(e.plan, "relay_payment_payer") || strings.Contains(e.plan, "paid_action") {
		t.Errorf("it reads more:\n%s", e.plan)
	}
}

// What is open at a node that has little of it is found among what is open, however many invoices and payments there ever
// were: they were all read, and where they are very many that takes longer than a statement may.
func TestWhatIsOpenAtANodeIsFoundAmongTheOpen(t *testing.T) {
	t.Parallel()
	ctx, pool := t.Context(), pgtest.New(t)
	if _, err := pool.Exec(ctx, `
		INSERT INTO usr (name, created_at) VALUES ('alice', now());
		ALTER TABLE paid_action DISABLE TRIGGER refuse_beginning;
		INSERT INTO paid_action (kind, flow, method, state, payer_id, cost_msat, created_at, changed_at, deadline, args, result)
			SELECT 'ZAP', 'WRAPPED', 'P2P', (CASE WHEN g <= 18000 THEN 'PAID' ELSE 'FORWARDING' END)::action_state, 1, 1000, now(), now(), now(), '{}', '{}'
			FROM generate_series(1, 20000) AS g ORDER BY g;
		INSERT INTO invoice (action_id, node, payment_hash, hold, amount_msat, memo, cltv_delta, expires_at)
			SELECT id, 'alice', sha256(id::text::bytea), true, 1000, '', 80, now() FROM paid_action;
		INSERT INTO relay_payment (action_id, payment_hash, bolt11, amount_msat, budget_msat, final_cltv, expires_at, created_at, changed_at)
			SELECT id, sha256(id::text::bytea), '', 1, 0, 0, now(), now(), now() FROM paid_action;
		ANALYZE`); err != nil {
		t.Fatal(err)
	}
	e := &explained{t: t, pool: pool}
	if _, err := db.New(e).OpenAt(ctx, db.OpenAtParams{Node: "bob", Page: 1000}); err != nil {
		t.Fatal(err)
	}
	for _, table := range []string{"paid_action", "invoice", "relay_payment"} {
		if regexp.MustCompile(`(Seq|Bitmap Heap) Scan on `+table+`\b`).MatchString(e.plan) || !strings.Contains(e.plan, " on "+table) {
			t.Errorf("it reads all of %s:\n%s", table, e.plan)
		}
	}
}

// Of the payments that have not left yet a page of each stage is counted, by an index.
func TestAPageOfEachStageIsCounted(t *testing.T) {
	t.Parallel()
	ctx, pool := t.Context(), pgtest.New(t)
	if _, err := pool.Exec(ctx, `
		INSERT INTO usr (name, created_at) VALUES ('alice', now());
		INSERT INTO paid_action (kind, flow, method, state, payer_id, cost_msat, created_at, changed_at, deadline, args)
			SELECT 'WITHDRAW', 'OUTGOING', 'OUTGOING', 'FORWARDING', 1, 0, now(), now(), now(), '{}' FROM generate_series(1, 20000);
		INSERT INTO relay_payment (action_id, payer_id, stage, failure_code, failure_message, payment_hash, bolt11, amount_msat, budget_msat, final_cltv, expires_at, created_at, changed_at)
			SELECT id, 1, (CASE WHEN id <= 10000 THEN 'failed' ELSE 'incoming' END)::relay_stage, CASE WHEN id <= 10000 THEN 'X' END, CASE WHEN id <= 10000 THEN 'x' END,
				sha256(id::text::bytea), '', 1, 0, 0, now(), timestamptz 'epoch' + id * interval '1 second', now() FROM paid_action;
		ANALYZE`); err != nil {
		t.Fatal(err)
	}
	rows, err := db.New(pool).RelayStages(ctx, 100)
	if err != nil || len(rows) != 1 || rows[0].Stage != "incoming" || rows[0].Payments != 100 || rows[0].Oldest.Unix() != 10_001 {
		t.Errorf("%+v, %v", rows, err)
	}
	e := &explained{t: t, pool: pool}
	if _, err := db.New(e).RelayStages(ctx, 100); err != nil {
		t.Fatal(err)
	}
	if !strings.Contains(e.plan, "using relay_payment_stage") || strings.Contains(e.plan, "Seq Scan on relay_payment") || strings.Contains(e.plan, "Sort Key: r.") {
		t.Errorf("it reads more:\n%s", e.plan)
	}
}

// However many votes a poll has, those already counted are not read again: the fold reads only the others.
func TestVotesAreReadUntilTheyAreCounted(t *testing.T) {
	t.Parallel()
	ctx, pool := t.Context(), pgtest.New(t)
	if _, err := pool.Exec(ctx, `
		INSERT INTO usr (name, created_at) SELECT 'user_' || g, now() FROM generate_series(1, 20000) AS g ORDER BY g;
		INSERT INTO paid_action (kind, flow, method, state, payer_id, cost_msat, created_at, changed_at, args, result)
			SELECT 'POLL_VOTE', 'BALANCE', 'ZERO_COST', 'PAID', g, 0, now(), now(), '{}', '{}' FROM generate_series(1, 20000) AS g ORDER BY g;
		INSERT INTO item (author_id, action_id, state, ancestors, title, body, created_at) SELECT 1, 1, 'PAID', '{}', 'title', 'body', now();
		INSERT INTO poll_option (item_id, position, text) SELECT 1, g, 'option ' || g FROM generate_series(1, 2) AS g;
		INSERT INTO poll_vote (action_id, item_id, option_id, user_id, state, counted) SELECT g, 1, 1 + g % 2, g, 'PAID', g < 19990 FROM generate_series(1, 20000) AS g;
		ANALYZE`); err != nil {
		t.Fatal(err)
	}
	tx, err := pool.Begin(ctx)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = tx.Rollback(context.WithoutCancel(ctx)) }()
	e := &explained{t: t, pool: tx}
	q := db.New(e)
	if _, err := q.PollOptions(ctx, db.PollOptionsParams{Viewer: new(int64(7)), Polls: []int64{1}}); err != nil {
		t.Fatal(err)
	}
	if !strings.Contains(e.plan, "poll_vote_uncounted") || strings.Contains(e.plan, "Seq Scan on poll_vote") {
		t.Errorf("the votes are read:\n%s", e.plan)
	}
	if err := db.New(tx).PlanOnce(ctx); err != nil {
		t.Fatal(err)
	}
	if _, err := q.FoldPolls(ctx, 1000); err != nil {
		t.Fatal(err)
	}
	if !strings.Contains(e.plan, "poll_vote_uncounted") || strings.Contains(e.plan, "Sort Key: v.") {
		t.Errorf("the fold reads more:\n%s", e.plan)
	}
}

// Of many open invoices of anonymous payers only those behind one address are counted.
func TestInvoicesBehindOneAddressAreCountedByTheirIndex(t *testing.T) {
	t.Parallel()
	ctx, pool := t.Context(), pgtest.New(t)
	if _, err := pool.Exec(ctx, `
		INSERT INTO paid_action (kind, flow, method, state, cost_msat, created_at, changed_at, deadline, args, client_hash)
			SELECT 'ITEM_CREATE', 'PESSIMISTIC', 'PESSIMISTIC', 'PENDING_HELD', 0, now(), now(), now(), '{}', sha256((g % 1000)::text::bytea) FROM generate_series(1, 20000) AS g;
		INSERT INTO invoice (action_id, node, payment_hash, hold, amount_msat, memo, cltv_delta, expires_at)
			SELECT id, 'one', sha256(id::text::bytea), true, 1, '', 80, now() FROM paid_action;
		ANALYZE`); err != nil {
		t.Fatal(err)
	}
	e := plannedOnce(t, pool)
	if err := db.New(e).BoundClient(ctx, db.BoundClientParams{ClientHash: []byte{1}, Most: 10}); err != nil {
		t.Fatal(err)
	}
	if !strings.Contains(e.plan, "paid_action_open_client") || strings.Contains(e.plan, "invoice") {
		t.Errorf("it reads more:\n%s", e.plan)
	}
}

// Of an author's posts and comments those that wait for their payment are found among the author's open actions, and of
// their invoices each by its key: they are counted for each post, however many invoices there ever were.
func TestWhatWaitsForItsPaymentIsCountedByKeys(t *testing.T) {
	t.Parallel()
	ctx, pool := t.Context(), pgtest.New(t)
	if _, err := pool.Exec(ctx, `
		INSERT INTO usr (name, created_at) SELECT 'user_' || g, now() FROM generate_series(1, 2000) AS g ORDER BY g;
		ALTER TABLE paid_action DISABLE TRIGGER refuse_beginning;
		INSERT INTO paid_action (kind, flow, method, state, payer_id, cost_msat, created_at, changed_at, deadline, args, result)
			SELECT 'ITEM_CREATE', 'OPTIMISTIC', 'OPTIMISTIC', (CASE WHEN g <= 18000 THEN 'PAID' ELSE 'PENDING' END)::action_state, 1 + g % 2000, 1000, now(), now(), now(), '{}', '{}'
			FROM generate_series(1, 20000) AS g ORDER BY g;
		INSERT INTO invoice (action_id, node, payment_hash, hold, amount_msat, memo, cltv_delta, expires_at)
			SELECT id, 'alice', sha256(id::text::bytea), false, 1000, '', 80, now() FROM paid_action;
		INSERT INTO item (kind, author_id, action_id, state, parent_id, ancestors, title, body, created_at)
			SELECT (CASE WHEN reply THEN 'COMMENT' ELSE 'POST' END)::item_kind, payer_id, id, state::text::item_state, CASE WHEN reply THEN 1 END,
				(CASE WHEN reply THEN '{1}' ELSE '{}' END)::bigint[], CASE WHEN reply THEN NULL ELSE 'title' END, 'body', created_at
			FROM (SELECT *, id % 2 = 0 AS reply FROM paid_action) AS made ORDER BY id;
		ANALYZE`); err != nil {
		t.Fatal(err)
	}
	e := plannedOnce(t, pool)
	q, author, now := db.New(e), new(int64(7)), time.Now()
	for name, count := range map[string]func() (int64, error){
		"posts": func() (int64, error) {
			return q.CountPostsSince(ctx, db.CountPostsSinceParams{AuthorID: author, Since: now, Expired: now})
		},
		"comments": func() (int64, error) {
			return q.CountCommentsSince(ctx, db.CountCommentsSinceParams{AuthorID: author, ParentID: new(int64(1)), Since: now, Expired: now})
		},
	} {
		if _, err := count(); !errors.Is(err, pgx.ErrNoRows) {
			t.Fatal(err)
		}
		for _, by := range []string{"paid_action_open_payer", "invoice_pkey"} {
			if !strings.Contains(e.plan, by) {
				t.Errorf("%s are not counted by %s:\n%s", name, by, e.plan)
			}
		}
		if strings.Contains(e.plan, "Seq Scan") || strings.Contains(e.plan, "Bitmap Heap Scan on invoice") {
			t.Errorf("of %s all are read:\n%s", name, e.plan)
		}
	}
}

package db_test

import (
	"context"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/a-seed-a7aed72f/holdfast/internal/db"
	"github.com/a-seed-a7aed72f/holdfast/internal/pgtest"
)

// Deleting old rows waits for nobody who has locked one of them: neither for another process that deletes them in
// another order, which would be a deadlock, nor for one that removes everything of a user.
func TestSweepsWaitForNobody(t *testing.T) {
	t.Parallel()
	ctx, pool := t.Context(), pgtest.New(t)
	if _, err := pool.Exec(ctx, `
		INSERT INTO usr (name, created_at) VALUES ('alice', now());
		INSERT INTO paid_action (kind, flow, method, state, payer_id, cost_msat, created_at, changed_at, args, result)
			SELECT 'ITEM_CREATE', 'BALANCE', 'ZERO_COST', 'PAID', 1, 0, now(), now(), '{}', '{}' FROM generate_series(1, 3);
		INSERT INTO api_key (user_id, key_hash, scopes, created_at, expires_at) SELECT 1, sha256(g::text::bytea), '{READ}', now(), now() FROM generate_series(1, 3) AS g;
		INSERT INTO item (author_id, action_id, state, ancestors, title, body, created_at) SELECT 1, 1, 'PAID', '{}', 'title', 'body', now();
		INSERT INTO item_fingerprint (fingerprint, item_id, until) SELECT sha256(g::text::bytea), 1, now() FROM generate_series(1, 3) AS g;
		INSERT INTO receiver_wallet (user_id, kind, label, priority, settings, created_at, changed_at) SELECT 1, 'LNBITS', '', 1, '', now(), now();
		INSERT INTO wallet_failure (genesis_id, wallet_id, failures) SELECT g, 1, 1 FROM generate_series(1, 3) AS g;
		INSERT INTO route_probe (receiver_id, amount_msat, hangs_at, until) SELECT 1, 1, now(), now() FROM generate_series(1, 3);
		INSERT INTO sign_in (k1, secret_hash, action, created_at, expires_at) SELECT sha256(g::text::bytea), sha256(g::text::bytea), 'login', now(), now() FROM generate_series(1, 3) AS g;
		INSERT INTO webhook (user_id, url, events, secret, created_at) SELECT 1, '', '{}', '', now();
		INSERT INTO webhook_message (webhook_id, type, created_at, ended_at) SELECT 1, '', now(), now() FROM generate_series(1, 3)`); err != nil {
		t.Fatal(err)
	}
	before := time.Now().Add(time.Hour)
	for table, sweep := range map[string]func(q *db.Queries) (int64, error){
		"api_key": func(q *db.Queries) (int64, error) {
			return q.DeleteKeys(ctx, db.DeleteKeysParams{Before: before, Page: 10})
		},
		"item_fingerprint": func(q *db.Queries) (int64, error) {
			return q.DeleteFingerprints(ctx, db.DeleteFingerprintsParams{Before: before, Page: 10})
		},
		"wallet_failure": func(q *db.Queries) (int64, error) {
			return q.DeleteWalletFailures(ctx, db.DeleteWalletFailuresParams{Before: before, Page: 10})
		},
		"route_probe": func(q *db.Queries) (int64, error) {
			return q.DeleteProbes(ctx, db.DeleteProbesParams{Before: before, Page: 10})
		},
		"sign_in": func(q *db.Queries) (int64, error) {
			return q.DeleteSignIns(ctx, db.DeleteSignInsParams{Before: before, Page: 10})
		},
		"webhook_message": func(q *db.Queries) (int64, error) {
			return q.DeleteMessages(ctx, db.DeleteMessagesParams{Before: &before, Page: 10})
		},
	} {
		t.Run(table, func(t *testing.T) {
			begin := func() pgx.Tx {
				tx, err := pool.Begin(ctx)
				if err != nil {
					t.Fatal(err)
				}
				t.Cleanup(func() { _ = tx.Rollback(context.WithoutCancel(ctx)) })
				return tx
			}
			other, tx := begin(), begin()
			if _, err := other.Exec(ctx, `SELECT FROM `+table+` LIMIT 1 FOR NO KEY UPDATE`); err != nil {
				t.Fatal(err)
			}
			if _, err := tx.Exec(ctx, `SET LOCAL lock_timeout = '1s'`); err != nil {
				t.Fatal(err)
			}
			if n, err := sweep(db.New(tx)); n != 2 || err != nil {
				t.Errorf("%d of the others are deleted: %v", n, err)
			}
		})
	}
}

-- :actions zaps of 10 sats from credits, all of them long paid and folded in, in a database that rows/fill.sql has filled, and as many
-- jobs that are done, a million at most. Each person zaps each item once at most, so each zap weighs the same.
BEGIN;
SET LOCAL timezone = 'UTC';
-- Foreign keys and the rules of the machine need no checking here: reconcile holds all of it afterwards.
SET LOCAL session_replication_role = replica;

CREATE TEMPORARY TABLE past ON COMMIT DROP AS
SELECT g, item, author, 1 + (author - 1 + 1 + (g / :items) % (:users - 1)) % :users AS payer
FROM (SELECT g, 1 + g % :items AS item, 1 + (1 + g % :items) % :users AS author FROM generate_series(1, :actions::bigint) AS g) AS zaps;

INSERT INTO paid_action (kind, flow, method, state, payer_id, cost_msat, created_at, changed_at, args, result, idempotency_key, args_hash)
SELECT 'ZAP', 'BALANCE', 'FEE_CREDIT', 'PAID', payer, 10000, :'at', :'at', jsonb_build_object('item', item, 'sats', 10), jsonb_build_object('item', item, 'sats', 10),
    md5(g::text), sha256(g::text::bytea) FROM past ORDER BY g;
INSERT INTO action_history (action_id, to_state, fact, at) SELECT :items + g, 'PAID', 'REQUESTED', :'at' FROM past ORDER BY g;
INSERT INTO zap (action_id, item_id, user_id, msat, state) SELECT :items + g, item, payer, 10000, 'PAID' FROM past ORDER BY g;
INSERT INTO zap_total (item_id, user_id, msat) SELECT item, payer, 10000 FROM past ORDER BY g;
INSERT INTO vote_event (action_id, item_id, author_id, micros, at, credits) SELECT :items + g, item, author, 1000000, :'at', true FROM past ORDER BY g;
INSERT INTO posting (action_id, from_account, to_account, msat, reason, at)
SELECT :items + g, payer * 16 + 1, parts.account, parts.msat, parts.reason, :'at'
FROM past, LATERAL (VALUES (author * 16 + 1, 7000, 'zap'), (3, 3000, 'rewards')) AS parts (account, msat, reason) ORDER BY g;
INSERT INTO notification (user_id, kind, action_id, item_id, created_at) SELECT author, 'ZAP', :items + g, item, :'at' FROM past ORDER BY g;
INSERT INTO river_job (state, queue, kind, args, max_attempts, attempt, priority, scheduled_at, created_at, finalized_at)
SELECT 'completed', 'effects', 'after_paid', jsonb_build_object('action', :items + g), 32767, 1, 1, now(), now(), now() FROM past WHERE g <= 1000000;

UPDATE account SET balance = balance + moved.msat FROM (
    SELECT account, sum(msat) AS msat FROM (
        SELECT payer * 16 + 1 AS account, -10000 AS msat FROM past UNION ALL SELECT author * 16 + 1, 7000 FROM past UNION ALL SELECT 3, 3000 FROM past
    ) AS parts GROUP BY account
) AS moved WHERE account.id = moved.account;
UPDATE item_count SET msat = msat + 10000 * zaps, credit_msat = credit_msat + 10000 * zaps, upvotes = upvotes + zaps, vote_micros = vote_micros + 1000000 * zaps,
    last_zap_at = :'at'
FROM (SELECT item, count(*) AS zaps FROM past GROUP BY item) AS counted WHERE item_id = counted.item;
COMMIT;
VACUUM ANALYZE;

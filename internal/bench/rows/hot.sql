-- What a zap of 10 sats from credits leaves in Holdfast's tables when it is paid, as one pipelined transaction. A test holds it against a
-- real one.
\set item 42
\set author 1 + :item % :users
\set payer 1 + (:author - 1 + random(1, :users - 1)) % :users
\startpipeline
BEGIN;
INSERT INTO paid_action (kind, flow, method, state, payer_id, cost_msat, created_at, changed_at, args, result, idempotency_key, args_hash) VALUES ('ZAP', 'BALANCE', 'FEE_CREDIT', 'PAID', :payer, 10000, now(), now(), jsonb_build_object('item', :item::bigint, 'sats', 10), jsonb_build_object('item', :item::bigint, 'sats', 10), gen_random_uuid()::text, sha256(uuid_send(gen_random_uuid())));
INSERT INTO action_history (action_id, to_state, fact, at) VALUES (currval('paid_action_id_seq'), 'PAID', 'REQUESTED', now());
INSERT INTO zap (action_id, item_id, user_id, msat, state) VALUES (currval('paid_action_id_seq'), :item, :payer, 10000, 'PAID');
INSERT INTO zap_total (item_id, user_id, msat) VALUES (:item, :payer, 10000) ON CONFLICT (item_id, user_id, down) DO UPDATE SET msat = zap_total.msat + excluded.msat;
INSERT INTO vote_event (action_id, item_id, author_id, micros, at, credits) SELECT currval('paid_action_id_seq'), item_id, :author, round(log(msat / 1000.0) * 1000000) - round(log(greatest(msat / 1000.0 - 10, 1)) * 1000000), now(), true FROM zap_total WHERE item_id = :item AND user_id = :payer AND NOT down;
INSERT INTO item_delta (item_id, msat, credit_msat, upvotes, vote_micros, last_zap_at) SELECT item_id, 10000, 10000, (msat = 10000)::int, round(log(msat / 1000.0) * 1000000) - round(log(greatest(msat / 1000.0 - 10, 1)) * 1000000), now() FROM zap_total WHERE item_id = :item AND user_id = :payer AND NOT down;
INSERT INTO river_job (state, queue, kind, args, max_attempts, priority, scheduled_at, created_at) VALUES ('available', 'effects', 'after_paid', jsonb_build_object('action', currval('paid_action_id_seq')), 32767, 1, now(), now());
INSERT INTO posting (action_id, from_account, to_account, msat, reason, at) VALUES (currval('paid_action_id_seq'), :payer * 16 + 1, :author * 16 + 1, 7000, 'zap', now()), (currval('paid_action_id_seq'), :payer * 16 + 1, 3, 3000, 'rewards', now());
UPDATE account SET balance = balance - 10000 WHERE id = :payer * 16 + 1 AND balance >= 10000;
INSERT INTO balance_delta (account_id, msat) VALUES (:author * 16 + 1, 7000), (3, 3000);
COMMIT;
\endpipeline

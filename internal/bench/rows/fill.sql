-- The beginning, in a fresh database, so that ids count from 1: :users people with :msat of credits each, and :items posts, of which post i
-- is by user 1 + i modulo :users. What reconcile looks at is as if the service had done it.
BEGIN;
SET LOCAL timezone = 'UTC';

INSERT INTO usr (name, created_at) SELECT 'bench_' || g, :'at' FROM generate_series(1, :users) AS g ORDER BY g;

-- Everybody has bought credits: sats came in and back them, credits were issued.
INSERT INTO posting (from_account, to_account, msat, reason, at)
SELECT p.source, p.target, :msat, 'credits', :'at' FROM generate_series(1, :users) AS g, LATERAL (VALUES (0, 2), (1, g * 16 + 1)) AS p (source, target);
UPDATE account SET balance = CASE WHEN id IN (0, 1) THEN -:msat::bigint * :users WHEN id = 2 THEN :msat::bigint * :users ELSE :msat END
WHERE id < 3 OR (id >= 16 AND id % 16 = 1);

-- Posts were free.
INSERT INTO paid_action (kind, flow, method, state, payer_id, cost_msat, created_at, changed_at, args, result)
SELECT 'ITEM_CREATE', 'BALANCE', 'ZERO_COST', 'PAID', 1 + g % :users, 0, :'at', :'at', jsonb_build_object('title', 'Post ' || g),
    jsonb_build_object('item', g)
FROM generate_series(1, :items) AS g ORDER BY g;
INSERT INTO action_history (action_id, to_state, fact, at) SELECT id, 'PAID', 'REQUESTED', created_at FROM paid_action ORDER BY id;
INSERT INTO item (author_id, action_id, state, ancestors, title, body, created_at)
SELECT payer_id, id, 'PAID', '{}', 'Post ' || id, 'What is said in it.', created_at FROM paid_action ORDER BY id;
UPDATE usr SET posts = written.posts FROM (SELECT author_id, count(*) AS posts FROM item GROUP BY author_id) AS written
WHERE usr.id = written.author_id;
COMMIT;

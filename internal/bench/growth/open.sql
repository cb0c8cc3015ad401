-- An open zap by invoice for each row of opened (id, item, payer, payment_hash, preimage, bolt11, until), as the service leaves it: paid in no way yet,
-- with both of its jobs, of which the first would be due earlier.
INSERT INTO paid_action (id, kind, flow, method, state, payer_id, cost_msat, created_at, changed_at, deadline, args)
OVERRIDING SYSTEM VALUE
SELECT id, 'ZAP', 'PESSIMISTIC', 'PESSIMISTIC', 'PENDING_HELD', payer, 10000, now(), now(), until, jsonb_build_object('item', item, 'sats', 10)
FROM opened ORDER BY id;
INSERT INTO action_history (action_id, to_state, fact, at) SELECT id, 'PENDING_HELD', 'REQUESTED', now() FROM opened ORDER BY id;
INSERT INTO invoice (action_id, node, payment_hash, preimage, hold, amount_msat, memo, cltv_delta, expires_at, bolt11, chosen)
SELECT id, 'holdfast', payment_hash, preimage, true, 10000, 'zap 10 sats to #' || item, 80, until, bolt11, true FROM opened ORDER BY id;
INSERT INTO river_job (state, queue, kind, args, max_attempts, priority, scheduled_at, created_at)
SELECT 'scheduled', 'money', 'advance', jsonb_build_object('action', id, 'due', to_char(until AT TIME ZONE 'UTC', 'YYYY-MM-DD"T"HH24:MI:SS.US"Z"')), 32767, 1, until, now() FROM opened, generate_series(1, 2) ORDER BY id;

-- The statements of a zap, in order, with the numbers that bare.go gives them.
UPDATE usr SET mcredits = mcredits - $2 WHERE id = $1 AND mcredits >= $2 RETURNING id;
INSERT INTO action (kind, state, payer, item_id, cost, idem, args)
VALUES ('ZAP', 'PAID', $1, $2::bigint, $3::bigint, gen_random_uuid(), jsonb_build_object('id', $2::bigint, 'sats', $3::bigint / 1000))
RETURNING id;
INSERT INTO ledger (action_id, usr_id, delta, kind) VALUES ($1, $2, $3, 'SPEND');
INSERT INTO ledger (action_id, usr_id, delta, kind) VALUES ($1, $2, $3, 'RECV');
UPDATE item SET msats = msats + $2, n = n + 1 WHERE id = $1;
UPDATE usr SET mcredits = mcredits + $2, stacked = stacked + $2 WHERE id = $1;

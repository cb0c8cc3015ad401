-- name: LastAction :one
SELECT coalesce(max(id), 0)::bigint FROM paid_action;

-- name: FlowOf :one
SELECT flow::text FROM paid_action WHERE id = $1;

-- name: AllBalances :many
SELECT a.id, (a.balance + coalesce((SELECT sum(d.msat) FROM balance_delta d WHERE d.account_id = a.id), 0))::bigint AS msat FROM account a;

-- name: Attempts :many
-- Every action after the given one, with all that was promised for it.
SELECT a.id, coalesce(a.genesis_id, a.id)::bigint AS genesis, a.kind, a.args, a.payer_id, a.method::text AS method, a.flow::text AS flow,
    a.state::text AS state, a.cost_msat, a.successor_id, a.attempt, i.payment_hash, i.node,
    n.receiver_id, n.amount_msat AS inner_msat, n.budget_msat, r.payment_hash AS leaving_hash, r.amount_msat AS leaving_msat, r.inside_id
FROM paid_action a LEFT JOIN invoice i ON i.action_id = a.id LEFT JOIN inner_invoice n ON n.action_id = a.id
LEFT JOIN relay_payment r ON r.action_id = a.id
WHERE a.id > $1 ORDER BY a.id;

-- name: ZappedWith :one
SELECT msat FROM item WHERE id = $1;

-- name: PaidPosts :many
SELECT item.author_id, item.created_at, paid_action.cost_msat FROM item JOIN paid_action ON paid_action.id = item.action_id
WHERE item.parent_id IS NULL AND item.author_id IS NOT NULL AND item.state = 'PAID' ORDER BY 1, 2;

-- name: Unfinished :one
SELECT ((SELECT count(*) FROM paid_action WHERE state NOT IN ('PAID', 'FAILED', 'RETRYING'))
    + (SELECT count(*) FROM relay_payment WHERE stage NOT IN ('completed', 'failed'))
    + (SELECT count(*) FROM balance_delta) + (SELECT count(*) FROM item_delta))::bigint;

-- name: Stuck :many
SELECT ('action ' || id || ' is ' || state)::text FROM paid_action WHERE state NOT IN ('PAID', 'FAILED', 'RETRYING')
UNION ALL
SELECT ('the payment of action ' || action_id || ' is ' || stage)::text FROM relay_payment WHERE stage NOT IN ('completed', 'failed');

-- name: StoreJob :one
INSERT INTO river_job (kind, args, max_attempts) VALUES (@kind, jsonb_build_object('action', @action::bigint), 1) RETURNING id;

-- name: CompleteJob :exec
DELETE FROM river_job WHERE id = $1;

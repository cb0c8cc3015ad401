-- name: LastAction :one
SELECT coalesce(max(id), 0)::bigint FROM paid_action;

-- name: FlowOf :one
SELECT flow::text FROM paid_action WHERE id = $1;

-- name: ActionOf :one
-- The last action with this hash.
SELECT greatest((SELECT max(i.action_id) FROM invoice i WHERE i.payment_hash = @hash), (SELECT max(r.action_id) FROM relay_payment r WHERE r.payment_hash = @hash), 0)::bigint;

-- name: ActionInvoicing :one
-- The action whose payer is asked for a payment with this hash.
SELECT coalesce(max(action_id), 0)::bigint FROM invoice WHERE payment_hash = @hash;

-- name: ActionSending :one
-- The last action that pays this invoice.
SELECT coalesce(max(action_id), 0)::bigint FROM relay_payment WHERE bolt11 = @bolt11::text;

-- name: InWork :one
-- How many of the payments of these actions are in work at a node.
SELECT count(*) FROM relay_payment WHERE action_id = ANY(@action_ids::bigint[]) AND stage = 'in_work' AND node = @node::text;

-- name: AllBalances :many
SELECT a.id, (a.balance + coalesce((SELECT sum(d.msat) FROM balance_delta d WHERE d.account_id = a.id), 0))::bigint AS msat FROM account a;

-- name: Attempts :many
-- Every action after the given one, with all that was promised for it.
SELECT a.id, coalesce(a.genesis_id, a.id)::bigint AS genesis, a.kind, a.args, a.payer_id, a.method::text AS method, a.flow::text AS flow,
    a.state::text AS state, a.cost_msat, a.successor_id, a.attempt, i.payment_hash, i.node,
    n.receiver_id, n.amount_msat AS inner_msat, n.budget_msat, r.payment_hash AS leaving_hash, r.amount_msat AS leaving_msat, r.inside_id,
    coalesce(a.idempotency_key, '')::text AS key, coalesce(a.result, '{}')::jsonb AS result, a.changed_at,
    (SELECT max(h.id) FROM action_history h WHERE h.action_id = a.id)::bigint AS last_step,
    coalesce((SELECT max(h.at) FROM action_history h WHERE h.action_id = a.id AND h.to_state = 'FAILED'), a.changed_at)::timestamptz AS given_up
FROM paid_action a LEFT JOIN invoice i ON i.action_id = a.id LEFT JOIN inner_invoice n ON n.action_id = a.id
LEFT JOIN relay_payment r ON r.action_id = a.id
WHERE a.id > $1 ORDER BY a.id;

-- name: Items :many
SELECT id, action_id, state::text AS state, body, edited_at, msat, credit_msat, comment_msat, upvotes, vote_micros, comments, down_msat, downvotes,
    boost_msat FROM item JOIN item_count ON item_id = id ORDER BY id;

-- name: PaidPosts :many
SELECT item.author_id, item.created_at, item.action_id, paid_action.cost_msat FROM item JOIN paid_action ON paid_action.id = item.action_id
WHERE item.parent_id IS NULL AND item.kind <> 'BIO' AND item.author_id IS NOT NULL AND item.state = 'PAID' ORDER BY 1, 2;

-- name: Dropped :many
SELECT action_id, dropped_at::timestamptz AS dropped_at FROM invoice WHERE dropped_at IS NOT NULL ORDER BY action_id;

-- name: EditsLeft :one
SELECT count(*) FROM item_edit;

-- name: VoteEvents :many
SELECT * FROM vote_event ORDER BY action_id;

-- name: PollVotes :many
SELECT action_id, item_id, option_id, user_id FROM poll_vote WHERE state = 'PAID' ORDER BY action_id;

-- name: PaidBoosts :many
SELECT action_id, item_id, msat, paid_at::timestamptz AS paid_at, expires_at::timestamptz AS expires_at, expired_at FROM boost
WHERE state = 'PAID' ORDER BY action_id;

-- name: Bounties :many
SELECT item_id, comment_id, user_id FROM bounty_payment ORDER BY item_id;

-- name: Uploads :many
SELECT id, owner_id, fee_msat, item_id, action_id, paid_at, unclaimed_at FROM upload ORDER BY id;

-- name: Redemptions :many
SELECT user_id, action_id FROM invite_redemption ORDER BY action_id;

-- name: InviteUsed :one
SELECT coalesce(sum(used), 0)::bigint FROM invite;

-- name: FoundTerritory :exec
INSERT INTO territory (name, founder_id, base_cost_msat, reply_cost_msat, created_at, state, billing, auto_renew, period_start, period_day, paid_until, paid_msat, bill_at)
VALUES (@name, @founder_id, 1000, 2000, @created_at, @state, 'MONTHLY', @auto_renew, @period_start::timestamptz, @period_day::smallint, @paid_until::timestamptz, @paid_msat, @bill_at);

-- name: Territories :many
SELECT name, founder_id, state::text AS state, billing::text AS billing, auto_renew, description, period_start, coalesce(period_day, 0)::smallint AS period_day, paid_until, paid_msat, grace_until,
    pending_action
FROM territory ORDER BY name;

-- name: Transfers :many
SELECT territory, from_user, to_user, action_id FROM territory_transfer ORDER BY id;

-- name: RewardDays :many
SELECT * FROM reward_day ORDER BY day;

-- name: Rewards :many
SELECT * FROM reward ORDER BY day, rank;

-- name: IntoRewards :many
-- What actions have moved into the pool in each asset, and when.
SELECT action_id::bigint AS action_id, account, sum(msat)::bigint AS msat, at FROM (
    SELECT action_id, to_account AS account, msat, at FROM posting WHERE to_account IN (3, 4) AND action_id IS NOT NULL
    UNION ALL SELECT action_id, from_account, -msat, at FROM posting WHERE from_account IN (3, 4) AND action_id IS NOT NULL
) AS moved GROUP BY action_id, account, at ORDER BY action_id, account, at;

-- name: Unfinished :one
SELECT ((SELECT count(*) FROM paid_action WHERE state NOT IN ('PAID', 'FAILED', 'RETRYING'))
    + (SELECT count(*) FROM relay_payment WHERE stage NOT IN ('completed', 'failed'))
    + (SELECT count(*) FROM route_probe)
    + (SELECT count(*) FROM balance_delta) + (SELECT count(*) FROM item_delta))::bigint;

-- name: Stuck :many
SELECT ('action ' || id || ' is ' || state)::text FROM paid_action WHERE state NOT IN ('PAID', 'FAILED', 'RETRYING')
UNION ALL
SELECT ('the payment of action ' || action_id || ' is ' || stage)::text FROM relay_payment WHERE stage NOT IN ('completed', 'failed')
UNION ALL
SELECT ('a probe of node ' || coalesce(node, '?') || ' is noted until ' || until)::text FROM route_probe;

-- name: StoreJob :one
INSERT INTO river_job (kind, args, max_attempts) VALUES (@kind, jsonb_build_object('action', @action::bigint), 1) RETURNING id;

-- name: CompleteJob :exec
DELETE FROM river_job WHERE id = $1;

-- name: Hashes :many
-- Every hash that is recorded, once for each withdrawal of it.
SELECT payment_hash FROM invoice UNION ALL SELECT payment_hash FROM relay_payment WHERE payer_id IS NOT NULL;

-- name: Books :one
-- How much of what there is: actions up to the last one, what people hold of credits, and what the rewards pool does.
SELECT (SELECT coalesce(max(id), 0) FROM paid_action)::bigint AS last_action,
    coalesce(sum(h.msat) FILTER (WHERE h.id >= 16), 0)::bigint AS people_msat, coalesce(sum(h.msat) FILTER (WHERE h.id = 3), 0)::bigint AS rewards_msat
FROM (SELECT account.id, account.balance AS msat FROM account UNION ALL SELECT account_id, balance_delta.msat FROM balance_delta) AS h
WHERE h.id & 1 = 1;

-- name: ZapsSince :one
-- The zaps after an action: how many are paid, how many are not, what they cost, how many their authors were told of, and how often in all.
SELECT count(*) FILTER (WHERE state = 'PAID') AS paid, count(*) FILTER (WHERE state <> 'PAID') AS others,
    coalesce(sum(cost_msat), 0)::bigint AS cost_msat,
    (SELECT count(DISTINCT n.action_id) FROM notification AS n WHERE n.action_id > @after::bigint AND n.kind = 'ZAP') AS told,
    (SELECT count(*) FROM notification AS n WHERE n.action_id > @after::bigint AND n.kind = 'ZAP') AS notifications
FROM paid_action WHERE paid_action.id > @after::bigint AND paid_action.kind = 'ZAP';

-- name: Unsettled :one
-- Whether something is left to be done: actions that are open, payments that leave, side effects, what is appended and not yet folded in, and a periodic
-- reconciliation: the first one of a service looks at all that the benchmark filled in, which no service that has been at work for a while does.
-- A job that is put off comes again within 5 seconds; looks at deadlines lie further ahead, and are nothing to wait for.
SELECT (EXISTS (SELECT FROM paid_action WHERE state NOT IN ('PAID', 'FAILED', 'RETRYING'))
    OR EXISTS (SELECT FROM relay_payment WHERE stage NOT IN ('completed', 'failed'))
    OR EXISTS (SELECT FROM river_job WHERE state IN ('available', 'pending', 'retryable', 'running')
        OR (state = 'scheduled' AND scheduled_at < now() + interval '6 seconds'))
    OR EXISTS (SELECT FROM balance_delta) OR EXISTS (SELECT FROM item_delta)
    OR EXISTS (SELECT FROM reconcile_run WHERE ended_at IS NULL OR ended_at < began_at))::boolean;

-- name: WalletFailures :many
-- What was said of receivers' wallets that gave no invoice.
SELECT code, message, count(*) AS times FROM wallet_log WHERE NOT ok GROUP BY code, message ORDER BY times DESC;

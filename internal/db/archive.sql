-- Ranges of actions, whose history and postings share a partition each (migrations/0036_archive.up.sql).

-- name: ArchivedTo :one
-- The last action whose history and postings are archived; 0: there is none.
SELECT archived_to()::bigint;

-- name: BoundLocks :exec
-- For the rest of the transaction: how long a wait for a lock may last, and how long a statement with all its waits, in milliseconds.
SELECT set_config('lock_timeout', (@lock::bigint)::text, true), set_config('statement_timeout', (@statement::bigint)::text, true);

-- name: HoldActionRanges :one
-- Until the end of the transaction nobody else makes or archives ranges. false: somebody is at it.
SELECT hold_action_ranges()::boolean;

-- name: LacksActionRanges :one
-- Whether there are fewer than this many after the one that the newest action is in.
SELECT lacks_action_ranges(@size, @ahead)::boolean;

-- name: HoldBackVacuum :exec
-- Until the end of the transaction.
SELECT hold_back_vacuum();

-- name: MakeActionRange :one
-- The next one, if fewer than this many follow the one that the newest action is in. false: none was missing.
SELECT make_action_range(@size, @ahead)::boolean;

-- name: NextActionRange :one
-- The oldest after the given action that is not archived. One that still grows has actions to come.
SELECT first_action, last_action, (newest_action() < last_action)::boolean AS grows FROM action_range
WHERE archived_at IS NULL AND first_action > @after ORDER BY first_action LIMIT 1;

-- name: WhatKeepsActionRange :one
-- What speaks against archiving the actions from first to last, by one that it is about; 0: nothing of the kind. What was posted to the rewards
-- from the first day that is not paid is still needed (FirstUnrewardedDay; accounts 3 and 4). For rows that found no partition see CaughtByRest (reconcile.sql).
SELECT coalesce((SELECT min(a.id) FROM paid_action a WHERE a.id BETWEEN @first_one::bigint AND @last_one::bigint AND a.state NOT IN ('PAID', 'FAILED', 'RETRYING')), 0)::bigint AS open,
    coalesce((SELECT min(r.action_id) FROM relay_payment r WHERE r.action_id BETWEEN @first_one AND @last_one
        AND r.stage IN ('incoming', 'in_work', 'pending_confirmation')), 0)::bigint AS leaving,
    coalesce((SELECT c.id FROM (
        SELECT a.id FROM paid_action a WHERE a.id BETWEEN @first_one AND @last_one AND a.changed_at >= @since::timestamptz
        UNION ALL SELECT h.action_id FROM action_history h WHERE h.action_id BETWEEN @first_one AND @last_one AND h.at >= @since
        UNION ALL SELECT p.action_id FROM posting p WHERE p.action_id BETWEEN @first_one AND @last_one AND p.at >= @since
    ) AS c LIMIT 1), 0)::bigint AS young,
    coalesce((SELECT min(p.action_id) FROM posting p WHERE p.action_id BETWEEN @first_one AND @last_one AND p.to_account IN (3, 4)
        AND p.at >= (@unrewarded::date)::timestamp AT TIME ZONE 'UTC'), 0)::bigint AS pooled,
    coalesce((SELECT min(m.action_id) FROM webhook_message m WHERE m.action_id BETWEEN @first_one AND @last_one), 0)::bigint AS told,
    coalesce((SELECT min(p.action_id) FROM posting_rest p WHERE p.action_id <= @last_one AND (p.action_id > archived_to() OR p.reason NOT LIKE '% by hand')),
        (SELECT min(h.action_id) FROM action_history_rest h WHERE h.action_id <= @last_one), 0)::bigint AS caught;

-- name: FreezeActionRange :exec
-- Until the end of the transaction nobody writes to the history and the postings of a range.
SELECT freeze_action_range(@first_one);

-- name: ArchiveBalances :exec
INSERT INTO archived_balance (first_action, account_id, msat)
SELECT @first_one::bigint, p.id, sum(p.msat) FROM (
    SELECT to_account AS id, msat FROM posting WHERE action_id BETWEEN @first_one AND @last_one::bigint
    UNION ALL SELECT from_account, -msat FROM posting WHERE action_id BETWEEN @first_one AND @last_one) AS p
GROUP BY p.id;

-- name: ArchiveLosses :exec
INSERT INTO archived_loss (action_id, msat, reason, incoming)
SELECT l.action_id, sum(l.msat), string_agg(DISTINCT l.reason, ', '), bool_or(l.incoming) FROM (
    SELECT action_id, msat, reason, false AS incoming FROM posting WHERE action_id BETWEEN @first_one::bigint AND @last_one::bigint AND from_account = 8
    UNION ALL SELECT h.action_id, 0, NULL, true FROM action_history h JOIN paid_action a ON a.id = h.action_id WHERE h.action_id BETWEEN @first_one AND @last_one
        AND (h.fact = 'INCOMING_LOST' OR (h.fact = 'WRITTEN_OFF' AND a.flow <> 'OUTGOING'))) AS l
GROUP BY l.action_id;

-- name: ArchiveActionRange :one
-- No row comes back where somebody else has archived it.
UPDATE action_range SET archived_at = @at::timestamptz,
    steps = (SELECT count(*) FROM action_history WHERE action_id BETWEEN @first_one::bigint AND @last_one::bigint),
    postings = (SELECT count(*) FROM posting WHERE action_id BETWEEN @first_one AND @last_one)
WHERE first_action = @first_one AND archived_at IS NULL
RETURNING steps::bigint AS steps, postings::bigint AS postings;

-- name: DetachActionRange :exec
-- The range leaves the history and the postings for the schema archive.
SELECT detach_action_range(@first_one);

-- name: UndroppedRanges :many
-- Those that are archived, and whose tables are still here.
SELECT first_action, last_action, steps::bigint AS steps, postings::bigint AS postings FROM action_range
WHERE archived_at IS NOT NULL AND to_regclass('archive.action_history_' || first_action) IS NOT NULL
    AND to_regclass('archive.posting_' || first_action) IS NOT NULL
ORDER BY first_action;

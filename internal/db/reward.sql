-- name: HoldRewards :one
-- Until the end of the transaction nobody else pays rewards. false: somebody is at it.
SELECT pg_try_advisory_xact_lock(1, 14)::boolean;

-- name: FirstUnrewardedDay :one
-- The day after the last one that was paid; before there is one, the day of the pool's first money; else today. A day that has not ended was recorded by a clock
-- that was ahead, and is no reason to wait until it has.
SELECT coalesce((SELECT max(day) + 1 FROM reward_day WHERE day < @today::date),
    (least((SELECT min(at) FROM posting WHERE to_account IN (3, 4) AND to_account = 3),
        (SELECT min(at) FROM posting WHERE to_account IN (3, 4) AND to_account = 4)) AT TIME ZONE 'UTC')::date,
    @today)::date AS day;

-- name: RewardPools :many
-- What the pool in each asset held at a moment, less what has left it since: days that were paid late. One statement, one snapshot.
SELECT a.id, greatest(0, a.balance + coalesce((SELECT sum(d.msat) FROM balance_delta d WHERE d.account_id = a.id), 0)
    - coalesce((SELECT sum(p.msat) FROM posting p WHERE p.to_account IN (3, 4) AND p.to_account = a.id AND p.at >= @until::timestamptz), 0))::bigint AS msat
FROM account a WHERE a.id IN (3, 4) ORDER BY a.id;

-- name: TopContributors :many
-- Whose items gained most of the weighted votes between two moments, in each asset that votes are paid in, and how much; nobody who gained nothing. The assets are ranked
-- apart: else those whom credits raise or lower would decide who shares the sats.
WITH voted AS (
    SELECT author_id, greatest(sum(micros) FILTER (WHERE credits), 0) AS credit_micros, greatest(sum(micros) FILTER (WHERE NOT credits), 0) AS sat_micros FROM vote_event
    WHERE at >= @since::timestamptz AND at < @until::timestamptz AND author_id IS NOT NULL GROUP BY author_id
), ranked AS (
    SELECT voted.*, row_number() OVER (ORDER BY credit_micros DESC, author_id) AS by_credits, row_number() OVER (ORDER BY sat_micros DESC, author_id) AS by_sats FROM voted
), shared AS (
    SELECT author_id::bigint AS author_id, (CASE WHEN by_credits <= @top::bigint THEN credit_micros ELSE 0 END)::bigint AS credit_micros,
        (CASE WHEN by_sats <= @top THEN sat_micros ELSE 0 END)::bigint AS sat_micros FROM ranked
)
SELECT author_id, (credit_micros + sat_micros)::bigint AS micros, credit_micros, sat_micros FROM shared
WHERE credit_micros + sat_micros > 0 ORDER BY credit_micros + sat_micros DESC, author_id;

-- name: InsertRewardDay :execrows
-- 0 rows: it is recorded already.
INSERT INTO reward_day (day, pool_credits_msat, pool_sats_msat, paid_credits_msat, paid_sats_msat, paid_at)
VALUES (@day, @pool_credits_msat, @pool_sats_msat, @paid_credits_msat, @paid_sats_msat, @paid_at) ON CONFLICT DO NOTHING;

-- name: InsertRewards :exec
INSERT INTO reward (day, user_id, rank, micros, credits_msat, sats_msat)
SELECT @day::date, unnest(@users::bigint[]), unnest(@ranks::bigint[]), unnest(@micros::bigint[]), unnest(@credits::bigint[]), unnest(@sats::bigint[]);

-- name: InsertDayNotifications :exec
INSERT INTO notification (user_id, kind, day, created_at) SELECT unnest(@users::bigint[]), @kind::text, @day::date, @at::timestamptz
ON CONFLICT DO NOTHING;

-- name: RewardDay :one
-- The given day, or the last that was paid.
SELECT * FROM reward_day WHERE sqlc.narg(day)::date IS NULL OR day = sqlc.narg(day) ORDER BY day DESC LIMIT 1;

-- name: RewardsOfDay :many
SELECT * FROM reward WHERE day = @day AND rank > @after ORDER BY rank LIMIT @page;

-- name: BreaksOfRewards :many
-- Invariant 1: a reward that was not posted once and in full, or money that left the pool and is nobody's reward, nor given back to who paid an action, nor what
-- an operator has put right: no posting can be taken back, so that would be a break for ever.
WITH owed AS (
    SELECT 'reward of ' || to_char(day, 'YYYY-MM-DD') AS reason, user_id * 16 + 1 AS account, credits_msat AS msat FROM reward WHERE credits_msat > 0
    UNION ALL SELECT 'reward of ' || to_char(day, 'YYYY-MM-DD'), user_id * 16, sats_msat FROM reward WHERE sats_msat > 0
), posted AS (
    SELECT reason, to_account AS account, sum(msat) AS msat, count(*) AS postings FROM posting WHERE from_account IN (3, 4)
        AND NOT (reason LIKE '% by hand' AND (action_id IS NULL OR reason = 'given back by hand'))
    GROUP BY reason, to_account
)
SELECT coalesce(owed.reason, posted.reason)::text AS reason, coalesce(owed.account, posted.account)::bigint AS account,
    coalesce(owed.msat, 0)::bigint AS owed, coalesce(posted.msat, 0)::bigint AS posted, coalesce(posted.postings, 0)::bigint AS postings
FROM owed FULL JOIN posted ON posted.reason = owed.reason AND posted.account = owed.account
WHERE coalesce(owed.msat, 0) <> coalesce(posted.msat, 0) OR posted.postings > 1
ORDER BY 1, 2;

-- name: BreaksOfRewardDays :many
-- Invariant 1: a day whose rewards do not sum to what it paid, or that paid more than was in the pool.
SELECT d.day, d.pool_credits_msat, d.pool_sats_msat, d.paid_credits_msat, d.paid_sats_msat,
    coalesce(r.credits_msat, 0)::bigint AS credits_msat, coalesce(r.sats_msat, 0)::bigint AS sats_msat
FROM reward_day d LEFT JOIN (
    SELECT day, sum(credits_msat) AS credits_msat, sum(sats_msat) AS sats_msat FROM reward GROUP BY day
) AS r ON r.day = d.day
WHERE d.paid_credits_msat <> coalesce(r.credits_msat, 0) OR d.paid_sats_msat <> coalesce(r.sats_msat, 0)
    OR d.paid_credits_msat > d.pool_credits_msat OR d.paid_sats_msat > d.pool_sats_msat
ORDER BY d.day;

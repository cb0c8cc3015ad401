-- name: Debit :execrows
-- The conditional debit: 0 rows means that the folded balance does not suffice.
UPDATE account SET balance = balance - @msat WHERE id = @id AND balance >= @msat::bigint;

-- name: DebitAll :many
-- The conditional debit of several accounts, which the caller has locked. An account missing in the result does not
-- suffice.
UPDATE account SET balance = balance - taken.msat
FROM (SELECT unnest(@ids::bigint[]) AS id, unnest(@msats::bigint[]) AS msat) AS taken
WHERE account.id = taken.id AND balance >= taken.msat
RETURNING account.id;

-- name: DebitUnseen :exec
-- DebitAll for callers who have locked nothing and wait for no answer: unless all balances suffice it fails with HF004,
-- and the transaction with it. It changes, and so locks, the accounts in the order of their ids; the array must have
-- that order (PlanOnce).
WITH debited AS (
    UPDATE account SET balance = balance - taken.msat
    FROM (SELECT unnest(@ids::bigint[]) AS id, unnest(@msats::bigint[]) AS msat) AS taken
    WHERE account.id = taken.id AND balance >= taken.msat
    RETURNING account.id
)
SELECT must_cover(count(*), cardinality(@ids::bigint[])) FROM debited;

-- name: LockAccounts :exec
-- Locked in the order of their ids, whatever the order of the array (spec 01 §1.4).
SELECT id FROM account WHERE id = ANY(@ids::bigint[]) ORDER BY id FOR NO KEY UPDATE;

-- name: FoldAccounts :execrows
-- The caller has locked the accounts. The deltas that are summed are those that this very statement deletes, so nothing
-- that a concurrent payment appends is lost or counted twice.
WITH gone AS (
    DELETE FROM balance_delta WHERE account_id IN (SELECT unnest(@ids::bigint[])) RETURNING account_id, msat
), sums AS (
    SELECT account_id, sum(msat)::bigint AS msat FROM gone GROUP BY account_id
)
UPDATE account SET balance = account.balance + sums.msat FROM sums WHERE account.id = sums.account_id;

-- name: FoldOldest :execrows
-- As FoldAccounts, for the accounts of the oldest deltas. It locks them itself, in the order of their ids, and all
-- before it touches any delta. It folds all deltas of these accounts, so that a backlog shrinks the faster. Deltas that
-- another process has folded meanwhile are gone by then.
WITH locked AS (
    SELECT id FROM account
    WHERE id = ANY (ARRAY(SELECT DISTINCT account_id FROM (SELECT account_id FROM balance_delta ORDER BY id LIMIT @page) AS oldest))
    ORDER BY id FOR NO KEY UPDATE
), gone AS (
    DELETE FROM balance_delta WHERE account_id = ANY (ARRAY(SELECT id FROM locked)) RETURNING account_id, msat
), sums AS (
    SELECT account_id, sum(msat)::bigint AS msat FROM gone GROUP BY account_id
)
UPDATE account SET balance = account.balance + sums.msat FROM sums WHERE account.id = sums.account_id;

-- name: InsertPostings :exec
-- An action of 0 is none.
INSERT INTO posting (action_id, from_account, to_account, msat, reason, at)
SELECT nullif(unnest(@action_ids::bigint[]), 0), unnest(@froms::bigint[]), unnest(@tos::bigint[]), unnest(@msats::bigint[]),
    unnest(@reasons::text[]), @at::timestamptz;

-- name: InsertDeltas :exec
INSERT INTO balance_delta (account_id, msat) SELECT unnest(@accounts::bigint[]), unnest(@msats::bigint[]);

-- name: Balance :one
-- One statement, one snapshot: folding moves money between the two terms, never out of their sum.
SELECT (a.balance + coalesce((SELECT sum(d.msat) FROM balance_delta d WHERE d.account_id = a.id), 0))::bigint
FROM account a WHERE a.id = $1;

-- name: Balances :many
SELECT a.id, (a.balance + coalesce((SELECT sum(d.msat) FROM balance_delta d WHERE d.account_id = a.id), 0))::bigint AS balance
FROM account a WHERE a.id = ANY(@ids::bigint[]) ORDER BY a.id;

-- name: BalancesToCover :many
-- What users hold who are to pay these amounts. What was received since the last fold is added only where the balance
-- alone does not suffice; it is never negative.
SELECT a.id, (a.balance + CASE WHEN a.balance >= (@msats::bigint[])[array_position(@ids::bigint[], a.id)] THEN 0
    ELSE coalesce((SELECT sum(d.msat) FROM balance_delta d WHERE d.account_id = a.id), 0) END)::bigint AS balance
FROM account a WHERE a.id = ANY(@ids::bigint[]);

-- name: PostingsOfAction :many
SELECT * FROM posting WHERE action_id = $1 ORDER BY id;

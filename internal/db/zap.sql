-- name: InsertZap :exec
INSERT INTO zap (action_id, item_id, user_id, msat, down, state)
VALUES (@action_id, @item_id, sqlc.narg(user_id), @msat, @down, 'PENDING');

-- name: RepointZap :execrows
UPDATE zap SET action_id = @action_id, msat = @msat, state = 'PENDING' WHERE action_id = @previous;

-- name: InsertZaps :exec
-- A user of 0 is anonymous.
INSERT INTO zap (action_id, item_id, user_id, msat, down, state)
SELECT unnest(@action_ids::bigint[]), unnest(@item_ids::bigint[]), nullif(unnest(@users::bigint[]), 0), unnest(@msats::bigint[]), false, 'PENDING';

-- name: MarkZap :exec
UPDATE zap SET state = @state WHERE action_id = @action_id AND state <> @state;

-- name: MarkZapsPaid :exec
UPDATE zap SET state = 'PAID' WHERE action_id = ANY(@action_ids::bigint[]) AND state <> 'PAID';

-- name: CountZaps :exec
-- What paid zaps, either all up or all down, change at their items and in their payers' votes. A user of 0 is anonymous
-- and has no vote. It is one statement, so that nobody first reads what a payer had zapped an item with: of two zaps at
-- once, each sees its own total. Each total is changed once, in the order of its key, so that no two transactions
-- deadlock. Of several zaps by one person for one item, each changes the vote by its own part, in the order of their
-- ids.
WITH zaps AS MATERIALIZED (
    SELECT one.*, sum(one.msat) OVER (PARTITION BY one.item_id, one.user_id ORDER BY one.action_id DESC)::bigint AS from_this_on
    FROM (
        SELECT unnest(@action_ids::bigint[]) AS action_id, unnest(@item_ids::bigint[]) AS item_id, nullif(unnest(@users::bigint[]), 0) AS user_id,
            nullif(unnest(@authors::bigint[]), 0) AS author_id, unnest(@msats::bigint[]) AS msat, unnest(@credit_msats::bigint[]) AS credit_msat
    ) AS one
), totals AS (
    INSERT INTO zap_total (item_id, user_id, down, msat)
    SELECT zaps.item_id, zaps.user_id, @down::boolean AS down, sum(zaps.msat)::bigint AS msat FROM zaps WHERE zaps.user_id IS NOT NULL
    GROUP BY zaps.item_id, zaps.user_id ORDER BY zaps.item_id, zaps.user_id
    ON CONFLICT (item_id, user_id, down) DO UPDATE SET msat = zap_total.msat + excluded.msat
    RETURNING item_id, user_id, msat, (SELECT usr.trust_micros FROM usr WHERE usr.id = zap_total.user_id) AS trust_micros
), votes AS (
    SELECT zaps.action_id, zaps.item_id, zaps.author_id, totals.msat = zaps.from_this_on AS first, zaps.credit_msat > 0 AS credits,
        vote_micros(totals.msat - zaps.from_this_on + zaps.msat, totals.trust_micros) - vote_micros(totals.msat - zaps.from_this_on, totals.trust_micros) AS micros
    FROM zaps JOIN totals ON totals.item_id = zaps.item_id AND totals.user_id = zaps.user_id
), events AS (
    INSERT INTO vote_event (action_id, item_id, author_id, micros, at, credits)
    SELECT action_id, item_id, author_id, CASE WHEN @down::boolean THEN -micros ELSE micros END AS micros, @at::timestamptz AS at, credits FROM votes
), counts AS (
    SELECT zaps.item_id, sum(zaps.msat)::bigint AS msat, sum(zaps.credit_msat)::bigint AS credit_msat,
        count(*) FILTER (WHERE votes.first) AS voters, coalesce(sum(votes.micros), 0)::bigint AS micros
    FROM zaps LEFT JOIN votes ON votes.action_id = zaps.action_id GROUP BY zaps.item_id
), ups AS (
    INSERT INTO item_delta (item_id, msat, credit_msat, upvotes, vote_micros, last_zap_at)
    SELECT item_id, msat, credit_msat, voters AS upvotes, micros AS vote_micros, @at::timestamptz AS last_zap_at FROM counts WHERE NOT @down::boolean
)
INSERT INTO item_delta (item_id, down_msat, downvotes, vote_micros)
SELECT item_id, msat AS down_msat, voters AS downvotes, -micros AS vote_micros FROM counts WHERE @down::boolean;

-- name: InsertDonation :exec
INSERT INTO donation (action_id, user_id, msat, state) VALUES (@action_id, sqlc.narg(user_id), @msat, 'PENDING');

-- name: MarkDonation :exec
UPDATE donation SET state = @state WHERE action_id = @action_id AND state <> @state;

-- name: ZapTargets :many
-- Only the columns that a zap needs, since texts are long and stored elsewhere. root_author_id is the author of the
-- post above a comment.
SELECT item.id, item.author_id, item.state, item.deleted_at, item.ancestors, territory.founder_id, root.author_id AS root_author_id,
    coalesce(forwards.users, '{}')::bigint[] AS forwardees, coalesce(forwards.pcts, '{}')::smallint[] AS pcts
FROM item LEFT JOIN territory ON territory.name = item.territory
LEFT JOIN item root ON root.id = item.ancestors[1]
LEFT JOIN LATERAL (
    SELECT array_agg(f.user_id ORDER BY f.user_id) AS users, array_agg(f.pct ORDER BY f.user_id) AS pcts FROM item_forward f WHERE f.item_id = item.id
) AS forwards ON true
WHERE item.id = ANY(@ids::bigint[]);

-- name: InsertPaidZaps :exec
INSERT INTO zap (action_id, item_id, user_id, msat, down, state)
SELECT unnest(@action_ids::bigint[]), unnest(@item_ids::bigint[]), unnest(@users::bigint[]), unnest(@msats::bigint[]), false, 'PAID';

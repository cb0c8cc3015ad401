-- name: InsertZap :exec
INSERT INTO zap (action_id, item_id, user_id, msat, down, state)
VALUES (@action_id, @item_id, sqlc.narg(user_id), @msat, @down, 'PENDING');

-- name: RepointZap :execrows
UPDATE zap SET action_id = @action_id, msat = @msat, state = 'PENDING' WHERE action_id = @previous;

-- name: InsertZaps :exec
-- A user of 0 is the anonymous one.
INSERT INTO zap (action_id, item_id, user_id, msat, down, state)
SELECT unnest(@action_ids::bigint[]), unnest(@item_ids::bigint[]), nullif(unnest(@users::bigint[]), 0), unnest(@msats::bigint[]), false, 'PENDING';

-- name: MarkZap :exec
UPDATE zap SET state = @state WHERE action_id = @action_id AND state <> @state;

-- name: MarkZapsPaid :exec
UPDATE zap SET state = 'PAID' WHERE action_id = ANY(@action_ids::bigint[]) AND state <> 'PAID';

-- name: AddZapTotals :many
-- The new totals come back from the same statement that adds: two zaps at once each see their own. Each total comes once, in the order of
-- its key, so that no two transactions wait for each other.
INSERT INTO zap_total (item_id, user_id, down, msat)
SELECT unnest(@item_ids::bigint[]), unnest(@users::bigint[]), @down, unnest(@msats::bigint[])
ON CONFLICT (item_id, user_id, down) DO UPDATE SET msat = zap_total.msat + excluded.msat
RETURNING item_id, user_id, msat, (SELECT usr.trust_micros FROM usr WHERE usr.id = zap_total.user_id)::bigint AS trust_micros;

-- name: PendingZapsOf :many
-- What one user has zapped and not yet paid, per item: shown to that user alone.
SELECT item_id, sum(msat)::bigint AS msat FROM zap
WHERE user_id = @user_id AND item_id = ANY(@item_ids::bigint[]) AND state = 'PENDING' AND NOT down GROUP BY item_id;

-- name: InsertVoteEvents :exec
-- An author of 0 is the anonymous one.
INSERT INTO vote_event (action_id, item_id, author_id, micros, at)
SELECT unnest(@action_ids::bigint[]), unnest(@item_ids::bigint[]), nullif(unnest(@authors::bigint[]), 0), unnest(@micros::bigint[]), @at::timestamptz;

-- name: InsertDonation :exec
INSERT INTO donation (action_id, user_id, msat, state) VALUES (@action_id, sqlc.narg(user_id), @msat, 'PENDING');

-- name: MarkDonation :execrows
UPDATE donation SET state = @state WHERE action_id = @action_id AND state <> @state;

-- name: ZapTargets :many
-- Of what is zapped only what a zap needs: texts are long, and lie elsewhere. root_author_id is who wrote the post that a comment is below.
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

-- name: InsertZap :exec
INSERT INTO zap (action_id, item_id, user_id, msat, down, state)
VALUES (@action_id, @item_id, sqlc.narg(user_id), @msat, @down, 'PENDING');

-- name: RepointZap :execrows
UPDATE zap SET action_id = @action_id, msat = @msat, state = 'PENDING' WHERE action_id = @previous;

-- name: MarkZap :execrows
UPDATE zap SET state = @state WHERE action_id = @action_id AND state <> @state;

-- name: AddZapTotal :one
-- The new total comes back from the same statement that adds: two zaps at once each see their own.
INSERT INTO zap_total (item_id, user_id, down, msat) VALUES (@item_id, @user_id, @down, @msat)
ON CONFLICT (item_id, user_id, down) DO UPDATE SET msat = zap_total.msat + excluded.msat
RETURNING msat;

-- name: PendingZapsOf :many
-- What one user has zapped and not yet paid, per item: shown to that user alone.
SELECT item_id, sum(msat)::bigint AS msat FROM zap
WHERE user_id = @user_id AND item_id = ANY(@item_ids::bigint[]) AND state = 'PENDING' AND NOT down GROUP BY item_id;

-- name: InsertVoteEvent :exec
INSERT INTO vote_event (action_id, item_id, author_id, micros, at) VALUES (@action_id, @item_id, sqlc.narg(author_id), @micros, @at);

-- name: InsertDonation :exec
INSERT INTO donation (action_id, user_id, msat, state) VALUES (@action_id, sqlc.narg(user_id), @msat, 'PENDING');

-- name: MarkDonation :execrows
UPDATE donation SET state = @state WHERE action_id = @action_id AND state <> @state;

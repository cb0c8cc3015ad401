-- name: InsertBoost :exec
INSERT INTO boost (action_id, item_id, user_id, msat, state) VALUES (@action_id, @item_id, sqlc.narg(user_id), @msat, 'PENDING');

-- name: RepointBoost :execrows
UPDATE boost SET action_id = @action_id, state = 'PENDING' WHERE action_id = @previous;

-- name: PayBoost :one
UPDATE boost SET state = 'PAID', paid_at = @at::timestamptz, expires_at = @expires_at::timestamptz
WHERE action_id = @action_id AND state = 'PENDING' RETURNING item_id, msat;

-- name: FailBoost :exec
UPDATE boost SET state = 'FAILED' WHERE action_id = @action_id AND state = 'PENDING';

-- name: AddBoosts :exec
-- Below zero where boosts are taken off again.
INSERT INTO item_delta (item_id, boost_msat) SELECT unnest(@item_ids::bigint[]), unnest(@msats::bigint[]);

-- name: LockExpiringBoosts :many
SELECT action_id FROM boost WHERE state = 'PAID' AND expired_at IS NULL AND expires_at <= @now::timestamptz
ORDER BY expires_at, action_id LIMIT @page FOR NO KEY UPDATE;

-- name: ExpireBoosts :many
-- What comes back was not expired before: whoever else tries, each boost comes back once.
UPDATE boost SET expired_at = @now::timestamptz WHERE action_id = ANY(@ids::bigint[]) AND expired_at IS NULL RETURNING item_id, msat;

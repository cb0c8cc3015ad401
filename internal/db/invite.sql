-- name: InsertInvite :one
INSERT INTO invite (code, inviter_id, gift_msat, uses_limit, created_at) VALUES (@code, @inviter_id, @gift_msat, @uses_limit, @created_at)
RETURNING *;

-- name: GetInvite :one
SELECT * FROM invite WHERE code = $1;

-- name: CountOpenInvites :one
-- The inviter is locked by the caller.
SELECT count(*) FROM invite WHERE inviter_id = $1 AND revoked_at IS NULL AND used < uses_limit;

-- name: RevokeInvite :one
-- Again, it comes back as it was. No row: it is not this inviter's.
UPDATE invite SET revoked_at = coalesce(revoked_at, @at) WHERE code = @code AND inviter_id = @inviter_id RETURNING *;

-- name: InvitesOf :many
SELECT * FROM invite WHERE inviter_id = @inviter_id AND id < @before ORDER BY id DESC LIMIT @page;

-- name: UseInvite :execrows
-- 0 rows: used up, or taken back. One statement decides, whoever comes at the same time.
UPDATE invite SET used = used + 1 WHERE code = @code AND used < uses_limit AND revoked_at IS NULL;

-- name: InsertRedemption :execrows
-- 0 rows: this user has redeemed an invite before.
INSERT INTO invite_redemption (user_id, code, action_id, at) VALUES (@user_id, @code, @action_id, @at) ON CONFLICT (user_id) DO NOTHING;

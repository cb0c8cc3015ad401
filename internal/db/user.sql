-- name: InsertUser :one
INSERT INTO usr (name, created_at) VALUES ($1, $2) ON CONFLICT (name) DO NOTHING RETURNING id;

-- name: InsertKey :one
INSERT INTO api_key (user_id, key_hash, scopes, created_at, expires_at) VALUES ($1, $2, $3, $4, $5) RETURNING id;

-- name: UsersByKeys :many
-- Whose these keys are, as far as they are good, and the epoch that this is of; one row without a key where none is good. Each server counts epochs of its own: one
-- that takes over may not have seen the last of another's.
SELECT key_epoch.epoch, pg_postmaster_start_time()::timestamptz AS server_since, k.key_hash, coalesce(k.user_id, 0)::bigint AS user_id, coalesce(k.scopes, '{}')::text[] AS scopes, k.expires_at
FROM key_epoch LEFT JOIN api_key k ON k.key_hash = ANY(@hashes::bytea[]) AND k.revoked_at IS NULL;

-- name: KeyEpoch :one
SELECT epoch, pg_postmaster_start_time()::timestamptz AS server_since FROM key_epoch;

-- name: HoldKey :one
-- Until the commit nobody revokes this key. No row: it is not good any more.
SELECT expires_at FROM api_key WHERE key_hash = $1 AND revoked_at IS NULL FOR SHARE;

-- name: KeysOf :many
SELECT id, scopes, created_at, revoked_at, expires_at FROM api_key WHERE user_id = $1 ORDER BY id;

-- name: RevokeKey :execrows
UPDATE api_key SET revoked_at = @at WHERE key_hash = @key_hash AND revoked_at IS NULL;

-- name: RevokeOldestKeys :exec
-- Of a user who is locked, all but the newest of those keys that end by themselves.
UPDATE api_key SET revoked_at = @at WHERE id IN (SELECT old.id FROM api_key AS old
    WHERE old.user_id = @user_id AND old.expires_at > @at AND old.revoked_at IS NULL ORDER BY old.id DESC OFFSET @most);

-- name: ForgetDeadKeys :exec
-- Of a user who is locked: a page of those keys that were to end by themselves and are good for nothing, but for the newest. Nobody is waited for: who deletes keys
-- or revokes one may hold it, and wait for the epoch that this transaction has begun.
DELETE FROM api_key WHERE id = ANY (ARRAY(SELECT gone.id FROM api_key AS gone WHERE gone.id IN (SELECT old.id FROM api_key AS old
    WHERE old.user_id = @user_id AND old.expires_at IS NOT NULL AND least(old.revoked_at, old.expires_at) <= @at::timestamptz
    ORDER BY old.id DESC OFFSET @most LIMIT @page) ORDER BY gone.id FOR NO KEY UPDATE SKIP LOCKED));

-- name: OwnerOfKey :one
-- Of one that was revoked, too.
SELECT user_id FROM api_key WHERE id = sqlc.narg(id)::bigint OR key_hash = sqlc.narg(key_hash)::bytea;

-- name: EndKey :execrows
-- RevokeKey for an operator, who may know only its number.
UPDATE api_key SET revoked_at = @at WHERE (id = sqlc.narg(id)::bigint OR key_hash = sqlc.narg(key_hash)::bytea) AND revoked_at IS NULL;

-- name: DeleteKeys :execrows
-- Those that have been good for nothing for a while: revoked, or expired. Nobody is waited for.
DELETE FROM api_key WHERE id = ANY (ARRAY(SELECT old.id FROM api_key AS old WHERE least(old.revoked_at, old.expires_at) < @before::timestamptz
    ORDER BY least(old.revoked_at, old.expires_at) LIMIT @page FOR NO KEY UPDATE SKIP LOCKED));

-- name: UsersByID :many
SELECT * FROM usr WHERE id = ANY(@ids::bigint[]);

-- name: UsersByName :many
SELECT * FROM usr WHERE name = ANY(@names::text[]) ORDER BY id;

-- name: CountWritten :exec
-- In the author's own row, which is locked before the item is.
UPDATE usr SET posts = posts + @posts, comments = comments + @comments WHERE id = @id;

-- name: LockPayer :exec
-- Who is known to be there: one payer's open invoices are counted under it.
SELECT id FROM usr WHERE id = @payer FOR NO KEY UPDATE;

-- name: LockUser :one
-- One payer's actions whose price depends on what they did before wait for each other here.
SELECT id FROM usr WHERE id = $1 FOR NO KEY UPDATE;

-- name: SetTrust :exec
UPDATE usr SET trust_micros = @micros WHERE id = @id;

-- name: Trust :one
SELECT trust_micros FROM usr WHERE id = $1;

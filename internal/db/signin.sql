-- name: InsertSignIn :exec
INSERT INTO sign_in (k1, secret_hash, action, links, created_at, expires_at) VALUES (@k1, @secret_hash, @action, sqlc.narg(links), @at, @expires_at);

-- name: LockSignInByK1 :one
SELECT * FROM sign_in WHERE k1 = $1 ORDER BY id FOR NO KEY UPDATE;

-- name: NoteSigner :exec
-- Of one that is locked, and that nobody has signed. The browser gets a moment more to come for its key.
UPDATE sign_in SET linking_key = @linking_key, expires_at = greatest(expires_at, @until) WHERE id = @id;

-- name: ContestSignIn :exec
UPDATE sign_in SET contested_at = @at WHERE id = @id;

-- name: LockSignIn :one
SELECT * FROM sign_in WHERE secret_hash = $1 ORDER BY id FOR NO KEY UPDATE;

-- name: UseSignIn :exec
UPDATE sign_in SET used_at = @at WHERE id = @id AND used_at IS NULL;

-- name: DeleteSignIns :execrows
-- Nobody is waited for.
DELETE FROM sign_in WHERE id = ANY (ARRAY(SELECT old.id FROM sign_in AS old WHERE old.expires_at < @before
    ORDER BY old.expires_at LIMIT @page FOR NO KEY UPDATE SKIP LOCKED));

-- name: InsertLinkingKey :execrows
INSERT INTO linking_key (key, user_id, created_at) VALUES (@key, @user_id, @at) ON CONFLICT (key) DO NOTHING;

-- name: UserByLinkingKey :one
SELECT user_id FROM linking_key WHERE key = $1;

-- name: HoldLinkingKey :one
-- Until the commit nobody unlinks this wallet. No row: it does not open this account any more.
SELECT key FROM linking_key WHERE key = @key AND user_id = @user_id FOR SHARE;

-- name: CountLinkingKeys :one
SELECT count(*) FROM linking_key WHERE user_id = $1;

-- name: LinkingKeysOf :many
SELECT key, created_at FROM linking_key WHERE user_id = $1 ORDER BY created_at, key;

-- name: DeleteLinkingKey :execrows
DELETE FROM linking_key WHERE user_id = @user_id AND key = @key;

-- name: UsersBySite :many
SELECT subject, user_id FROM site_user WHERE issuer = @issuer AND subject = ANY (@subjects::text[]);

-- name: InsertSiteUser :execrows
INSERT INTO site_user (issuer, subject, user_id, created_at) VALUES (@issuer, @subject, @user_id, @at) ON CONFLICT DO NOTHING;

-- name: InsertUploadData :exec
INSERT INTO upload_data (upload_id, data) VALUES (@upload_id, @data);

-- name: InsertUpload :one
INSERT INTO upload (id, token, owner_id, client_hash, bytes, content_type, fee_msat, created_at, unclaimed_at)
VALUES (@id, @token, sqlc.narg(owner_id), sqlc.narg(client_hash), @bytes, @content_type, @fee_msat, @at, @at)
RETURNING *;

-- name: UnpaidOfUser :one
-- Those of items that are not paid count as well: posts that nobody pays for would else hold any number of files.
SELECT count(*) AS files, coalesce(sum(bytes), 0)::bigint AS bytes FROM upload WHERE owner_id = $1 AND paid_at IS NULL;

-- name: UnpaidOfClient :one
SELECT count(*) AS files, coalesce(sum(bytes), 0)::bigint AS bytes FROM upload WHERE client_hash = $1 AND paid_at IS NULL;

-- name: UnpaidOfAllUsers :one
-- A file counts as least bytes at least.
SELECT coalesce(sum(greatest(bytes, @least::bigint)), 0)::bigint FROM upload WHERE paid_at IS NULL AND owner_id IS NOT NULL;

-- name: UnpaidOfAllClients :one
SELECT coalesce(sum(greatest(bytes, @least::bigint)), 0)::bigint FROM upload WHERE paid_at IS NULL AND client_hash IS NOT NULL;

-- name: UploadedSince :one
SELECT coalesce(sum(bytes), 0)::bigint FROM upload WHERE owner_id = @owner_id AND created_at > @since;

-- name: LockUploads :many
-- Those of one owner among these. The anonymous have theirs by knowing the ids.
SELECT * FROM upload WHERE id = ANY(@ids::bigint[]) AND owner_id IS NOT DISTINCT FROM sqlc.narg(owner_id) ORDER BY id FOR NO KEY UPDATE;

-- name: ClaimUploads :execrows
-- Locked by the caller.
UPDATE upload SET item_id = @item_id, action_id = @action_id WHERE id = ANY(@ids::bigint[]) AND item_id IS NULL;

-- name: ShowUploads :exec
-- Locked in the order of LockUploads: their owner may be naming them once more.
UPDATE upload SET paid_at = @at WHERE id = ANY (ARRAY(
    SELECT u.id FROM upload AS u WHERE u.action_id = @action_id AND u.paid_at IS NULL ORDER BY u.id FOR NO KEY UPDATE));

-- name: ReleaseUploads :exec
-- As ShowUploads.
UPDATE upload SET item_id = NULL, action_id = NULL, unclaimed_at = @at WHERE id = ANY (ARRAY(
    SELECT u.id FROM upload AS u WHERE u.action_id = @action_id AND u.paid_at IS NULL ORDER BY u.id FOR NO KEY UPDATE));

-- name: CountUploadsOfItem :one
SELECT count(*) FROM upload WHERE item_id = $1;

-- name: UploadByToken :one
-- public says that everybody may have it, deleted that its item was taken away.
SELECT sqlc.embed(upload), (upload.paid_at IS NOT NULL AND item.deleted_at IS NULL)::boolean AS public, (item.deleted_at IS NOT NULL)::boolean AS deleted
FROM upload LEFT JOIN item ON item.id = upload.item_id WHERE upload.token = $1;

-- name: UploadPiece :one
-- first counts from 1.
SELECT substring(data FROM @first::integer FOR @length::integer)::bytea FROM upload_data WHERE upload_id = @upload_id;

-- name: UploadsOfItems :many
-- What is not paid comes back for its owner alone.
SELECT id, token, item_id::bigint AS item_id, bytes, content_type FROM upload
WHERE item_id = ANY(@item_ids::bigint[]) AND (paid_at IS NOT NULL OR owner_id = sqlc.narg(viewer)::bigint) ORDER BY item_id, created_at, id;

-- name: UploadsToDelete :many
-- The oldest, from their index, however many there are. Nobody is waited for: what is being claimed stays.
SELECT id FROM upload WHERE item_id IS NULL AND unclaimed_at <= @until ORDER BY unclaimed_at LIMIT @page FOR NO KEY UPDATE SKIP LOCKED;

-- name: DeleteUploads :exec
-- Locked by the caller. The bytes go with them.
DELETE FROM upload WHERE id = ANY(@ids::bigint[]);

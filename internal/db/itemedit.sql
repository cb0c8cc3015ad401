-- name: ItemPaidAt :one
-- When the item came to be seen by all; the item is PAID.
SELECT paid_action.changed_at FROM item JOIN paid_action ON paid_action.id = item.action_id WHERE item.id = $1;

-- name: InsertEdit :exec
INSERT INTO item_edit (action_id, item_id, title, body, url, created_at)
VALUES (@action_id, @item_id, sqlc.narg(title), @body, sqlc.narg(url), @at);

-- name: ApplyEdit :exec
-- The item is locked by the caller: of two edits the later one stands, whole.
UPDATE item SET title = item_edit.title, body = item_edit.body, url = item_edit.url, edited_at = @at FROM item_edit
WHERE item_edit.action_id = @action_id AND item.id = item_edit.item_id;

-- name: DeleteEdit :exec
DELETE FROM item_edit WHERE action_id = $1;

-- name: DeleteForwards :exec
DELETE FROM item_forward WHERE item_id = $1;

-- name: EndForwards :many
-- For an operator. The item is locked by the caller, as with all that change its forwards.
WITH ended AS (DELETE FROM item_forward WHERE item_id = $1 RETURNING user_id, pct)
SELECT usr.name, ended.pct FROM ended JOIN usr ON usr.id = ended.user_id ORDER BY usr.name;

-- name: PendingEditsOf :many
-- The latest change to each item that its author has not paid for yet: shown to the author alone.
SELECT DISTINCT ON (item_edit.item_id) item_edit.* FROM item_edit JOIN item ON item.id = item_edit.item_id
WHERE item_edit.item_id = ANY(@item_ids::bigint[]) AND item.author_id = @author_id ORDER BY item_edit.item_id, item_edit.action_id DESC;

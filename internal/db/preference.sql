-- name: SetPreference :exec
INSERT INTO user_preference (user_id, drop_invoices_after_days, hide_descriptions, due_at)
VALUES (@user_id, sqlc.narg(drop_invoices_after_days), @hide_descriptions, @at)
ON CONFLICT (user_id) DO UPDATE SET drop_invoices_after_days = excluded.drop_invoices_after_days,
    hide_descriptions = excluded.hide_descriptions, due_at = excluded.due_at;

-- name: PreferenceOf :one
SELECT * FROM user_preference WHERE user_id = $1;

-- name: HidesDescriptions :one
SELECT EXISTS (SELECT FROM user_preference WHERE user_id = $1 AND hide_descriptions);

-- name: NextToDropFor :one
-- Whose invoices are looked through next; others who look at the same time take others.
SELECT * FROM user_preference WHERE drop_invoices_after_days IS NOT NULL AND due_at <= @at
ORDER BY due_at, user_id LIMIT 1 FOR NO KEY UPDATE SKIP LOCKED;

-- name: ActionsAfter :many
-- The payer's next actions in the order in which they began, and which of them ended before a moment: for good. Rows are compared, and sorted by, as
-- profile.sql says.
SELECT id, (state IN ('PAID', 'FAILED', 'RETRYING') AND changed_at < @before::timestamptz)::boolean AS ended FROM paid_action
WHERE (payer_id, id) > (@payer_id::bigint, @after::bigint) AND payer_id <= @payer_id ORDER BY payer_id, id LIMIT @page;

-- name: DropBolt11 :execrows
UPDATE invoice SET bolt11 = NULL, dropped_at = @at WHERE action_id = ANY(@ids::bigint[]) AND bolt11 IS NOT NULL;

-- name: DropPayee :exec
-- The invoice that a withdrawal has paid, among its arguments. An address stays.
UPDATE paid_action SET args = jsonb_set(args, '{to}', '""') FROM relay_payment r
WHERE paid_action.id = ANY(@ids::bigint[]) AND r.action_id = paid_action.id AND r.receiver_id IS NULL AND r.bolt11 <> ''
    AND right(lower(paid_action.args->>'to'), length(r.bolt11)) = r.bolt11;

-- name: DropPaidBolt11 :execrows
-- Only what is at its end: nothing is sent any more.
UPDATE relay_payment SET bolt11 = '' WHERE action_id = ANY(@ids::bigint[]) AND receiver_id IS NULL AND stage IN ('completed', 'failed');

-- name: DroppedTo :exec
UPDATE user_preference SET dropped_to = @dropped_to, due_at = @due_at WHERE user_id = @user_id;

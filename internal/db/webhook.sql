-- name: NextWebhookID :one
SELECT nextval(pg_get_serial_sequence('webhook', 'id'))::bigint;

-- name: InsertWebhook :exec
INSERT INTO webhook (id, user_id, url, events, secret, created_at) VALUES (@id, sqlc.narg(user_id), @url, @events, @secret, @at);

-- name: WebhooksOf :many
-- Somebody's, or the operator's. IS NOT DISTINCT FROM would use no index, and read everybody's.
SELECT * FROM webhook WHERE user_id = sqlc.narg(user_id) OR (user_id IS NULL AND sqlc.narg(user_id) IS NULL) ORDER BY id;

-- name: WebhookOf :one
SELECT * FROM webhook WHERE id = @id AND user_id IS NOT DISTINCT FROM sqlc.narg(user_id);

-- name: LockWebhook :one
SELECT * FROM webhook WHERE id = $1 FOR NO KEY UPDATE;

-- name: RotateWebhook :exec
UPDATE webhook SET former = @former, former_until = @former_until, previous = secret, previous_until = @previous_until, secret = @secret WHERE id = @id;

-- name: EnableWebhook :exec
UPDATE webhook SET disabled_at = sqlc.narg(disabled_at), failing_since = NULL, failed_at = NULL, left_alone_until = NULL
WHERE id = @id AND user_id IS NOT DISTINCT FROM sqlc.narg(user_id);

-- name: DeleteWebhook :exec
DELETE FROM webhook WHERE id = @id AND user_id IS NOT DISTINCT FROM sqlc.narg(user_id);

-- name: DeleteMessagesOf :execrows
-- A page of a webhook's, with their log. Nobody is waited for.
DELETE FROM webhook_message WHERE id = ANY (ARRAY(SELECT old.id FROM webhook_message AS old WHERE old.webhook_id = @webhook_id
    ORDER BY old.webhook_id, old.id LIMIT @page FOR NO KEY UPDATE SKIP LOCKED));

-- name: DisableWebhook :exec
UPDATE webhook SET disabled_at = @at WHERE id = @id AND disabled_at IS NULL;

-- name: WebhookFails :exec
UPDATE webhook SET failing_since = sqlc.narg(failing_since), failed_at = sqlc.narg(failed_at)
WHERE id = @id AND (failing_since, failed_at) IS DISTINCT FROM (sqlc.narg(failing_since)::timestamptz, sqlc.narg(failed_at)::timestamptz);

-- name: LeaveWebhookAlone :exec
-- Of two answers that come at once, the one that asks for longer counts.
UPDATE webhook SET left_alone_until = greatest(left_alone_until, @until::timestamptz) WHERE id = @id;

-- name: NotifyOfWebhook :exec
INSERT INTO notification (user_id, kind, created_at) VALUES (@user_id, 'WEBHOOK_DISABLED', @at);

-- name: InsertTestMessage :one
-- No row: the webhook was removed meanwhile.
INSERT INTO webhook_message (webhook_id, type, created_at)
SELECT w.id, @type, @at FROM webhook w WHERE w.id = @webhook_id FOR KEY SHARE RETURNING webhook_message.id;

-- name: NewMessages :many
-- And whose webhooks they are for; 0 is the operator.
SELECT m.id, coalesce(w.user_id, 0)::bigint AS owner FROM webhook_message m JOIN webhook w ON w.id = m.webhook_id
WHERE m.queued_at IS NULL ORDER BY m.id LIMIT @page FOR NO KEY UPDATE OF m SKIP LOCKED;

-- name: QueueMessages :exec
UPDATE webhook_message SET queued_at = @at WHERE id = ANY(@ids::bigint[]);

-- name: MessageToDeliver :one
-- received_msat is what came to the webhook's owner, to their balances (ledger/account.go) and to their own wallet.
SELECT m.id, m.webhook_id, m.type, m.created_at, m.queued_at, m.attempts, m.next_at, m.ended_at,
    h.action_id, h.from_state, h.to_state, a.kind, a.method, a.cost_msat, a.attempt, a.genesis_id, a.payer_id, a.failure_code, a.failure_message,
    coalesce(action_item(a.args, a.result), 0)::bigint AS item_id,
    CASE WHEN m.type = 'payment.received' THEN
        (SELECT coalesce(sum(p.msat), 0) FROM posting p WHERE p.action_id = a.id AND p.to_account IN (w.user_id * 16, w.user_id * 16 + 1))
        + (SELECT coalesce(sum(r.amount_msat), 0) FROM relay_payment r WHERE r.action_id = a.id AND r.receiver_id = w.user_id AND r.preimage IS NOT NULL)
    ELSE 0 END::bigint AS received_msat
FROM webhook_message m JOIN webhook w ON w.id = m.webhook_id
    LEFT JOIN action_history h ON h.action_id = m.action_id AND h.id = m.step_id LEFT JOIN paid_action a ON a.id = h.action_id
WHERE m.id = $1;

-- name: GetWebhook :one
SELECT * FROM webhook WHERE id = $1;

-- name: AttemptMade :execrows
-- 0 rows: another job has tried it at the same moment.
UPDATE webhook_message SET attempts = attempts + 1, next_at = sqlc.narg(next_at), ended_at = sqlc.narg(ended_at), delivered = @delivered
WHERE id = @id AND attempts = @before AND ended_at IS NULL;

-- name: GiveUpMessage :exec
UPDATE webhook_message SET ended_at = @at, next_at = NULL WHERE id = @id AND ended_at IS NULL;

-- name: InsertWebhookAttempt :exec
INSERT INTO webhook_attempt (message_id, at, ms, status, code) VALUES (@message_id, @at, @ms, sqlc.narg(status), @code);

-- name: MessagesOf :many
-- Rows are compared, and sorted by, as profile.sql says.
SELECT * FROM webhook_message WHERE (webhook_id, id) < (@webhook_id::bigint, @before::bigint) AND webhook_id >= @webhook_id
ORDER BY webhook_id DESC, id DESC LIMIT @page;

-- name: MessageOf :one
SELECT m.* FROM webhook_message m JOIN webhook w ON w.id = m.webhook_id
WHERE m.id = @id AND w.user_id IS NOT DISTINCT FROM sqlc.narg(user_id);

-- name: AttemptsOf :many
-- The newest of each message: what its owner has delivered again and again has ever more.
SELECT * FROM webhook_attempt WHERE id = ANY (ARRAY(
    SELECT newest.id FROM unnest(@messages::bigint[]) AS message (id) CROSS JOIN LATERAL (
        SELECT a.id FROM webhook_attempt AS a WHERE a.message_id = message.id ORDER BY a.id DESC LIMIT @most) AS newest))
ORDER BY id;

-- name: Redeliver :execrows
-- What has not ended has a job that delivers it.
UPDATE webhook_message SET queued_at = NULL, attempts = 0, next_at = NULL, ended_at = NULL, delivered = false WHERE id = @id AND ended_at IS NOT NULL;

-- name: EndMessagesNow :execrows
-- Those that ended by a clock that was ahead. Nobody is waited for.
UPDATE webhook_message SET ended_at = @now WHERE id = ANY (ARRAY(SELECT early.id FROM webhook_message AS early WHERE early.ended_at > @after
    ORDER BY early.ended_at LIMIT @page FOR NO KEY UPDATE SKIP LOCKED));

-- name: DeleteMessages :execrows
-- Nobody is waited for.
DELETE FROM webhook_message WHERE id = ANY (ARRAY(SELECT old.id FROM webhook_message AS old WHERE old.ended_at < @before
    ORDER BY old.ended_at LIMIT @page FOR NO KEY UPDATE SKIP LOCKED));

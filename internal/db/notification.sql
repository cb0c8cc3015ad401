-- name: NotifyOfFailure :exec
-- Repeatable: the job that writes it runs at least once. Who is not known cannot be told.
INSERT INTO notification (user_id, kind, action_id, item_id, created_at)
SELECT a.payer_id, 'PAYMENT_FAILED', a.id, action_item(a.args, a.result), @at FROM paid_action a
WHERE a.id = @action_id AND a.payer_id IS NOT NULL
ON CONFLICT (action_id, user_id, kind) DO NOTHING;

-- name: MarkNotificationsSeen :exec
-- Up to the newest there is, and never back: of those to come only one that got a lower number, and commits later, counts
-- as seen from the beginning.
INSERT INTO notification_seen (user_id, up_to)
SELECT n.user_id, n.id FROM notification n
WHERE (n.user_id, n.id) <= (@user_id::bigint, @up_to::bigint) AND n.user_id >= @user_id ORDER BY n.user_id DESC, n.id DESC LIMIT 1
ON CONFLICT (user_id) DO UPDATE SET up_to = greatest(notification_seen.up_to, excluded.up_to);

-- name: CountUnseenNotifications :one
-- No more than most are counted.
SELECT count(*) FROM (
    SELECT FROM notification n
    WHERE (n.user_id, n.id) > (@user_id::bigint, coalesce((SELECT up_to FROM notification_seen s WHERE s.user_id = @user_id), 0)) AND n.user_id <= @user_id
    ORDER BY n.user_id, n.id LIMIT @most) AS unseen;

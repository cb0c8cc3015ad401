-- name: InsertItem :one
INSERT INTO item (kind, author_id, action_id, state, territory, parent_id, ancestors, title, body, url, bounty_msat, poll_msat, poll_closes_at,
    job_company, job_location, created_at)
VALUES (@kind, sqlc.narg(author_id), @action_id, 'PENDING', sqlc.narg(territory), sqlc.narg(parent_id), @ancestors, sqlc.narg(title), @body,
    sqlc.narg(url), sqlc.narg(bounty_msat), sqlc.narg(poll_msat), sqlc.narg(poll_closes_at), sqlc.narg(job_company), sqlc.narg(job_location), @at)
RETURNING id;

-- name: GetItem :one
SELECT * FROM item WHERE id = $1;

-- name: LockItem :one
SELECT * FROM item WHERE id = $1 FOR NO KEY UPDATE;

-- name: MarkItem :exec
UPDATE item SET state = @state WHERE id = @id AND state <> @state;

-- name: RepointItem :execrows
-- The item is as new as its attempt: one that failed, aged and was tried again counts as spam like any other (spec 05.19).
UPDATE item SET state = 'PENDING', action_id = @action_id, created_at = @at WHERE id = @id AND action_id = @previous;

-- name: ClaimFingerprint :execrows
-- 0 rows: the same was posted a moment ago. One statement on one key decides, whoever comes at the same time.
INSERT INTO item_fingerprint (fingerprint, item_id, until) VALUES (@fingerprint, @item_id, @until)
ON CONFLICT (fingerprint) DO UPDATE SET item_id = excluded.item_id, until = excluded.until
WHERE item_fingerprint.until <= @at::timestamptz OR item_fingerprint.item_id = excluded.item_id;

-- name: FreeFingerprint :exec
DELETE FROM item_fingerprint WHERE item_id = $1;

-- name: DeleteFingerprints :execrows
-- Those that have hindered nobody for a while. Nobody is waited for.
DELETE FROM item_fingerprint WHERE fingerprint = ANY (ARRAY(SELECT old.fingerprint FROM item_fingerprint AS old WHERE old.until < @before
    ORDER BY old.until LIMIT @page FOR NO KEY UPDATE SKIP LOCKED));

-- name: CountPostsSince :one
-- Own posts that count as spam: what failed does not, and what can still be paid does however old it is, or many could be asked for one by one and appear at
-- once. What nobody can pay any more waits for the chain or its node, perhaps for weeks, and is old like any other. The payer is locked by the caller.
SELECT ((SELECT count(*) FROM item p WHERE p.author_id = @author_id AND p.parent_id IS NULL AND p.kind <> 'BIO' AND p.state <> 'FAILED' AND p.created_at > @since)
    + (SELECT count(*) FROM paid_action a JOIN item i ON i.action_id = a.id WHERE a.payer_id = @author_id AND a.state IN ('PENDING', 'PENDING_HELD')
        AND i.state = 'PENDING' AND i.parent_id IS NULL AND i.kind <> 'BIO' AND i.created_at <= @since
        AND NOT EXISTS (SELECT FROM invoice WHERE invoice.action_id = a.id AND invoice.expires_at <= @expired OFFSET 0)))::bigint AS posts;

-- name: HasBio :one
SELECT EXISTS (SELECT 1 FROM item WHERE author_id = @author_id AND kind = 'BIO' AND state <> 'FAILED' AND deleted_at IS NULL);

-- name: CountCommentsSince :one
-- As CountPostsSince.
SELECT ((SELECT count(*) FROM item c WHERE c.author_id = @author_id AND c.parent_id = @parent_id AND c.state <> 'FAILED' AND c.created_at > @since)
    + (SELECT count(*) FROM paid_action a JOIN item i ON i.action_id = a.id WHERE a.payer_id = @author_id AND a.state IN ('PENDING', 'PENDING_HELD')
        AND i.state = 'PENDING' AND i.parent_id = @parent_id AND i.created_at <= @since
        AND NOT EXISTS (SELECT FROM invoice WHERE invoice.action_id = a.id AND invoice.expires_at <= @expired OFFSET 0)))::bigint AS comments;

-- name: SelfReplyChain :one
-- How many items up from the parent, without a gap, are the author's own: replies to oneself.
WITH RECURSIVE chain AS (
    SELECT item.id, item.parent_id, 1 AS depth FROM item
    WHERE item.id = @parent_id AND item.author_id = @author_id AND item.created_at > @since
    UNION ALL
    SELECT item.id, item.parent_id, chain.depth + 1 FROM item JOIN chain ON item.id = chain.parent_id
    WHERE item.author_id = @author_id AND item.created_at > @since AND chain.depth < 100
)
SELECT count(*) FROM chain;

-- name: ForwardsOf :many
SELECT item_id, user_id, pct::bigint AS pct FROM item_forward WHERE item_id = ANY(@item_ids::bigint[]) ORDER BY item_id, user_id;

-- name: InsertForwards :exec
INSERT INTO item_forward (item_id, user_id, pct) SELECT @item_id::bigint, unnest(@users::bigint[]), unnest(@pcts::smallint[]);

-- name: InsertMentions :exec
INSERT INTO item_mention (item_id, user_id) SELECT @item_id::bigint, unnest(@users::bigint[]) ON CONFLICT DO NOTHING;

-- name: Mentions :many
SELECT user_id FROM item_mention WHERE item_id = $1 ORDER BY user_id;

-- name: InsertSubscription :exec
INSERT INTO item_subscription (item_id, user_id) VALUES (@item_id, @user_id) ON CONFLICT DO NOTHING;

-- name: SubscribersOf :many
SELECT DISTINCT user_id FROM item_subscription WHERE item_id = ANY(@item_ids::bigint[]) ORDER BY user_id;

-- name: AddComments :exec
-- Appended, not added to the ancestors' rows: a popular root is never a row that every comment waits for.
INSERT INTO item_delta (item_id, comments, last_comment_at) SELECT unnest(@item_ids::bigint[]), 1, @at::timestamptz;

-- name: AddCommentMsats :exec
INSERT INTO item_delta (item_id, comment_msat) SELECT unnest(@item_ids::bigint[]), unnest(@msats::bigint[]);

-- name: FoldItems :execrows
-- The oldest deltas that nobody else is folding in: what is summed is what this very statement deletes. The counters are changed, and by that locked, in the order
-- of their items (PlanOnce).
WITH gone AS (
    DELETE FROM item_delta WHERE id = ANY (ARRAY(SELECT id FROM item_delta ORDER BY id LIMIT @page FOR NO KEY UPDATE SKIP LOCKED)) RETURNING *
), sums AS (
    SELECT item_id, sum(msat)::bigint AS msat, sum(credit_msat)::bigint AS credit_msat, sum(comment_msat)::bigint AS comment_msat,
        sum(upvotes)::bigint AS upvotes, sum(vote_micros)::bigint AS vote_micros, sum(comments)::bigint AS comments,
        sum(down_msat)::bigint AS down_msat, sum(downvotes)::bigint AS downvotes, sum(boost_msat)::bigint AS boost_msat,
        max(last_zap_at) AS last_zap_at, max(last_comment_at) AS last_comment_at
    FROM gone GROUP BY item_id ORDER BY item_id
)
UPDATE item_count SET
    msat = item_count.msat + sums.msat, credit_msat = item_count.credit_msat + sums.credit_msat,
    comment_msat = item_count.comment_msat + sums.comment_msat, upvotes = item_count.upvotes + sums.upvotes,
    vote_micros = item_count.vote_micros + sums.vote_micros, comments = item_count.comments + sums.comments,
    down_msat = item_count.down_msat + sums.down_msat, downvotes = item_count.downvotes + sums.downvotes, boost_msat = item_count.boost_msat + sums.boost_msat,
    last_zap_at = greatest(item_count.last_zap_at, sums.last_zap_at), last_comment_at = greatest(item_count.last_comment_at, sums.last_comment_at)
FROM sums WHERE item_count.item_id = sums.item_id;

-- name: ItemsByID :many
-- Items with their counters, unfolded parts included; what is not PAID comes back for its author alone.
-- A time of 'epoch' means never. The last four columns are a place in a thread, see Threads; here each item is alone.
SELECT item.id, item.kind, item.author_id, item.action_id, item.state, item.territory, item.parent_id, item.title, octet_length(item.body)::bigint AS bytes,
    item.url, item.bounty_msat, item.poll_msat, item.poll_closes_at, item.job_company, item.job_location, item.created_at, item.edited_at,
    bounty_payment.comment_id AS bounty_comment_id, bounty_payment.at AS bounty_paid_at,
    (c.msat + coalesce(d.msat, 0))::bigint AS msat, (c.credit_msat + coalesce(d.credit_msat, 0))::bigint AS credit_msat,
    (c.comment_msat + coalesce(d.comment_msat, 0))::bigint AS comment_msat,
    (c.upvotes + coalesce(d.upvotes, 0))::bigint AS upvotes, (c.vote_micros + coalesce(d.vote_micros, 0))::bigint AS vote_micros,
    (c.comments + coalesce(d.comments, 0))::bigint AS comments,
    (c.down_msat + coalesce(d.down_msat, 0))::bigint AS down_msat, (c.downvotes + coalesce(d.downvotes, 0))::bigint AS downvotes,
    (c.boost_msat + coalesce(d.boost_msat, 0))::bigint AS boost_msat,
    coalesce(greatest(c.last_zap_at, d.last_zap_at), 'epoch')::timestamptz AS last_zap_at,
    coalesce(greatest(c.last_comment_at, d.last_comment_at), 'epoch')::timestamptz AS last_comment_at,
    item.id AS top_id, 0::bigint AS depth, false AS more, false AS deleted
FROM item JOIN item_count c ON c.item_id = item.id LEFT JOIN LATERAL (
    SELECT sum(x.msat) AS msat, sum(x.credit_msat) AS credit_msat, sum(x.comment_msat) AS comment_msat, sum(x.upvotes) AS upvotes,
        sum(x.vote_micros) AS vote_micros, sum(x.comments) AS comments, sum(x.down_msat) AS down_msat, sum(x.downvotes) AS downvotes,
        sum(x.boost_msat) AS boost_msat, max(x.last_zap_at) AS last_zap_at,
        max(x.last_comment_at) AS last_comment_at
    FROM item_delta x WHERE x.item_id = item.id
) d ON true LEFT JOIN bounty_payment ON bounty_payment.item_id = item.id
WHERE item.id = ANY(@ids::bigint[]) AND item.deleted_at IS NULL
    AND (item.state = 'PAID' OR item.author_id = sqlc.narg(viewer)::bigint);

-- name: TextsOf :many
-- Of items that whoever asks has found. They are long, so that they are read only where they are asked for.
SELECT id, body FROM item WHERE id = ANY(@ids::bigint[]);

-- name: InsertTerritory :exec
INSERT INTO territory (name, founder_id, base_cost_msat, reply_cost_msat, created_at) VALUES ($1, $2, $3, $4, $5)
ON CONFLICT (name) DO NOTHING;

-- name: GetTerritory :one
SELECT * FROM territory WHERE name = $1;

-- name: InsertNotifications :exec
-- Repeatable: the job that writes these runs at least once. And of a mention one is told once, whichever action makes it.
INSERT INTO notification (user_id, kind, action_id, item_id, created_at)
SELECT unnest(@users::bigint[]), @kind::text, @action_id::bigint, sqlc.narg(item_id)::bigint, @at::timestamptz
ON CONFLICT DO NOTHING;

-- name: TellReceiver :exec
-- The same of a payment, to whoever it was for. What their webhooks are told commits with it; these are locked as in InsertHistory.
WITH told AS (
    INSERT INTO notification (user_id, kind, action_id, created_at) VALUES (@receiver, @kind, @action_id, @at) ON CONFLICT DO NOTHING
    RETURNING user_id, action_id
)
INSERT INTO webhook_message (webhook_id, step_id, action_id, type, created_at)
SELECT w.webhook_id, w.step_id, told.action_id, 'payment.received', w.at FROM told CROSS JOIN webhooks_of_receipt(told.user_id, told.action_id) AS w
    CROSS JOIN LATERAL (SELECT FROM webhook WHERE webhook.id = w.webhook_id AND webhook.disabled_at IS NULL FOR KEY SHARE) AS still;

-- name: TellOfZaps :exec
-- The same of zaps, to those who got a part of them, by the postings or directly: what is zapped may be forwarded to others by now. Who zaps themselves is not
-- told; accounts below 16 are the system's (ledger/account.go). In one order in all transactions. Webhooks are locked as in InsertHistory.
WITH told AS (
    INSERT INTO notification (user_id, kind, action_id, item_id, created_at)
    SELECT receiver.id, @kind, zap.action_id, zap.item_id, @at::timestamptz
    FROM zap CROSS JOIN LATERAL (
            SELECT p.to_account / 16 AS id FROM posting p WHERE p.action_id = zap.action_id AND p.reason IN ('zap', 'zap forwarded')
            UNION ALL SELECT r.receiver_id FROM relay_payment r WHERE r.action_id = zap.action_id AND r.preimage IS NOT NULL) AS receiver
    WHERE zap.action_id = ANY (@action_ids::bigint[]) AND receiver.id > 0 AND receiver.id IS DISTINCT FROM zap.user_id
    ORDER BY zap.action_id, receiver.id
    ON CONFLICT DO NOTHING
    RETURNING user_id, action_id
)
INSERT INTO webhook_message (webhook_id, step_id, action_id, type, created_at)
SELECT w.webhook_id, w.step_id, told.action_id, 'payment.received', w.at FROM told CROSS JOIN webhooks_of_receipt(told.user_id, told.action_id) AS w
    CROSS JOIN LATERAL (SELECT FROM webhook WHERE webhook.id = w.webhook_id AND webhook.disabled_at IS NULL FOR KEY SHARE) AS still;

-- name: NotificationsOf :many
SELECT * FROM notification WHERE (user_id, id) < (@user_id::bigint, @before::bigint) AND user_id >= @user_id
ORDER BY user_id DESC, id DESC LIMIT @page;

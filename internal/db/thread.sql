-- name: Threads :many
-- One page of what is below each of these items, as a thread reads from top to bottom, siblings oldest first. What has not been paid for
-- comes back for its author alone; what was deleted keeps its place. Each row costs a look into an index or two, however large the thread
-- is: the next row is that with the next path, or, where the depth is reached, the next that is not below it. Items and counters are read row by row
-- (OFFSET 0): as joins, of many threads, they would read all there are. The columns are those of ItemsByID.
WITH RECURSIVE walk AS (
    SELECT top.id AS top_id, 0::bigint AS id, 0 AS place, cardinality(top.ancestors) + 1 AS height,
        top.ancestors || top.id || 9223372036854775807 AS until,
        CASE WHEN cardinality(start.path) > cardinality(top.ancestors) + @depth::integer THEN start.path || 9223372036854775807 ELSE start.path END AS behind
    FROM item AS top CROSS JOIN LATERAL (
        SELECT top.ancestors || top.id AS path WHERE @after::bigint = 0
        UNION ALL
        SELECT seen.ancestors || seen.id FROM item AS seen
        WHERE seen.id = @after AND top.id = ANY(seen.ancestors) AND (seen.state = 'PAID' OR seen.author_id = sqlc.narg(viewer)::bigint)
    ) AS start
    WHERE top.id = ANY(@tops::bigint[])
    UNION ALL
    SELECT walk.top_id, next.id, walk.place + 1, walk.height, walk.until,
        CASE WHEN cardinality(next.path) >= walk.height + @depth::integer THEN next.path || 9223372036854775807 ELSE next.path END
    FROM walk CROSS JOIN LATERAL (
        (SELECT paid.id, paid.ancestors || paid.id AS path FROM item AS paid
        WHERE paid.parent_id IS NOT NULL AND paid.state = 'PAID'
            AND paid.ancestors || paid.id > walk.behind AND paid.ancestors || paid.id < walk.until
        ORDER BY paid.ancestors || paid.id LIMIT 1)
        UNION ALL
        (SELECT own.id, own.ancestors || own.id AS path FROM item AS own
        WHERE own.author_id = sqlc.narg(viewer) AND own.state <> 'PAID' AND own.deleted_at IS NULL
            AND own.ancestors || own.id > walk.behind AND own.ancestors || own.id < walk.until
        ORDER BY own.ancestors || own.id LIMIT 1)
        ORDER BY path LIMIT 1
    ) AS next
    WHERE walk.place < @page::integer
)
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
    walk.top_id, (cardinality(item.ancestors) + 1 - walk.height)::bigint AS depth,
    (cardinality(item.ancestors) + 1 = walk.height + @depth::integer AND (
        EXISTS (SELECT FROM item AS paid WHERE paid.parent_id IS NOT NULL AND paid.state = 'PAID'
            AND paid.ancestors || paid.id > item.ancestors || item.id
            AND paid.ancestors || paid.id < item.ancestors || item.id || 9223372036854775807)
        OR EXISTS (SELECT FROM item AS own WHERE own.author_id = sqlc.narg(viewer) AND own.state <> 'PAID' AND own.deleted_at IS NULL
            AND own.ancestors || own.id > item.ancestors || item.id
            AND own.ancestors || own.id < item.ancestors || item.id || 9223372036854775807)))::boolean AS more,
    (item.deleted_at IS NOT NULL)::boolean AS deleted
FROM walk CROSS JOIN LATERAL (SELECT * FROM item AS found WHERE found.id = walk.id OFFSET 0) AS item
CROSS JOIN LATERAL (SELECT * FROM item_count AS counted WHERE counted.item_id = item.id OFFSET 0) AS c LEFT JOIN LATERAL (
    SELECT sum(x.msat) AS msat, sum(x.credit_msat) AS credit_msat, sum(x.comment_msat) AS comment_msat, sum(x.upvotes) AS upvotes,
        sum(x.vote_micros) AS vote_micros, sum(x.comments) AS comments, sum(x.down_msat) AS down_msat, sum(x.downvotes) AS downvotes,
        sum(x.boost_msat) AS boost_msat, max(x.last_zap_at) AS last_zap_at,
        max(x.last_comment_at) AS last_comment_at
    FROM item_delta x WHERE x.item_id = item.id
) d ON true LEFT JOIN bounty_payment ON bounty_payment.item_id = item.id
ORDER BY walk.top_id, walk.place;

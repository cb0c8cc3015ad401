-- name: ActionsOfPayerInFull :many
-- As GetAction, for one page of a payer's actions. Rows are compared, and sorted by, as profile.sql says.
SELECT sqlc.embed(paid_action), invoice.node, invoice.payment_hash, invoice.preimage, invoice.hold, invoice.amount_msat,
    invoice.memo, invoice.cltv_delta, invoice.expires_at, invoice.bolt11, invoice.received_msat
FROM paid_action LEFT JOIN invoice ON invoice.action_id = paid_action.id
WHERE (paid_action.payer_id, paid_action.id) < (@payer_id::bigint, @before::bigint) AND paid_action.payer_id >= @payer_id
ORDER BY paid_action.payer_id DESC, paid_action.id DESC LIMIT @page;

-- name: CommentsOfEach :many
-- One page of the direct comments of each of these items, oldest first. What has not been paid for comes back for its author alone, from an index of
-- theirs: nobody else reads past it. Rows are compared, and sorted by, as profile.sql says: only these two indexes do that.
SELECT parent.id::bigint AS parent_id, comment.id FROM unnest(@parents::bigint[]) AS parent (id) CROSS JOIN LATERAL (
    (SELECT paid.id FROM item AS paid
    WHERE (paid.parent_id, paid.id) > (parent.id, @after::bigint) AND paid.parent_id <= parent.id AND paid.state = 'PAID' AND paid.deleted_at IS NULL
    ORDER BY paid.parent_id, paid.id LIMIT @page)
    UNION ALL
    (SELECT own.id FROM item AS own
    WHERE (own.author_id, own.parent_id, own.id) > (sqlc.narg(viewer)::bigint, parent.id, @after)
        AND (own.author_id, own.parent_id) <= (sqlc.narg(viewer), parent.id) AND own.state <> 'PAID' AND own.deleted_at IS NULL
    ORDER BY own.author_id, own.parent_id, own.id LIMIT @page)
    ORDER BY id LIMIT @page
) AS comment ORDER BY parent.id, comment.id;

-- name: TerritoriesByName :many
-- One that is not paid for comes back for its founder alone.
SELECT * FROM territory WHERE name = ANY(@names::text[]) AND (state <> 'PENDING' OR founder_id = sqlc.narg(viewer)::bigint);

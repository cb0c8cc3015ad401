-- name: ActionsOfPayerInFull :many
-- As GetAction, for one page of a payer's actions.
SELECT sqlc.embed(paid_action), invoice.node, invoice.payment_hash, invoice.preimage, invoice.hold, invoice.amount_msat,
    invoice.memo, invoice.cltv_delta, invoice.expires_at, invoice.bolt11, invoice.received_msat
FROM paid_action LEFT JOIN invoice ON invoice.action_id = paid_action.id
WHERE paid_action.payer_id = @payer_id AND paid_action.id < @before ORDER BY paid_action.id DESC LIMIT @page;

-- name: CommentsOfEach :many
-- One page of the direct comments of each of these items, oldest first.
SELECT parent.id::bigint AS parent_id, comment.id FROM unnest(@parents::bigint[]) AS parent (id) CROSS JOIN LATERAL (
    SELECT item.id FROM item
    WHERE item.parent_id = parent.id AND item.id > @after::bigint AND item.deleted_at IS NULL
        AND (item.state = 'PAID' OR item.author_id = sqlc.narg(viewer)::bigint)
    ORDER BY item.id LIMIT @page
) AS comment ORDER BY parent.id, comment.id;

-- name: TerritoriesByName :many
-- One that is not paid for comes back for its founder alone.
SELECT * FROM territory WHERE name = ANY(@names::text[]) AND (state <> 'PENDING' OR founder_id = sqlc.narg(viewer)::bigint);

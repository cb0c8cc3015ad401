-- The pages in here compare rows, (owner, id) with (owner, before), and sort by both: only the index that begins with the owner does that.
-- Sorted by id alone, the index of all ids would do as well, and might be read for long until something of the owner's comes.

-- name: ItemsOfEach :many
-- One page of what each of these people wrote, newest first; what has not been paid for comes back for its author alone.
SELECT author.id::bigint AS author_id, written.id FROM unnest(@authors::bigint[]) AS author (id) CROSS JOIN LATERAL (
    (SELECT paid.id FROM item AS paid
    WHERE (paid.author_id, paid.id) < (author.id, @before::bigint) AND paid.author_id >= author.id AND paid.state = 'PAID' AND paid.deleted_at IS NULL
        AND paid.kind <> 'BIO'
    ORDER BY paid.author_id DESC, paid.id DESC LIMIT @page)
    UNION ALL
    (SELECT own.id FROM item AS own
    WHERE (own.author_id, own.id) < (author.id, @before::bigint) AND own.author_id >= author.id AND own.state <> 'PAID' AND own.deleted_at IS NULL
        AND own.kind <> 'BIO' AND author.id = sqlc.narg(viewer)::bigint
    ORDER BY own.author_id DESC, own.id DESC LIMIT @page)
    ORDER BY id DESC LIMIT @page
) AS written ORDER BY author.id, written.id DESC;

-- name: BiosOf :many
-- Each has one at most.
SELECT id, author_id FROM item WHERE author_id = ANY(@authors::bigint[]) AND kind = 'BIO' AND state <> 'FAILED' AND deleted_at IS NULL;

-- name: HistoryOf :many
-- One page of each stream of somebody's history, each newest first: the actions they paid for, what came to their credits and to their
-- sats, and what they were paid directly. Of whoever paid them there is nothing in here but what they said to the receiver of a payment
-- to an address. What came to balances reaches back as far as the postings do: what is archived is not in here.
--
-- The accounts as subqueries: of a known account PostgreSQL takes the two conditions together to leave hardly a row, so that it would read all
-- that ever came to it and sort that, rather than merge the partitions from their ends.
(SELECT 'OUT' AS stream, a.id, a.created_at AS at, a.kind AS kind, a.cost_msat AS msat, '' AS reason, NULL::bigint AS item_id,
    NULL::text AS comment, NULL::jsonb AS sender
FROM paid_action a WHERE (a.payer_id, a.id) < (@user_id::bigint, @out_before::bigint) AND a.payer_id >= @user_id
ORDER BY a.payer_id DESC, a.id DESC LIMIT @page)
UNION ALL
(SELECT 'CREDITS', p.id, p.at, coalesce(a.kind, ''), p.msat, p.reason, action_item(a.args, a.result), NULL, NULL
FROM posting p LEFT JOIN paid_action a ON a.id = p.action_id
WHERE (p.to_account, p.id) < ((SELECT @credits::bigint), @credits_before::bigint) AND p.to_account >= (SELECT @credits)
ORDER BY p.to_account DESC, p.id DESC LIMIT @page)
UNION ALL
(SELECT 'SATS', p.id, p.at, coalesce(a.kind, ''), p.msat, p.reason, action_item(a.args, a.result),
    CASE WHEN a.kind = 'RECEIVE' AND a.args->>'user' = (@user_id::bigint)::text THEN a.args->>'comment' END,
    CASE WHEN a.kind = 'RECEIVE' AND a.args->>'user' = (@user_id::bigint)::text THEN a.args->'sender' END
FROM posting p LEFT JOIN paid_action a ON a.id = p.action_id
WHERE (p.to_account, p.id) < ((SELECT @sats::bigint), @sats_before::bigint) AND p.to_account >= (SELECT @sats)
ORDER BY p.to_account DESC, p.id DESC LIMIT @page)
UNION ALL
(SELECT 'DIRECT', r.id, r.changed_at, a.kind, r.amount_msat, 'paid directly', action_item(a.args, a.result),
    CASE WHEN a.kind = 'RECEIVE' AND a.args->>'user' = (@user_id::bigint)::text THEN a.args->>'comment' END,
    CASE WHEN a.kind = 'RECEIVE' AND a.args->>'user' = (@user_id::bigint)::text THEN a.args->'sender' END
FROM relay_payment r JOIN paid_action a ON a.id = r.action_id
WHERE (r.receiver_id, r.id) < (@user_id, @direct_before::bigint) AND r.receiver_id >= @user_id AND r.preimage IS NOT NULL
ORDER BY r.receiver_id DESC, r.id DESC LIMIT @page);

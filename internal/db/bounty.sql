-- name: PayBounty :exec
-- The payer's total at the comment was added to by this very transaction, which therefore holds its row: of two zaps at
-- once the later one sees both. Where the bounty is paid already the key says so, whoever comes at the same time.
INSERT INTO bounty_payment (item_id, action_id, comment_id, user_id, at)
SELECT item.id, @action_id::bigint, zap_total.item_id, zap_total.user_id, @at::timestamptz
FROM item JOIN zap_total ON zap_total.user_id = item.author_id
WHERE item.id = @root AND item.kind = 'BOUNTY' AND zap_total.item_id = @comment_id AND zap_total.user_id = @payer
    AND NOT zap_total.down AND zap_total.msat >= item.bounty_msat
ON CONFLICT (item_id) DO NOTHING;

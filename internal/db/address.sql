-- name: ReceivedByHash :one
-- What became of a payment to somebody's address. Settled is only what we took and kept: where the payer's money went back after the
-- receiver had been paid, the preimage is no proof of theirs.
SELECT coalesce(invoice.bolt11, '')::text AS bolt11, coalesce(invoice.preimage, '')::bytea AS preimage,
    (a.state = 'PAID' AND NOT EXISTS (SELECT FROM action_history h WHERE h.action_id = a.id AND h.fact IN ('INCOMING_LOST', 'WRITTEN_OFF'))
        AND NOT EXISTS (SELECT FROM archived_loss l WHERE l.action_id = a.id AND l.incoming))::boolean AS settled
FROM invoice JOIN paid_action a ON a.id = invoice.action_id
WHERE invoice.payment_hash = @payment_hash AND a.kind = 'RECEIVE' AND a.payer_id IS NULL;

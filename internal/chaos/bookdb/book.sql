-- name: Records :many
-- Every action, with the invoice that it was paid with and the payment that left for it.
SELECT a.id, coalesce(a.genesis_id, a.id)::bigint AS genesis, coalesce(a.idempotency_key, '')::text AS key, a.kind, a.state::text AS state,
    i.payment_hash, coalesce(i.received_msat, 0)::bigint AS received_msat, r.payment_hash AS leaving_hash,
    coalesce(r.amount_msat, 0)::bigint AS leaving_msat, (coalesce(r.stage::text, '') = 'completed' AND r.preimage IS NOT NULL)::boolean AS completed
FROM paid_action a LEFT JOIN invoice i ON i.action_id = a.id LEFT JOIN relay_payment r ON r.action_id = a.id ORDER BY a.id;

-- name: Stuck :many
-- What has not come to its end, with the hash of the payment that left for it.
SELECT a.id, ('action ' || a.id || ' (' || a.kind || ') is ' || a.state || ', its payment ' || coalesce(r.stage::text, 'none'))::text AS what,
    r.payment_hash AS leaving_hash
FROM paid_action a LEFT JOIN relay_payment r ON r.action_id = a.id
WHERE a.state NOT IN ('PAID', 'FAILED', 'RETRYING') OR r.stage NOT IN ('completed', 'failed') ORDER BY a.id;

-- name: Owed :one
-- Jobs that may begin something new: the next attempt of what has failed.
SELECT count(*) FROM river_job WHERE kind = 'again' AND state NOT IN ('cancelled', 'completed', 'discarded');

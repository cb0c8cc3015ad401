-- Every query here looks for what must not be. They run in one read-only snapshot and lock nothing.

-- name: BreaksOfConservation :many
-- Invariant 1: an account whose balance differs from its postings, or a user's below zero.
WITH posted AS (
    SELECT p.id, sum(p.msat) AS msat FROM (
        SELECT to_account AS id, msat FROM posting UNION ALL SELECT from_account, -msat FROM posting) AS p GROUP BY p.id
), held AS (
    SELECT h.id, sum(h.msat) AS msat FROM (
        SELECT account.id, account.balance AS msat FROM account UNION ALL SELECT account_id, balance_delta.msat FROM balance_delta) AS h
    GROUP BY h.id
)
SELECT coalesce(posted.id, held.id)::bigint AS account, coalesce(posted.msat, 0)::bigint AS posted, coalesce(held.msat, 0)::bigint AS held
FROM posted FULL JOIN held ON held.id = posted.id
WHERE coalesce(posted.msat, 0) <> coalesce(held.msat, 0) OR (coalesce(posted.id, held.id) >= 16 AND coalesce(held.msat, 0) < 0)
ORDER BY 1;

-- name: CountAccounts :one
SELECT count(*) FROM account;

-- name: BreaksOfPayment :many
-- Invariant 2: a PAID action that was not paid exactly once from exactly one source, or anything else that was paid.
SELECT paid_action.id, paid_action.method, paid_action.cost_msat, coalesce(p.msat, 0)::bigint AS posted, coalesce(p.sources, 0)::bigint AS sources,
    coalesce(h.ends, 0)::bigint AS ends
FROM paid_action
LEFT JOIN (
    -- The source is the payer's own account or the node's; the loss account where the payer's payment was lost; what a withdrawal
    -- here has set aside, where it pays another action's invoice. What else passes through the system's accounts is none.
    SELECT action_id, sum(msat) AS msat, count(DISTINCT from_account) AS sources FROM posting
    WHERE action_id IS NOT NULL AND (from_account >= 16 OR from_account = 0 OR (from_account = 8 AND to_account <> 0)
        OR (from_account = 6 AND EXISTS (SELECT FROM relay_payment WHERE inside_id = posting.action_id AND preimage IS NOT NULL)))
    GROUP BY action_id
) AS p ON p.action_id = paid_action.id
LEFT JOIN invoice ON invoice.action_id = paid_action.id
LEFT JOIN (
    SELECT action_id, count(*) AS ends FROM action_history WHERE to_state IN ('PAID', 'FAILED') GROUP BY action_id
) AS h ON h.action_id = paid_action.id
WHERE CASE
    WHEN paid_action.flow = 'OUTGOING' THEN coalesce(p.msat, 0) <> paid_action.cost_msat OR coalesce(p.sources, 0) <> 1
        OR coalesce(h.ends, 0) <> (paid_action.state IN ('PAID', 'FAILED', 'RETRYING'))::int
    WHEN paid_action.state <> 'PAID' THEN p.action_id IS NOT NULL OR coalesce(h.ends, 0) <> (paid_action.state IN ('FAILED', 'RETRYING'))::int
    ELSE coalesce(h.ends, 0) <> 1 OR coalesce(p.sources, 0) <> (paid_action.cost_msat > 0)::int
        OR coalesce(p.msat, 0) <> CASE WHEN paid_action.flow = 'BALANCE' THEN paid_action.cost_msat ELSE invoice.received_msat END
    END
ORDER BY paid_action.id;

-- name: CountActions :one
SELECT count(*) FROM paid_action;

-- name: BreaksOfEffects :many
-- Invariant 3: rows of the application that count though their action was not paid, or the other way round.
SELECT e.what, e.action_id, e.effect::text AS effect, paid_action.state FROM (
    SELECT 'item' AS what, action_id, item.state AS effect FROM item
    UNION ALL SELECT 'zap', action_id, zap.state FROM zap
    UNION ALL SELECT 'donation', action_id, donation.state FROM donation
    UNION ALL SELECT 'poll vote', action_id, poll_vote.state FROM poll_vote
    UNION ALL SELECT 'bounty', action_id, 'PAID' FROM bounty_payment
    UNION ALL SELECT 'boost', action_id, boost.state FROM boost
    UNION ALL SELECT 'edit', action_id, 'PENDING' FROM item_edit
    UNION ALL SELECT 'upload', action_id, CASE WHEN paid_at IS NULL THEN 'PENDING' ELSE 'PAID' END::item_state FROM upload WHERE action_id IS NOT NULL
    UNION ALL SELECT 'reservation of a territory', pending_action, 'PENDING' FROM territory WHERE pending_action IS NOT NULL
    UNION ALL SELECT 'transfer of a territory', action_id, 'PAID' FROM territory_transfer
) AS e JOIN paid_action ON paid_action.id = e.action_id
WHERE (e.effect = 'PAID') <> (paid_action.state = 'PAID') OR (e.effect = 'FAILED') <> (paid_action.state IN ('FAILED', 'RETRYING'))
ORDER BY 2;

-- name: BreaksOfResult :many
SELECT id, state FROM paid_action WHERE state = 'PAID' AND flow <> 'OUTGOING' AND result IS NULL ORDER BY id;

-- name: CountEffects :one
SELECT ((SELECT count(*) FROM item) + (SELECT count(*) FROM zap) + (SELECT count(*) FROM donation)
    + (SELECT count(*) FROM poll_vote) + (SELECT count(*) FROM bounty_payment) + (SELECT count(*) FROM boost)
    + (SELECT count(*) FROM item_edit) + (SELECT count(*) FROM upload WHERE action_id IS NOT NULL)
    + (SELECT count(*) FROM territory WHERE pending_action IS NOT NULL) + (SELECT count(*) FROM territory_transfer))::bigint;

-- name: BreaksOfHistory :many
-- Invariant 6: a step that the machine does not have, a gap between two steps, or an end other than the row's state.
SELECT h.action_id, coalesce(h.from_state::text, '')::text AS from_state, h.to_state FROM (
    SELECT action_history.action_id, action_history.from_state, action_history.to_state,
        lag(action_history.to_state) OVER w AS before, lead(action_history.id) OVER w AS next,
        paid_action.flow, paid_action.state
    FROM action_history JOIN paid_action ON paid_action.id = action_history.action_id
    WINDOW w AS (PARTITION BY action_history.action_id ORDER BY action_history.id)
) AS h
WHERE NOT action_step_allowed(h.flow, coalesce(h.from_state::text, ''), h.to_state::text)
    OR h.before IS DISTINCT FROM h.from_state
    OR (h.next IS NULL AND h.to_state <> h.state)
ORDER BY h.action_id;

-- name: ActionsWithoutHistory :many
SELECT id FROM paid_action WHERE NOT EXISTS (SELECT FROM action_history WHERE action_id = paid_action.id) ORDER BY id;

-- name: CountHistory :one
SELECT count(*) FROM action_history;

-- name: BreaksOfDeadlines :many
-- Invariant 7: an open action that is past its deadline by more than the grace, or that nothing will ever move.
SELECT paid_action.id, paid_action.state, paid_action.deadline,
    (job.action_id IS NOT NULL)::boolean AS has_job
FROM paid_action LEFT JOIN (
    SELECT DISTINCT (args->>'action')::bigint AS action_id FROM river_job
    WHERE kind = 'advance' AND state IN ('available', 'pending', 'retryable', 'running', 'scheduled')
) AS job ON job.action_id = paid_action.id
WHERE paid_action.state NOT IN ('PAID', 'FAILED', 'RETRYING')
    AND (paid_action.deadline < @overdue::timestamptz OR job.action_id IS NULL)
ORDER BY paid_action.id;

-- name: CountOpen :one
SELECT count(*) FROM paid_action WHERE state NOT IN ('PAID', 'FAILED', 'RETRYING');

-- name: BreaksOfKeys :many
-- Invariant 8: one key with two actions; the unique indexes refuse it, unless one was dropped.
SELECT min(id)::bigint AS first, max(id)::bigint AS last FROM paid_action WHERE idempotency_key IS NOT NULL
GROUP BY payer_id, idempotency_key HAVING count(*) > 1 ORDER BY 1;

-- name: CountKeys :one
SELECT count(*) FROM paid_action WHERE idempotency_key IS NOT NULL;

-- name: BreaksOfHashes :many
-- Invariants 4 and 9: one payment hash on two invoices.
SELECT min(action_id)::bigint AS first, max(action_id)::bigint AS last FROM invoice
GROUP BY payment_hash HAVING count(*) > 1 ORDER BY 1;

-- name: CountInvoices :one
SELECT count(*) FROM invoice;

-- name: InvoicesToCompare :many
-- What is held against the nodes: everything open, and everything that ended since.
SELECT invoice.action_id, invoice.node, invoice.payment_hash, (invoice.bolt11 IS NOT NULL OR invoice.dropped_at IS NOT NULL)::boolean AS issued
FROM paid_action JOIN invoice ON invoice.action_id = paid_action.id
WHERE paid_action.id > @after AND (paid_action.state NOT IN ('PAID', 'FAILED', 'RETRYING') OR paid_action.changed_at >= @since)
ORDER BY paid_action.id LIMIT @page;

-- name: BookedForInvoice :one
-- What the ledger took from the node's account for one action.
SELECT coalesce(sum(msat), 0)::bigint FROM posting WHERE action_id = @action_id AND from_account = 0;

-- name: BreaksOfRelay :many
-- Invariants 4 and 5: an outgoing payment that shares its hash with another that was or may be made, or with an invoice of ours that
-- it does not belong to; one that was made while its action does not say so; one that was given up while its action goes on as if
-- it were not; and money set aside for it that is neither spent nor back though it is at its end.
SELECT r.action_id, r.stage, paid_action.state,
    (EXISTS (SELECT FROM relay_payment o WHERE o.payment_hash = r.payment_hash AND o.id <> r.id AND o.stage <> 'failed' AND r.stage <> 'failed'))::boolean AS twice,
    (EXISTS (SELECT FROM invoice i WHERE i.payment_hash = r.payment_hash AND i.action_id <> r.action_id AND i.action_id IS DISTINCT FROM r.inside_id))::boolean AS foreign_invoice,
    ((r.preimage IS NOT NULL AND paid_action.state NOT IN ('FORWARDED', 'PAID') AND r.inside_id IS NULL)
        OR (r.stage = 'failed' AND paid_action.state IN ('FORWARDED', 'PAID'))
        OR (r.stage <> 'failed' AND paid_action.state IN ('FAILED', 'RETRYING', 'CANCELING', 'FAILED_FORWARD')))::boolean AS disagrees,
    coalesce(held.msat, 0)::bigint AS held_msat
FROM relay_payment r JOIN paid_action ON paid_action.id = r.action_id
LEFT JOIN (
    SELECT p.action_id, sum(CASE WHEN p.to_account = 6 THEN p.msat ELSE -p.msat END) AS msat FROM posting p
    WHERE p.from_account = 6 OR p.to_account = 6 GROUP BY p.action_id
) AS held ON held.action_id = r.action_id
WHERE EXISTS (SELECT FROM relay_payment o WHERE o.payment_hash = r.payment_hash AND o.id <> r.id AND o.stage <> 'failed' AND r.stage <> 'failed')
    OR EXISTS (SELECT FROM invoice i WHERE i.payment_hash = r.payment_hash AND i.action_id <> r.action_id AND i.action_id IS DISTINCT FROM r.inside_id)
    OR (r.preimage IS NOT NULL AND paid_action.state NOT IN ('FORWARDED', 'PAID') AND r.inside_id IS NULL)
    OR (r.stage = 'failed' AND paid_action.state IN ('FORWARDED', 'PAID'))
    OR (r.stage <> 'failed' AND paid_action.state IN ('FAILED', 'RETRYING', 'CANCELING', 'FAILED_FORWARD'))
    OR (coalesce(held.msat, 0) <> 0 AND r.inside_id IS NULL
        AND (r.stage = 'completed' OR paid_action.state IN ('FAILED', 'RETRYING')))
ORDER BY r.action_id;

-- name: CountRelay :one
SELECT count(*) FROM relay_payment;

-- name: PaymentsToCompare :many
-- Every claim on a node that may have been paid, of what is open and of what ended since, and what its action has booked as having
-- left our nodes.
SELECT relay_attempt.id, relay_attempt.node, relay_attempt.outcome, relay_payment.action_id, relay_payment.payment_hash, relay_payment.stage,
    coalesce(relay_payment.fee_msat, 0)::bigint AS fee_msat, relay_payment.changed_at,
    (SELECT coalesce(sum(posting.msat), 0) FROM posting WHERE posting.action_id = relay_payment.action_id AND posting.to_account = 0)::bigint AS left_msat,
    (relay_payment.failure_code IS NOT DISTINCT FROM 'WRITTEN_OFF')::boolean AS written_off
FROM relay_attempt JOIN relay_payment ON relay_payment.id = relay_attempt.payment_id
WHERE relay_attempt.id > @after AND (relay_payment.stage NOT IN ('completed', 'failed') OR relay_payment.changed_at >= @since)
    AND NOT EXISTS ( -- a node knows one payment of a hash: it is the last claim's
        SELECT FROM relay_attempt a JOIN relay_payment p ON p.id = a.payment_id
        WHERE p.payment_hash = relay_payment.payment_hash AND a.node = relay_attempt.node AND a.id > relay_attempt.id)
ORDER BY relay_attempt.id LIMIT @page;

-- name: LossOf :one
-- Whether an action's payment was lost, and the loss booked (what goes to the nodes' account is a routing fee); and whether it was paid
-- by a withdrawal here.
SELECT (EXISTS (SELECT FROM posting WHERE posting.action_id = @action_id AND from_account = 8 AND to_account <> 0))::boolean AS booked,
    (EXISTS (SELECT FROM relay_payment WHERE inside_id = @action_id AND preimage IS NOT NULL))::boolean AS paid_inside;

-- name: RecordedHashes :many
-- Which of these hashes a node was ever given by us.
SELECT DISTINCT relay_payment.payment_hash FROM relay_payment JOIN relay_attempt ON relay_attempt.payment_id = relay_payment.id
WHERE relay_payment.payment_hash = ANY(@hashes::bytea[]) AND relay_attempt.node = @node;

-- name: Losses :many
-- What was booked as lost, newest first, and what an operator said where it was one.
SELECT posting.action_id, sum(posting.msat)::bigint AS msat,
    coalesce(max(relay_payment.failure_message) FILTER (WHERE relay_payment.failure_code = 'WRITTEN_OFF'), '')::text AS reason
FROM posting LEFT JOIN relay_payment ON relay_payment.action_id = posting.action_id
WHERE posting.from_account = 8 GROUP BY posting.action_id ORDER BY posting.action_id DESC NULLS LAST LIMIT @page;

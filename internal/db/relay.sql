-- name: UseForeignHash :execrows
-- 0 rows: somebody has used it.
INSERT INTO foreign_hash (payment_hash, used) VALUES (@payment_hash, @used) ON CONFLICT DO NOTHING;

-- name: ForeignHashUse :one
SELECT used FROM foreign_hash WHERE payment_hash = $1;

-- name: InvoiceOfHash :one
-- One of our own invoices.
SELECT invoice.action_id, invoice.node, paid_action.flow
FROM invoice JOIN paid_action ON paid_action.id = invoice.action_id WHERE invoice.payment_hash = $1;

-- name: InsertInner :exec
INSERT INTO inner_invoice (action_id, receiver_id, wallet_id, bolt11, amount_msat, budget_msat, final_cltv, expires_at)
VALUES (@action_id, @receiver_id, @wallet_id, @bolt11, @amount_msat, @budget_msat, @final_cltv, @expires_at);

-- name: GetInners :many
-- In the order of their actions.
SELECT * FROM inner_invoice WHERE action_id = ANY(@action_ids::bigint[]) ORDER BY action_id;

-- name: WrappedFor :one
-- Whom a wrapped action was to pay, and whether its payer chose the method.
SELECT inner_invoice.receiver_id, invoice.chosen FROM invoice JOIN inner_invoice ON inner_invoice.action_id = invoice.action_id
WHERE invoice.action_id = $1;

-- name: BoundWallet :exec
-- Fails with HF007 if as many of our unpaid invoices wrap those of this wallet as may, or if as many of them are the
-- payer's, or of the anonymous payers behind one address, as one payer's share is. It locks nothing: a few too many at
-- once harm nobody, since the limits only keep a wallet from being flooded.
SELECT must_be_below(count(*), @most, 'HF007'),
    must_be_below(count(*) FILTER (WHERE payer_id = sqlc.narg(payer_id)::bigint OR client_hash = sqlc.narg(client_hash)::bytea), @share, 'HF007')
FROM paid_action WHERE inner_wallet_id = @wallet_id::bigint AND state = 'PENDING_HELD';

-- name: AcceptRelay :execrows
-- Puts a withdrawal into the pipeline. 0 rows: the same hash is in it, or was paid.
INSERT INTO relay_payment (action_id, payer_id, payment_hash, bolt11, amount_msat, budget_msat, final_cltv, expires_at, created_at, changed_at)
VALUES (@action_id, @payer_id, @payment_hash, @bolt11, @amount_msat, @budget_msat, @final_cltv, @expires_at, @at, @at)
ON CONFLICT DO NOTHING;

-- name: AcceptForwards :exec
-- As AcceptRelay, for the receivers' invoices of these actions. It fails if a hash is in the pipeline, or was paid.
INSERT INTO relay_payment (action_id, payment_hash, bolt11, receiver_id, wallet_id, amount_msat, budget_msat, final_cltv, expires_at,
    created_at, changed_at)
SELECT i.action_id, invoice.payment_hash, i.bolt11, i.receiver_id, i.wallet_id, i.amount_msat, i.budget_msat, i.final_cltv, i.expires_at,
    @at::timestamptz, @at
FROM inner_invoice i JOIN invoice ON invoice.action_id = i.action_id WHERE i.action_id = ANY(@action_ids::bigint[]) ORDER BY i.action_id;

-- name: AcceptInside :execrows
-- As AcceptRelay, for what is paid inside: no node ever pays it; the node that issued the invoice is only told to
-- cancel it.
INSERT INTO relay_payment (action_id, stage, inside_id, node, payment_hash, bolt11, amount_msat, budget_msat, final_cltv, expires_at,
    created_at, changed_at)
VALUES (@action_id, 'in_work', @inside_id, @node, @payment_hash, @bolt11, @amount_msat, 0, 0, @expires_at, @at, @at)
ON CONFLICT DO NOTHING;

-- name: PayerInside :one
-- The withdrawal that pays for this action.
SELECT action_id, amount_msat FROM relay_payment WHERE inside_id = $1 AND stage = 'in_work';

-- name: LockReceivers :exec
-- Those of these actions, in the order of their ids.
SELECT id FROM usr WHERE id IN (SELECT receiver_id FROM inner_invoice WHERE action_id = ANY(@action_ids::bigint[])) ORDER BY id FOR NO KEY UPDATE;

-- name: ForwardsToClaim :many
-- The receivers' invoices of these actions, in the order of the actions, with what is under way to each receiver, who
-- may let it hang: payments, and probes that hang.
SELECT i.action_id, i.receiver_id, i.amount_msat, i.budget_msat, u.payments, u.msat FROM inner_invoice i CROSS JOIN LATERAL (
    SELECT count(*) AS payments, coalesce(sum(w.msat), 0)::bigint AS msat FROM (
        SELECT p.amount_msat + p.budget_msat AS msat FROM relay_payment p
        WHERE p.receiver_id = i.receiver_id AND p.stage IN ('incoming', 'in_work', 'pending_confirmation')
        UNION ALL SELECT o.amount_msat FROM route_probe o WHERE o.receiver_id = i.receiver_id AND o.hangs_at <= @at AND o.until > @at) AS w) AS u
WHERE i.action_id = ANY(@action_ids::bigint[]) ORDER BY i.action_id;

-- name: BoundReceiver :exec
-- Fails with HF007 if what has been under way to a receiver for a while is not below so many payments and so much. It
-- locks nothing: what counts is ForwardsToClaim, once the payer's payment is held.
SELECT must_be_below(count(*), @most, 'HF007'), must_be_below(coalesce(sum(w.msat), 0)::bigint, @most_msat, 'HF007') FROM (
    SELECT p.amount_msat + p.budget_msat AS msat FROM relay_payment p
    WHERE p.receiver_id = @receiver_id::bigint AND p.stage IN ('incoming', 'in_work', 'pending_confirmation') AND p.created_at <= @begun_by
    UNION ALL SELECT o.amount_msat FROM route_probe o WHERE o.receiver_id = @receiver_id AND o.hangs_at <= @at AND o.until > @at) AS w;

-- name: OpenProbes :one
SELECT count(*) FROM route_probe WHERE receiver_id = @receiver_id AND until > @at;

-- name: BeginProbe :one
INSERT INTO route_probe (receiver_id, node, hash, amount_msat, hangs_at, until)
VALUES (@receiver_id, @node::text, @hash::bytea, @amount_msat, @hangs_at, @until) RETURNING id;

-- name: ProbesOfNode :many
-- Probes that a node should have seen come back before a time, in pages: what it is asked about.
SELECT id, hash FROM route_probe WHERE node = @node::text AND hangs_at < @before AND until > @at AND id > @after ORDER BY id LIMIT @page;

-- name: EndProbes :exec
DELETE FROM route_probe WHERE id = ANY (@ids::bigint[]);

-- name: DeleteProbes :execrows
-- Those that hung, or whose process died, and that have come back since. It waits for no lock.
DELETE FROM route_probe WHERE id = ANY (ARRAY(SELECT old.id FROM route_probe AS old WHERE old.until < @before
    ORDER BY old.until LIMIT @page FOR NO KEY UPDATE SKIP LOCKED));

-- name: GetRelay :one
SELECT * FROM relay_payment WHERE action_id = $1;

-- name: LockRelay :one
SELECT * FROM relay_payment WHERE action_id = $1 ORDER BY id FOR NO KEY UPDATE;

-- name: RelaysPaid :exec
-- The preimages are known, so the claims end, and the invoices that wrap these can be settled. It runs together with
-- the step to FORWARDED, or before that for payments made inside. It fails unless all of them were in work. The stage
-- is text: see PermitSettle. The ids appear twice: see MoveActions.
WITH paid AS (
    UPDATE relay_payment SET stage = 'pending_confirmation', preimage = known.preimage, changed_at = @at::timestamptz
    FROM (SELECT unnest(@action_ids::bigint[]) AS action_id, unnest(@preimages::bytea[]) AS preimage) AS known
    WHERE relay_payment.action_id = known.action_id AND relay_payment.action_id = ANY(@action_ids::bigint[]) AND stage::text IN ('in_work', 'pending_confirmation')
    RETURNING relay_payment.id, relay_payment.action_id, known.preimage
), ended AS (
    UPDATE relay_attempt SET outcome = 'PAID', ended_at = @at FROM paid WHERE payment_id = paid.id AND outcome IS NULL
), settles AS (
    UPDATE invoice SET preimage = paid.preimage FROM paid WHERE invoice.action_id = paid.action_id AND invoice.action_id = ANY(@action_ids::bigint[])
)
SELECT must_be(count(*), cardinality(@action_ids::bigint[]), 'payments that were made are in work') FROM paid;

-- name: RelaysCompleted :many
-- Together with the booking of the fees, which so happens only once. Returns those that were not completed before.
UPDATE relay_payment SET stage = 'completed', fee_msat = final.fee, changed_at = @at
FROM (SELECT unnest(@action_ids::bigint[]) AS action_id, unnest(@fees::bigint[]) AS fee) AS final
WHERE relay_payment.action_id = final.action_id AND relay_payment.action_id = ANY(@action_ids::bigint[]) AND stage::text = 'pending_confirmation'
RETURNING relay_payment.*;

-- name: WithdrawReceipts :many
-- What withdrawals have come to that are booked. The stage is text: see PermitSettle.
SELECT action_id, bolt11, encode(preimage, 'hex') AS preimage, coalesce(fee_msat, 0)::bigint AS fee_msat FROM relay_payment
WHERE action_id = ANY(@action_ids::bigint[]) AND receiver_id IS NULL AND stage::text = 'completed';

-- name: WriteOffRelay :exec
-- The operator's reason, for a payment whose node has lost its data.
UPDATE relay_payment SET failure_code = 'WRITTEN_OFF', failure_message = @failure_message WHERE action_id = @action_id;

-- name: BoundWithdrawals :exec
-- Fails with HF008 if the payer, whose row is locked, has reached the limit of withdrawals under way to somebody
-- outside.
SELECT must_be_below(count(*), @most, 'HF008') FROM relay_payment p
WHERE p.payer_id = @payer_id::bigint AND p.stage IN ('incoming', 'in_work', 'pending_confirmation');

-- name: ClaimRelay :one
-- Claims the next payment for a node, with the promise to send it: the one that expires first, of those that the node can
-- pay and has not refused; or, if by_age says so, the oldest, if it has waited since before the given moment. Each of the
-- two orders has an index, and one ORDER BY for both would use neither. It skips those being claimed at this moment. It
-- is one statement, so that nobody can stand still between the lock and the claim.
-- pinned: it was claimed for this node before. Once its invoice has expired such a payment is not claimed any more: the
-- node would refuse it, and is only asked whether it has it. Refusals are looked up for each payment (OFFSET 0): a join,
-- planned while many wait, would read all attempts that there ever were. A withdrawal is claimed only while fewer than
-- so many hold a place at the node: those claimed there after the given moment that are not paid, given up or put back.
-- They are counted once, and only if the scan meets a withdrawal; without their order, a plan made while there are few
-- would read all that hang. Neither a pause nor such a claim counts that only a clock that was ahead can have written
-- down: as later than @latest.
-- With a forward comes what was agreed on with its payer, and the keys that our nodes are known by.
WITH holding AS (
    SELECT count(*) AS withdrawals FROM (SELECT FROM relay_payment w
        WHERE w.stage = 'in_work' AND w.payer_id IS NOT NULL AND w.node = @node AND w.changed_at > @since AND w.changed_at <= @latest::timestamptz
        ORDER BY w.changed_at LIMIT @withdrawals::bigint) AS few
), oldest AS (
    SELECT p.id, p.node IS NOT NULL AS pinned, p.created_at FROM relay_payment p
    WHERE @by_age::boolean AND p.stage = 'incoming' AND (p.node IS NULL OR p.node = @node AND p.expires_at > @claimed_at::timestamptz) AND p.amount_msat + p.budget_msat <= @sendable::bigint
        AND (p.not_before IS NULL OR p.not_before <= @claimed_at::timestamptz OR p.not_before > @latest::timestamptz)
        AND CASE WHEN p.payer_id IS NULL THEN @forwards::boolean ELSE (SELECT withdrawals FROM holding) < @withdrawals END
        AND NOT EXISTS (SELECT FROM relay_attempt a WHERE a.payment_id = p.id AND a.node = @node AND a.outcome = 'FAILED'
            AND a.id > p.requeued_after OFFSET 0)
    ORDER BY p.id LIMIT 1 FOR NO KEY UPDATE SKIP LOCKED
), waited AS (
    SELECT id, pinned FROM oldest WHERE created_at <= @waiting_since::timestamptz
), soonest AS (
    SELECT p.id, p.node IS NOT NULL AS pinned FROM relay_payment p
    WHERE NOT EXISTS (SELECT FROM waited) AND p.stage = 'incoming' AND (p.node IS NULL OR p.node = @node AND p.expires_at > @claimed_at) AND p.amount_msat + p.budget_msat <= @sendable
        AND (p.not_before IS NULL OR p.not_before <= @claimed_at OR p.not_before > @latest)
        AND CASE WHEN p.payer_id IS NULL THEN @forwards ELSE (SELECT withdrawals FROM holding) < @withdrawals END
        AND NOT EXISTS (SELECT FROM relay_attempt a WHERE a.payment_id = p.id AND a.node = @node AND a.outcome = 'FAILED'
            AND a.id > p.requeued_after OFFSET 0)
    ORDER BY p.expires_at, p.id LIMIT 1 FOR NO KEY UPDATE SKIP LOCKED
), next AS (
    SELECT id, pinned FROM waited UNION ALL SELECT id, pinned FROM soonest
), attempt AS (
    INSERT INTO relay_attempt (payment_id, node, node_key, fence, claimed_at, send_until)
    SELECT next.id, @node, @node_key, @fence, @claimed_at, @send_until FROM next RETURNING relay_attempt.id
)
UPDATE relay_payment SET stage = 'in_work', node = @node, attempts = attempts + 1, changed_at = @claimed_at
FROM next CROSS JOIN attempt WHERE relay_payment.id = next.id
RETURNING sqlc.embed(relay_payment), next.pinned::boolean AS pinned, attempt.id AS attempt_id,
    (SELECT paid_action.cost_msat FROM paid_action WHERE paid_action.id = relay_payment.action_id)::bigint AS cost_msat,
    coalesce((SELECT invoice.cltv_delta FROM invoice WHERE invoice.action_id = relay_payment.action_id), 0)::int AS cltv_delta,
    coalesce((SELECT invoice.node FROM invoice WHERE invoice.action_id = relay_payment.action_id), '')::text AS issuer,
    (SELECT coalesce(array_agg(k.key), '{}') FROM lightning_node AS n CROSS JOIN LATERAL unnest(ARRAY[n.public_key, n.other_key]) AS k (key)
        WHERE n.name = ANY(@names::text[]) AND k.key IS NOT NULL)::text[] AS keys;

-- name: LeaveRelay :execrows
-- The payment goes on under a claim of the node that has shown it. This claim sends nothing: the one it was sent under
-- is not known here. 0 rows: it has left the stage.
WITH left_to AS (
    UPDATE relay_payment SET stage = 'in_work', node = @node, not_before = NULL, changed_at = @at::timestamptz
    WHERE relay_payment.id = @id AND stage::text = @from_stage::text RETURNING relay_payment.id
)
INSERT INTO relay_attempt (payment_id, node, node_key, fence, claimed_at, send_until, seen)
SELECT left_to.id, @node, @node_key, 0, @at, @at, true FROM left_to;

-- name: NextClaimable :one
-- The cost of the next payment to claim, behind the given number of others, if there is one: so nobody takes a lease on
-- a node for nothing. It passes over payments as ClaimRelay does.
SELECT (p.amount_msat + p.budget_msat)::bigint AS msat FROM relay_payment p
WHERE p.stage = 'incoming' AND (p.node IS NULL OR p.node = @node AND p.expires_at > @at::timestamptz)
    AND p.amount_msat + p.budget_msat <= @sendable::bigint AND (p.not_before IS NULL OR p.not_before <= @at OR p.not_before > @latest::timestamptz)
    AND (p.payer_id IS NULL OR (SELECT count(*) FROM (SELECT FROM relay_payment w
        WHERE w.stage = 'in_work' AND w.payer_id IS NOT NULL AND w.node = @node AND w.changed_at > @since AND w.changed_at <= @latest::timestamptz
        ORDER BY w.changed_at LIMIT @withdrawals::bigint) AS holding) < @withdrawals)
    AND NOT EXISTS (SELECT FROM relay_attempt a WHERE a.payment_id = p.id AND a.node = @node AND a.outcome = 'FAILED'
        AND a.id > p.requeued_after OFFSET 0)
ORDER BY p.expires_at, p.id LIMIT 1 OFFSET @others::int;

-- name: OpenAttempt :one
SELECT * FROM relay_attempt WHERE payment_id = $1 AND outcome IS NULL;

-- name: Attempts :many
SELECT * FROM relay_attempt WHERE payment_id = $1 ORDER BY id;

-- name: EndAttempt :execrows
-- 0 rows: it has ended, or its worker has noted an earlier payment (NoteEarlier) that the caller did not know of when
-- the node was asked, and may have sent since: then the node's answer can be of that one. Or the node has shown the
-- payment, which the caller may not have known either: then it is not one that was never sent.
UPDATE relay_attempt SET outcome = @outcome::text, reason = @reason, ended_at = @at
WHERE id = @id AND outcome::text IS NULL AND earlier IS NOT DISTINCT FROM sqlc.narg(earlier)::bigint
    AND NOT (seen AND @outcome::text = 'NOT_SENT');

-- name: NoteEarlier :execrows
-- Before the send. 0 rows: the claim has ended.
UPDATE relay_attempt SET earlier = @earlier WHERE id = @id AND outcome::text IS NULL;

-- name: SeeAttempt :execrows
-- 0 rows: it is noted already, or it was claimed for the node again since. Then what the node has shown may have been
-- sent under that claim.
UPDATE relay_attempt SET seen = true WHERE relay_attempt.id = @id AND NOT seen
    AND NOT EXISTS (SELECT FROM relay_attempt later WHERE later.payment_id = relay_attempt.payment_id AND later.node = relay_attempt.node
        AND later.id > relay_attempt.id);

-- name: SeeAttemptLate :exec
UPDATE relay_attempt SET seen = true WHERE id = @id AND NOT seen;

-- name: RefusingNodes :many
SELECT DISTINCT a.node FROM relay_attempt a JOIN relay_payment p ON p.id = a.payment_id
WHERE p.id = $1 AND a.outcome = 'FAILED' AND a.id > p.requeued_after;

-- name: Tries :one
-- The claims since the last requeue under which a payment may have been sent, the open one too. Where its node was
-- crowded it was not.
SELECT count(*) FROM relay_attempt a JOIN relay_payment p ON p.id = a.payment_id
WHERE p.id = @id AND (a.outcome IS NULL OR (a.outcome = 'FAILED' AND a.reason IS DISTINCT FROM @crowded::text) OR (a.outcome = 'NOT_SENT' AND a.reason = @not_known::text))
    AND a.id > p.requeued_after;

-- name: BegunBeforeAccepted :one
-- Whether an action was begun before an operator accepted a doubted history of the database, or somebody doubted the one
-- that is there. Numbers tell that: the clock of the process that began it may have been ahead. What was forgotten then
-- may be a claim on its payment.
SELECT EXISTS (SELECT FROM timeline WHERE last_action >= @action_id::bigint AND accepted_at IS DISTINCT FROM met_at);

-- name: LatestDoubt :one
-- Names the latest doubt about a history of the database, and whether and when an operator ended it; empty: there was
-- none. Where it has another name than before, what was found out before may be about what this database has forgotten.
-- Numbers say which is the latest, since a clock may be put back. The rest tells it from one in another copy of the same
-- backup, whose numbers are the same.
SELECT coalesce((SELECT concat_ws(' ', last_action, name, extract(epoch FROM accepted_at)) FROM timeline
    WHERE accepted_at IS DISTINCT FROM met_at ORDER BY last_action DESC, name LIMIT 1), '')::text AS doubt;

-- name: RequeueRelay :exec
-- Back to where any node may take it, or only the given one.
UPDATE relay_payment SET stage = 'incoming', node = sqlc.narg(node), not_before = @not_before, changed_at = @at
WHERE id = @id AND stage::text = 'in_work';

-- name: FailRelay :execrows
UPDATE relay_payment SET stage = 'failed', failure_code = @failure_code, failure_message = @failure_message, changed_at = @at
WHERE id = @id AND stage::text = @from_stage::text;

-- name: RelayOfNode :many
-- What an auditor compares with the node, in pages.
SELECT id, action_id FROM relay_payment
WHERE stage IN ('in_work', 'pending_confirmation') AND inside_id IS NULL AND node = @node AND id > @after ORDER BY id LIMIT @page;

-- name: WaitingForNode :one
-- Payments that no other node may take, since this one may have them already.
SELECT count(*) FROM relay_payment WHERE stage = 'incoming' AND node = @node;

-- name: RelayStages :many
-- Unfinished payments by stage: at most a page of each, the oldest first. For the comparison of rows see profile.sql.
SELECT s.stage::relay_stage AS stage, c.payments, c.oldest FROM unnest(ARRAY['incoming', 'in_work', 'pending_confirmation']::relay_stage[]) AS s (stage)
CROSS JOIN LATERAL (
    SELECT count(*) AS payments, min(p.since)::timestamptz AS oldest FROM (
        SELECT coalesce(r.requeued_at, r.created_at) AS since FROM relay_payment r WHERE (r.stage, r.id) > (s.stage, 0) AND r.stage <= s.stage ORDER BY r.stage, r.id LIMIT @page
    ) AS p
) AS c WHERE c.payments > 0 ORDER BY 1;

-- name: ListRelay :many
-- For operators: newest first.
SELECT * FROM relay_payment WHERE id < @before ORDER BY id DESC LIMIT @page;

-- name: ListRelayInStage :many
-- For operators: those in one stage, newest first, however many newer ones are in others. For the comparison of rows see profile.sql.
SELECT * FROM relay_payment WHERE (stage, id) < (@stage::relay_stage, @before::bigint) AND stage >= @stage::relay_stage
ORDER BY stage DESC, id DESC LIMIT @page;

-- name: RequeueFailed :execrows
-- Only while nothing was given back: the caller has locked the action's row, which is still in FORWARDING. What is paid
-- inside is for no node. What nodes were asked to do before counts no more: that is told by the numbers of the claims,
-- since moments are those of two clocks. How long it waits is counted from now, and by a clock that is behind from when
-- it failed.
UPDATE relay_payment SET stage = 'incoming', node = NULL, not_before = NULL, failure_code = NULL, failure_message = NULL, attempts = 0,
    requeued_after = coalesce((SELECT max(a.id) FROM relay_attempt a WHERE a.payment_id = relay_payment.id), 0),
    requeued_at = greatest(@at::timestamptz, changed_at), changed_at = @at
WHERE action_id = @action_id AND stage::text = 'failed' AND inside_id IS NULL;

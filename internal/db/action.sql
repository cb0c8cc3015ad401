-- name: PlanOnce :exec
-- For the rest of the transaction: plan statements once, for tables of any size. Otherwise a statement with arrays is
-- planned anew each time, because PostgreSQL assumes ten elements for an unknown array, so that a plan for the given
-- one seems much cheaper. A plan that is kept must still fit when the tables have grown: one made while they were small
-- would scan them from end to end. (If there is no other way it still does, at an estimated cost at which just-in-time
-- compilation would seem worth while.) Also, tables are read only in the order of a key, so that statements that change
-- the rows of a sorted list lock them in that order.
SELECT set_config('plan_cache_mode', 'force_generic_plan', true), set_config('enable_seqscan', 'off', true), set_config('jit', 'off', true);

-- name: CommitUnflushed :exec
-- For the rest of the transaction: its commit does not wait for the disk. A crash may forget it, unless something
-- committed later is on disk.
SELECT set_config('synchronous_commit', 'off', true);

-- name: PlanAlone :exec
-- As PlanOnce, for a single statement (db.Alone). It also forbids bitmaps and sorts: a plan made while little was
-- waiting would collect and sort all that waits just to find the first.
SELECT set_config('plan_cache_mode', 'force_generic_plan', true), set_config('enable_seqscan', 'off', true),
    set_config('enable_bitmapscan', 'off', true), set_config('enable_sort', 'off', true), set_config('jit', 'off', true);

-- name: NextActions :many
-- See Transaction.NextActions.
SELECT nextval('paid_action_id_seq')::bigint FROM generate_series(1, @count::int);

-- name: RefuseUsedKey :exec
-- Fails with HF005, as InsertAction does, where the idempotency key was used before. InsertAction would wait for a
-- transaction that is changing that action, and that one may wait for a row that the caller has locked for its price.
-- This waits for nobody.
SELECT must_begin((NOT EXISTS (SELECT FROM paid_action WHERE payer_id = sqlc.narg(payer_id)::bigint AND idempotency_key = @idempotency_key::text)
    AND NOT EXISTS (SELECT FROM paid_action WHERE sqlc.narg(payer_id) IS NULL AND payer_id IS NULL AND idempotency_key = @idempotency_key))::int::bigint);

-- name: InsertAction :exec
-- Under a number from NextActions. Fails with HF005 where the idempotency key was used before; the caller then reads
-- the winner.
WITH begun AS (
    INSERT INTO paid_action (id, kind, flow, method, state, attempt, payer_id, cost_msat, created_at, changed_at, deadline,
        genesis_id, args, idempotency_key, args_hash, proved_id, inner_wallet_id, client_hash)
    OVERRIDING SYSTEM VALUE
    VALUES (@id, @kind, @flow, @method, @state, @attempt, sqlc.narg(payer_id), @cost_msat, @at, @at, sqlc.narg(deadline),
        sqlc.narg(genesis_id), @args, sqlc.narg(idempotency_key), sqlc.narg(args_hash), sqlc.narg(proved_id), sqlc.narg(inner_wallet_id), sqlc.narg(client_hash))
    ON CONFLICT DO NOTHING
    RETURNING id, state, flow, payer_id
), history AS (
    INSERT INTO action_history (action_id, from_state, to_state, fact, at) SELECT id, NULL, state, @fact, @at FROM begun
    RETURNING id
), told AS (
    INSERT INTO webhook_message (webhook_id, step_id, action_id, type, created_at)
    SELECT w.id, history.id, begun.id, webhook_type(begun.flow::text, begun.state::text), @at
    FROM begun, history, webhook w
    WHERE (w.user_id = begun.payer_id OR w.user_id IS NULL) AND w.disabled_at IS NULL
        AND (w.events = '{}' OR webhook_type(begun.flow::text, begun.state::text) = ANY (w.events))
    FOR KEY SHARE OF w
)
SELECT must_begin(count(*)) FROM begun;

-- name: InsertActions :exec
-- Several actions of one kind that begin alike, under numbers asked for ahead (Transaction.NextActions). The caller
-- waits for no answer: a key that was used before violates paid_action_key and fails the transaction
-- (paidaction.Engine.tryTogether); an empty key is none. Pass them in the order of payer and key, so that transactions
-- that insert the same keys cannot deadlock.
WITH begun AS (
    INSERT INTO paid_action (id, kind, flow, method, state, payer_id, cost_msat, created_at, changed_at, args, result, idempotency_key, args_hash)
    OVERRIDING SYSTEM VALUE
    SELECT unnest(@ids::bigint[]), @kind, @flow, @method, @state, unnest(@payers::bigint[]), unnest(@costs::bigint[]), @at::timestamptz, @at::timestamptz,
        unnest(@arguments::jsonb[]), unnest(@results::jsonb[]), nullif(unnest(@idempotency_keys::text[]), ''), nullif(unnest(@args_hashes::bytea[]), '')
    RETURNING id, state, flow, payer_id
), history AS (
    INSERT INTO action_history (action_id, from_state, to_state, fact, at) SELECT id, NULL, state, @fact, @at::timestamptz FROM begun
    RETURNING id, action_id
)
INSERT INTO webhook_message (webhook_id, step_id, action_id, type, created_at)
SELECT w.id, history.id, begun.id, webhook_type(begun.flow::text, begun.state::text), @at::timestamptz
FROM begun JOIN history ON history.action_id = begun.id JOIN webhook w ON (w.user_id = begun.payer_id OR w.user_id IS NULL) AND w.disabled_at IS NULL
WHERE w.events = '{}' OR webhook_type(begun.flow::text, begun.state::text) = ANY (w.events)
FOR KEY SHARE OF w;

-- name: KeysUsed :many
-- The places of those of these idempotency keys that were used before.
SELECT asked.place::int FROM (
    SELECT unnest(@places::int[]) AS place, unnest(@payers::bigint[]) AS payer_id, unnest(@idempotency_keys::text[]) AS idempotency_key
) AS asked
JOIN paid_action a ON a.payer_id = asked.payer_id AND a.idempotency_key = asked.idempotency_key;

-- name: MoveAction :execrows
-- The compare-and-set of spec 01 §1.3: 0 rows means that another worker won.
UPDATE paid_action SET
    state = @to_state,
    changed_at = @at,
    deadline = coalesce(sqlc.narg(deadline), deadline),
    deadline_height = coalesce(sqlc.narg(deadline_height), deadline_height),
    failure_code = coalesce(sqlc.narg(failure_code), failure_code),
    failure_message = coalesce(sqlc.narg(failure_message), failure_message),
    successor_id = coalesce(sqlc.narg(successor_id), successor_id),
    settle_permitted_at = coalesce(sqlc.narg(settle_permitted_at), settle_permitted_at)
WHERE id = @id AND state::text = @from_state::text;

-- name: InsertHistory :exec
-- Also stores the webhook messages about it, so that both commit together. A webhook is locked as its foreign key would,
-- but before: one that is removed meanwhile is told nothing, and fails no payment.
WITH history AS (
    INSERT INTO action_history (action_id, from_state, to_state, fact, at) VALUES (@action_id, @from_state, @to_state, @fact, @at)
    RETURNING id, action_id, to_state, at
)
INSERT INTO webhook_message (webhook_id, step_id, action_id, type, created_at)
SELECT w.id, history.id, history.action_id, webhook_type(a.flow::text, history.to_state::text), history.at
FROM history JOIN paid_action a ON a.id = history.action_id JOIN webhook w ON (w.user_id = a.payer_id OR w.user_id IS NULL) AND w.disabled_at IS NULL
WHERE w.events = '{}' OR webhook_type(a.flow::text, history.to_state::text) = ANY (w.events)
FOR KEY SHARE OF w;

-- name: MoveActions :exec
-- MoveAction, InsertHistory and SetReceived of several actions, which the caller has locked. It fails unless all of
-- them move. A height of 0 is none, and steps that take no money receive nothing. The ids appear twice for the planner:
-- with few rows it would otherwise read all of them for the join.
WITH moved AS (
    UPDATE paid_action SET
        state = @to_state,
        changed_at = @at::timestamptz,
        deadline = coalesce(sqlc.narg(deadline), deadline),
        deadline_height = coalesce(nullif(found.height, 0), deadline_height),
        settle_permitted_at = coalesce(sqlc.narg(settle_permitted_at), settle_permitted_at),
        result = found.result
    FROM (SELECT unnest(@ids::bigint[]) AS id, unnest(@heights::int[]) AS height, unnest(@results::jsonb[]) AS result) AS found
    WHERE paid_action.id = found.id AND paid_action.id = ANY(@ids::bigint[]) AND state::text = @from_state::text
    RETURNING paid_action.id, flow, payer_id, state
), received AS (
    UPDATE invoice SET received_msat = paid.msat FROM (SELECT unnest(@ids) AS id, unnest(@received::bigint[]) AS msat) AS paid
    WHERE invoice.action_id = paid.id AND invoice.action_id = ANY(@ids::bigint[]) AND paid.msat > 0
), history AS (
    INSERT INTO action_history (action_id, from_state, to_state, fact, at)
    SELECT id, CAST(@from_state::text AS action_state), state, @fact::text, @at FROM moved ORDER BY id
    RETURNING id, action_id
), told AS (
    INSERT INTO webhook_message (webhook_id, step_id, action_id, type, created_at)
    SELECT w.id, history.id, moved.id, webhook_type(moved.flow::text, moved.state::text), @at
    FROM moved JOIN history ON history.action_id = moved.id JOIN webhook w ON (w.user_id = moved.payer_id OR w.user_id IS NULL) AND w.disabled_at IS NULL
    WHERE w.events = '{}' OR webhook_type(moved.flow::text, moved.state::text) = ANY (w.events)
    FOR KEY SHARE OF w
)
SELECT must_be(count(*), cardinality(@ids::bigint[]), 'locked actions moved') FROM moved;

-- name: SetResult :exec
UPDATE paid_action SET result = @result WHERE id = @id;

-- name: PermitSettle :execrows
-- Once this commits, HELD can no longer be cancelled: a settle call may be on its way. The state is compared as text,
-- as in every query for one row. Otherwise an index of the few open rows would fit, and the planner would prefer it to
-- the key while it knows of few, and read it as a whole.
UPDATE paid_action SET settle_permitted_at = @at WHERE id = @id AND state::text = 'HELD' AND settle_permitted_at IS NULL;

-- name: AwaitChain :execrows
-- Puts off a deadline that is near. Of those that do so at once, one does, and stores the job.
UPDATE paid_action SET deadline = @deadline::timestamptz WHERE id = @id AND state::text IN ('PENDING', 'CANCELING') AND deadline <= @near::timestamptz;

-- name: RefuseAgain :exec
-- Of an action whose receiver could not be paid, also while the payment goes back. What was tried again stays as it is.
UPDATE paid_action SET again_refused_at = @at WHERE id = @id AND state::text IN ('CANCELING', 'FAILED') AND failure_code = 'PAYMENT_FAILED';

-- name: RefuseAgainOf :execrows
-- What somebody has under way to receivers' wallets, or has just failed, gets no next attempt without being asked for.
-- Locked in the order of their ids, as groups of steps lock them.
WITH locked AS (
    SELECT id FROM paid_action WHERE payer_id = @payer_id::bigint AND flow = 'WRAPPED' AND again_refused_at IS NULL
        AND (state NOT IN ('PAID', 'FAILED', 'RETRYING')
            OR state = 'FAILED' AND failure_code = 'PAYMENT_FAILED' AND changed_at > @since::timestamptz)
    ORDER BY id FOR NO KEY UPDATE
)
UPDATE paid_action SET again_refused_at = @at::timestamptz WHERE id = ANY (ARRAY(SELECT locked.id FROM locked));

-- name: LockAction :one
SELECT * FROM paid_action WHERE id = $1 FOR NO KEY UPDATE;

-- name: LockActions :many
-- In the order of their ids.
SELECT * FROM paid_action WHERE id = ANY(@ids::bigint[]) ORDER BY id FOR NO KEY UPDATE;

-- name: GetAction :one
SELECT sqlc.embed(paid_action), invoice.node, invoice.payment_hash, invoice.preimage, invoice.hold, invoice.amount_msat,
    invoice.memo, invoice.cltv_delta, invoice.expires_at, invoice.bolt11, invoice.received_msat
FROM paid_action LEFT JOIN invoice ON invoice.action_id = paid_action.id
WHERE paid_action.id = $1;

-- name: PerformedBefore :one
-- What other attempts at the same have performed: the latest result.
SELECT id, result FROM paid_action WHERE (id = @genesis OR genesis_id = @genesis::bigint) AND id <> @action_id AND result IS NOT NULL ORDER BY attempt DESC LIMIT 1;

-- name: GetActionAlone :one
-- Without its invoice.
SELECT * FROM paid_action WHERE id = @id;

-- name: KindsOf :many
-- The kinds of these actions, their ids in order, and whether they are PAID. Actions that do not exist are missing.
SELECT kind, (state = 'PAID')::bool AS paid, array_agg(id ORDER BY id)::bigint[] AS ids FROM paid_action
WHERE id = ANY(@ids::bigint[]) GROUP BY 1, 2 ORDER BY 1, 2;

-- name: ActionsInFull :many
-- As GetAction, for several.
SELECT sqlc.embed(paid_action), invoice.node, invoice.payment_hash, invoice.preimage, invoice.hold, invoice.amount_msat,
    invoice.memo, invoice.cltv_delta, invoice.expires_at, invoice.bolt11, invoice.received_msat
FROM paid_action LEFT JOIN invoice ON invoice.action_id = paid_action.id
WHERE paid_action.id = ANY(@ids::bigint[]);

-- name: StatesOf :many
SELECT id, flow, state, deadline FROM paid_action WHERE id = ANY(@ids::bigint[]) ORDER BY id;

-- name: ActionByKey :one
SELECT id, args_hash FROM paid_action WHERE payer_id = @payer_id AND idempotency_key = @idempotency_key;

-- name: ActionByAnonymousKey :one
SELECT id, args_hash FROM paid_action WHERE payer_id IS NULL AND idempotency_key = @idempotency_key;

-- name: InsertInvoice :exec
INSERT INTO invoice (action_id, node, payment_hash, preimage, hold, amount_msat, memo, cltv_delta, expires_at, chosen)
VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9, $10);

-- name: SetBolt11 :execrows
-- Under the action's lock, and only while it waits for its payer: an invoice that was issued too late is never handed
-- out. Not as a join, which would be planned to read all of the table while it is small. The state is text: see
-- PermitSettle.
UPDATE invoice SET bolt11 = @bolt11
WHERE invoice.action_id = (SELECT id FROM paid_action WHERE id = @action_id AND state::text IN ('PENDING', 'PENDING_HELD') FOR NO KEY UPDATE);

-- name: GetInvoice :one
SELECT * FROM invoice WHERE action_id = $1;

-- name: SetReceived :exec
UPDATE invoice SET received_msat = @received_msat WHERE action_id = @action_id;

-- name: ActionsByHash :many
-- As GetAction, for the open actions of these hashes. The action is read row by row: a join could begin at the index of
-- open actions, and read all of it for one event.
SELECT sqlc.embed(paid_action), invoice.node, invoice.payment_hash, invoice.preimage, invoice.hold, invoice.amount_msat,
    invoice.memo, invoice.cltv_delta, invoice.expires_at, invoice.bolt11, invoice.received_msat
FROM invoice
CROSS JOIN LATERAL (SELECT * FROM paid_action a WHERE a.id = invoice.action_id OFFSET 0) AS paid_action
WHERE invoice.payment_hash = ANY(@hashes::bytea[]) AND paid_action.state NOT IN ('PAID', 'FAILED', 'RETRYING');

-- name: BoundPayer :exec
-- Fails with HF006 if the payer, whose row is locked, has reached the limit of open invoices. What waits for the chain counts as well, until it is
-- cancelled: each needs an operator, and with one channel that is closed by force somebody could have hundreds of them wait.
SELECT must_be_below(count(*), @most, 'HF006') FROM paid_action WHERE payer_id = @payer_id AND state IN ('PENDING', 'PENDING_HELD');

-- name: LockClient :exec
-- Anonymous payers have no row to lock. This makes those behind one address wait for each other, and for nobody else.
SELECT pg_advisory_xact_lock(hashtextextended(encode(@client_hash::bytea, 'hex'), 7277));

-- name: BoundClient :exec
-- As BoundPayer, for the anonymous payers behind an address.
SELECT must_be_below(count(*), @most, 'HF006') FROM paid_action WHERE client_hash = @client_hash::bytea AND state IN ('PENDING', 'PENDING_HELD');

-- name: OpenActions :many
-- The rows that a sweep looks at, oldest deadline first, in pages.
SELECT id, deadline FROM paid_action
WHERE state NOT IN ('PAID', 'FAILED', 'RETRYING') AND (deadline, id) > (@after_deadline::timestamptz, @after_id::bigint)
ORDER BY deadline, id LIMIT @page;

-- name: OpenAt :many
-- The open actions whose invoices a node has issued, or whose payments it was given, in pages: by the index of
-- open actions, since by their numbers all that there ever were would be read. One by one: where a node has little
-- that is open, a join reads all invoices and payments that there ever were.
SELECT paid_action.id, paid_action.deadline FROM paid_action
WHERE paid_action.state NOT IN ('PAID', 'FAILED', 'RETRYING') AND (paid_action.deadline, paid_action.id) > (@after_deadline::timestamptz, @after_id::bigint)
    AND @node::text IN ((SELECT invoice.node FROM invoice WHERE invoice.action_id = paid_action.id), (SELECT relay_payment.node FROM relay_payment WHERE relay_payment.action_id = paid_action.id))
ORDER BY paid_action.deadline, paid_action.id LIMIT @page;

-- name: OverdueActions :many
-- What a receiver lets hang is not (ListStuck): the sweep would ask its node each time, for hours, before it comes to what has just become overdue. The audit
-- does so, the action's own job, and the full sweep.
SELECT id, deadline FROM paid_action a
WHERE state NOT IN ('PAID', 'FAILED', 'RETRYING') AND deadline <= @at AND (deadline, id) > (@after_deadline::timestamptz, @after_id::bigint) AND NOT (
    (state = 'FORWARDING' OR (state = 'FORWARDED' AND flow = 'OUTGOING')) AND EXISTS (
        SELECT FROM relay_payment r WHERE r.action_id = a.id AND r.stage IN ('in_work', 'pending_confirmation') AND r.inside_id IS NULL OFFSET 0))
ORDER BY deadline, id LIMIT @page;

-- name: ActionsDueAtHeight :many
-- Held payments of one node whose HTLC safety height is at or below the given height.
SELECT paid_action.id, paid_action.state, paid_action.deadline_height FROM paid_action JOIN invoice ON invoice.action_id = paid_action.id
WHERE paid_action.state NOT IN ('PAID', 'FAILED', 'RETRYING') AND paid_action.deadline_height <= @height AND invoice.node = @node
ORDER BY paid_action.deadline_height, paid_action.id;

-- name: OpenHoldInvoices :many
-- Every hold invoice that can still change at the node; each needs a stream of its own (spec 01 §1.6).
SELECT invoice.payment_hash, invoice.action_id FROM paid_action JOIN invoice ON invoice.action_id = paid_action.id
WHERE paid_action.state NOT IN ('PAID', 'FAILED', 'RETRYING') AND invoice.hold AND invoice.node = @node;

-- name: GetCursor :one
SELECT * FROM node_cursor WHERE node = $1;

-- name: MoveCursor :exec
-- Only forwards: a late writer cannot move the cursor back.
INSERT INTO node_cursor (node, add_index, settle_index) VALUES (@node, @add_index, @settle_index)
ON CONFLICT (node) DO UPDATE SET
    add_index = greatest(node_cursor.add_index, excluded.add_index),
    settle_index = greatest(node_cursor.settle_index, excluded.settle_index);

-- name: MoveHeight :exec
INSERT INTO node_cursor (node, height) VALUES (@node, @height)
ON CONFLICT (node) DO UPDATE SET height = greatest(node_cursor.height, excluded.height);

-- name: ListActions :many
-- For operators: newest first.
SELECT id, kind, flow, state, attempt, payer_id, cost_msat, deadline, created_at, changed_at, failure_code FROM paid_action
WHERE id < @before ORDER BY id DESC LIMIT @page;

-- name: ListStuck :many
-- While a node is at an outgoing payment, a passed deadline is not a fault, as in BreaksOfDeadlines: a receiver may let it hang for hours. Nor is it of a
-- withdrawal that no node was given, while it may wait for one: waits_since is when what may wait until now began to. What is said to have begun after
-- waits_to, as far ahead as clocks may be, was put back after it had failed by one that was further ahead: that hides nothing. Each is looked up by its
-- action, rather than among all payments that are open.
SELECT id, kind, flow, state, attempt, payer_id, cost_msat, deadline, created_at, changed_at, failure_code FROM paid_action a
WHERE state NOT IN ('PAID', 'FAILED', 'RETRYING') AND deadline <= @at AND NOT (
    (state = 'FORWARDING' OR (state = 'FORWARDED' AND flow = 'OUTGOING')) AND EXISTS (
        SELECT FROM relay_payment r WHERE r.action_id = a.id AND (r.stage IN ('in_work', 'pending_confirmation') AND r.inside_id IS NULL
            OR r.stage = 'incoming' AND r.node IS NULL AND r.receiver_id IS NULL AND coalesce(r.requeued_at, r.created_at) BETWEEN @waits_since::timestamptz AND @waits_to::timestamptz) OFFSET 0))
ORDER BY deadline, id LIMIT @page;

-- name: OwnActions :many
-- As GetAction, for those of these actions that one payer has paid for.
SELECT sqlc.embed(paid_action), invoice.node, invoice.payment_hash, invoice.preimage, invoice.hold, invoice.amount_msat,
    invoice.memo, invoice.cltv_delta, invoice.expires_at, invoice.bolt11, invoice.received_msat
FROM paid_action LEFT JOIN invoice ON invoice.action_id = paid_action.id
WHERE paid_action.id = ANY(@ids::bigint[]) AND paid_action.payer_id = @payer_id;

-- name: OriginOf :one
SELECT payer_id, coalesce(genesis_id, id)::bigint AS genesis FROM paid_action WHERE id = $1;

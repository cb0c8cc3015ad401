-- name: PlanOnce :exec
-- For the rest of the transaction. Statements with arrays are else planned anew each time: PostgreSQL believes an unknown array to have ten
-- elements, and a plan for the one that is there to be so much cheaper. A plan that is kept must fit tables that have grown since: made while they
-- were small it would read them from end to end. (Where there is no other way it still does, at a price by which just-in-time compilation
-- would seem worth while.) And no table is read in another order than that of a key: what changes the rows of a sorted list locks them in its order.
SELECT set_config('plan_cache_mode', 'force_generic_plan', true), set_config('enable_seqscan', 'off', true), set_config('jit', 'off', true);

-- name: CommitUnflushed :exec
-- For the rest of the transaction: its commit does not wait for the disk. A crash may forget it, as long as nothing that comes after it is on disk.
SELECT set_config('synchronous_commit', 'off', true);

-- name: PlanAlone :exec
-- As PlanOnce, for one statement that is the only one (db.Alone). No bitmap and no sort either: planned while little was waiting it would, for the first of
-- what waits, collect all of it, and sort.
SELECT set_config('plan_cache_mode', 'force_generic_plan', true), set_config('enable_seqscan', 'off', true),
    set_config('enable_bitmapscan', 'off', true), set_config('enable_sort', 'off', true), set_config('jit', 'off', true);

-- name: NextActions :many
-- See Transaction.NextActions.
SELECT nextval('paid_action_id_seq')::bigint FROM generate_series(1, @count::int);

-- name: RefuseUsedKey :exec
-- It fails with HF005, as InsertAction does, where the idempotency key was used before. InsertAction waits for whoever is changing that action just now, and they may wait for
-- a row that the caller has locked for its price; this waits for nobody.
SELECT must_begin((NOT EXISTS (SELECT FROM paid_action WHERE payer_id = @payer_id::bigint AND idempotency_key = @idempotency_key::text))::int::bigint);

-- name: InsertAction :exec
-- Under a number from NextActions. It fails with HF005 where the idempotency key was used before: the caller then reads the winner.
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
)
SELECT must_begin(count(*)) FROM begun;

-- name: InsertActions :exec
-- Several of one kind that begin alike, under numbers that were asked for ahead (Transaction.NextActions). Nobody waits for an answer: an idempotency key that was
-- used before breaks paid_action_key, and the transaction with it (paidaction.Engine.payTogether); an empty key is none. They are to come in the order of payer
-- and key: transactions that insert the same keys then wait for each other in one direction only.
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
WHERE w.events = '{}' OR webhook_type(begun.flow::text, begun.state::text) = ANY (w.events);

-- name: KeysUsed :many
-- Which of these idempotency keys, by their places, were used before.
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
-- And what webhooks are told of it: the two commit together.
WITH history AS (
    INSERT INTO action_history (action_id, from_state, to_state, fact, at) VALUES (@action_id, @from_state, @to_state, @fact, @at)
    RETURNING id, action_id, to_state, at
)
INSERT INTO webhook_message (webhook_id, step_id, action_id, type, created_at)
SELECT w.id, history.id, history.action_id, webhook_type(a.flow::text, history.to_state::text), history.at
FROM history JOIN paid_action a ON a.id = history.action_id JOIN webhook w ON (w.user_id = a.payer_id OR w.user_id IS NULL) AND w.disabled_at IS NULL
WHERE w.events = '{}' OR webhook_type(a.flow::text, history.to_state::text) = ANY (w.events);

-- name: MoveActions :exec
-- MoveAction, InsertHistory and SetReceived of several actions, which the caller has locked: all of them move, or it fails. A height of 0 is none, and nothing is
-- received with a step that takes no money. That the rows are among the ids is said for the planner: with few rows it would read all of them for the join.
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
)
SELECT must_be(count(*), cardinality(@ids::bigint[]), 'locked actions moved') FROM moved;

-- name: SetResult :exec
UPDATE paid_action SET result = @result WHERE id = @id;

-- name: PermitSettle :execrows
-- From the moment this commits, HELD can no longer be cancelled: a settle call may be on its way.
-- The state as text, as wherever one row is meant: an index of the few open ones would fit the state itself, be preferred to the key as long as
-- the planner knows of few, and be read as a whole.
UPDATE paid_action SET settle_permitted_at = @at WHERE id = @id AND state::text = 'HELD' AND settle_permitted_at IS NULL;

-- name: RefuseAgain :exec
UPDATE paid_action SET again_refused_at = @at WHERE id = @id AND state::text = 'FAILED';

-- name: LockAction :one
SELECT * FROM paid_action WHERE id = $1 FOR NO KEY UPDATE;

-- name: LockActions :many
-- In the order of their numbers.
SELECT * FROM paid_action WHERE id = ANY(@ids::bigint[]) ORDER BY id FOR NO KEY UPDATE;

-- name: GetAction :one
SELECT sqlc.embed(paid_action), invoice.node, invoice.payment_hash, invoice.preimage, invoice.hold, invoice.amount_msat,
    invoice.memo, invoice.cltv_delta, invoice.expires_at, invoice.bolt11, invoice.received_msat
FROM paid_action LEFT JOIN invoice ON invoice.action_id = paid_action.id
WHERE paid_action.id = $1;

-- name: PerformedBefore :one
-- What attempts of the same have performed, other than this one: the last of them that has.
SELECT id, result FROM paid_action WHERE (id = @genesis OR genesis_id = @genesis::bigint) AND id <> @action_id AND result IS NOT NULL ORDER BY attempt DESC LIMIT 1;

-- name: GetActionAlone :one
-- Without its invoice.
SELECT * FROM paid_action WHERE id = @id;

-- name: KindsOf :many
-- Which of these actions are of which kind, in the order of their numbers, and whether they are PAID. What does not exist is missing.
SELECT kind, (state = 'PAID')::bool AS paid, array_agg(id ORDER BY id)::bigint[] AS ids FROM paid_action
WHERE id = ANY(@ids::bigint[]) GROUP BY 1, 2 ORDER BY 1, 2;

-- name: ActionsInFull :many
-- As GetAction, of several.
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
INSERT INTO invoice (action_id, node, payment_hash, preimage, hold, amount_msat, memo, cltv_delta, expires_at, client_hash, chosen)
VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11);

-- name: SetBolt11 :execrows
-- Under the action's lock, and only while it waits for its payer: an invoice that was issued too late is never handed out.
-- Not as a join: planned while the table is small, that reads all of it. And the state as text: see PermitSettle.
UPDATE invoice SET bolt11 = @bolt11
WHERE invoice.action_id = (SELECT id FROM paid_action WHERE id = @action_id AND state::text IN ('PENDING', 'PENDING_HELD') FOR NO KEY UPDATE);

-- name: GetInvoice :one
SELECT * FROM invoice WHERE action_id = $1;

-- name: SetReceived :exec
UPDATE invoice SET received_msat = @received_msat WHERE action_id = @action_id;

-- name: ActionsByHash :many
-- As GetAction, the open actions behind these hashes: what has ended needs no look any more. The action is read row by row: as a join it could begin at the
-- index of what is open, and read all of that for one event.
SELECT sqlc.embed(paid_action), invoice.node, invoice.payment_hash, invoice.preimage, invoice.hold, invoice.amount_msat,
    invoice.memo, invoice.cltv_delta, invoice.expires_at, invoice.bolt11, invoice.received_msat
FROM invoice
CROSS JOIN LATERAL (SELECT * FROM paid_action a WHERE a.id = invoice.action_id OFFSET 0) AS paid_action
WHERE invoice.payment_hash = ANY(@hashes::bytea[]) AND paid_action.state NOT IN ('PAID', 'FAILED', 'RETRYING');

-- name: BoundPayer :exec
-- Fails with HF006 where the payer, whose row is locked, has so many open invoices already.
SELECT must_be_below(count(*), @most, 'HF006') FROM paid_action WHERE payer_id = @payer_id AND state IN ('PENDING', 'PENDING_HELD');

-- name: LockClient :exec
-- Anonymous payers have no row to lock; those behind one address wait for each other here, and for nobody else.
SELECT pg_advisory_xact_lock(hashtextextended(encode(@client_hash::bytea, 'hex'), 7277));

-- name: BoundClient :exec
-- As BoundPayer, for the anonymous payers behind an address.
SELECT must_be_below(count(*), @most, 'HF006') FROM paid_action WHERE client_hash = @client_hash::bytea AND state IN ('PENDING', 'PENDING_HELD');

-- name: OpenActions :many
-- The rows a sweep looks at, oldest deadline first, in pages.
SELECT id, deadline FROM paid_action
WHERE state NOT IN ('PAID', 'FAILED', 'RETRYING') AND (deadline, id) > (@after_deadline::timestamptz, @after_id::bigint)
ORDER BY deadline, id LIMIT @page;

-- name: OverdueActions :many
SELECT id, deadline FROM paid_action
WHERE state NOT IN ('PAID', 'FAILED', 'RETRYING') AND deadline <= @at AND (deadline, id) > (@after_deadline::timestamptz, @after_id::bigint)
ORDER BY deadline, id LIMIT @page;

-- name: ActionsDueAtHeight :many
-- Held payments of one node whose HTLC safety height is at or below the given height.
SELECT paid_action.id, paid_action.deadline_height FROM paid_action JOIN invoice ON invoice.action_id = paid_action.id
WHERE paid_action.state NOT IN ('PAID', 'FAILED', 'RETRYING') AND paid_action.deadline_height <= @height AND invoice.node = @node
ORDER BY paid_action.deadline_height, paid_action.id;

-- name: OpenHoldInvoices :many
-- Every hold invoice that can still change at the node; each needs a stream of its own (spec 01 §1.6).
SELECT invoice.payment_hash, invoice.action_id FROM paid_action JOIN invoice ON invoice.action_id = paid_action.id
WHERE paid_action.state NOT IN ('PAID', 'FAILED', 'RETRYING') AND invoice.hold AND invoice.node = @node;

-- name: GetCursor :one
SELECT * FROM node_cursor WHERE node = $1;

-- name: MoveCursor :exec
-- Forwards only: a late writer cannot take the cursor back.
INSERT INTO node_cursor (node, add_index, settle_index) VALUES (@node, @add_index, @settle_index)
ON CONFLICT (node) DO UPDATE SET
    add_index = greatest(node_cursor.add_index, excluded.add_index),
    settle_index = greatest(node_cursor.settle_index, excluded.settle_index);

-- name: MoveHeight :exec
INSERT INTO node_cursor (node, height) VALUES (@node, @height)
ON CONFLICT (node) DO UPDATE SET height = greatest(node_cursor.height, excluded.height);

-- name: History :many
SELECT * FROM action_history WHERE action_id = $1 ORDER BY id;

-- name: ListActions :many
-- For operators: newest first, by state if one is given.
SELECT id, kind, flow, state, attempt, payer_id, cost_msat, deadline, created_at, changed_at, failure_code FROM paid_action
WHERE (sqlc.narg(state)::action_state IS NULL OR state = sqlc.narg(state)) AND id < @before
ORDER BY id DESC LIMIT @page;

-- name: ListStuck :many
SELECT id, kind, flow, state, attempt, payer_id, cost_msat, deadline, created_at, changed_at, failure_code FROM paid_action
WHERE state NOT IN ('PAID', 'FAILED', 'RETRYING') AND deadline <= @at ORDER BY deadline, id LIMIT @page;

-- name: OwnActions :many
-- As GetAction, for those of these actions that one payer has paid for.
SELECT sqlc.embed(paid_action), invoice.node, invoice.payment_hash, invoice.preimage, invoice.hold, invoice.amount_msat,
    invoice.memo, invoice.cltv_delta, invoice.expires_at, invoice.bolt11, invoice.received_msat
FROM paid_action LEFT JOIN invoice ON invoice.action_id = paid_action.id
WHERE paid_action.id = ANY(@ids::bigint[]) AND paid_action.payer_id = @payer_id;

-- name: OriginOf :one
SELECT payer_id, coalesce(genesis_id, id)::bigint AS genesis FROM paid_action WHERE id = $1;

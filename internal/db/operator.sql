-- What an operator looks at. Every query reads at most a page of what is open, through the indexes of what is open, whatever the history
-- and the backlog hold.

-- name: OpenByState :many
-- Of a page of open actions, the oldest deadlines first: those that are stuck are among them. What a receiver lets hang is not, nor what waits for a node (ListStuck).
SELECT o.state, count(*) AS actions, min(o.changed_at)::timestamptz AS oldest, count(*) FILTER (WHERE o.deadline <= @stuck_since::timestamptz AND NOT (
    (o.state = 'FORWARDING' OR (o.state = 'FORWARDED' AND o.flow = 'OUTGOING')) AND EXISTS (
        SELECT FROM relay_payment r WHERE r.action_id = o.id AND (r.stage IN ('in_work', 'pending_confirmation') AND r.inside_id IS NULL
            OR r.stage = 'incoming' AND r.node IS NULL AND r.receiver_id IS NULL AND coalesce(r.requeued_at, r.created_at) BETWEEN @waits_since::timestamptz AND @waits_to::timestamptz) OFFSET 0))) AS stuck
FROM (
    SELECT id, flow, state, deadline, changed_at FROM paid_action WHERE state NOT IN ('PAID', 'FAILED', 'RETRYING') ORDER BY deadline, id LIMIT @page
) AS o GROUP BY o.state ORDER BY o.state;

-- name: JobsByQueue :many
-- Of a page of jobs of each queue and state. Those that wait are due since their oldest; those that are scheduled become due then.
SELECT q.queue::text AS queue, s.state::text AS state, c.jobs, c.oldest
FROM unnest(@queues::text[]) AS q (queue)
CROSS JOIN unnest(ARRAY['available', 'retryable', 'running', 'scheduled']::river_job_state[]) AS s (state)
CROSS JOIN LATERAL (
    SELECT count(*) AS jobs, min(j.scheduled_at)::timestamptz AS oldest FROM (
        SELECT scheduled_at FROM river_job WHERE river_job.state = s.state AND river_job.queue = q.queue
        ORDER BY river_job.priority, river_job.scheduled_at, river_job.id LIMIT @page
    ) AS j
) AS c WHERE c.jobs > 0 ORDER BY 1, 2;

-- name: ActionsInState :many
-- Those in one open state, the oldest deadlines first.
SELECT id, kind, flow, state, attempt, payer_id, cost_msat, deadline, created_at, changed_at, failure_code FROM paid_action
WHERE state NOT IN ('PAID', 'FAILED', 'RETRYING') AND state = @state ORDER BY deadline, id LIMIT @page;

-- name: NewestOpen :many
-- Those in one open state, newest first. The newest of all are not where to look for them: they may all be old.
WITH open AS MATERIALIZED (SELECT * FROM paid_action WHERE state NOT IN ('PAID', 'FAILED', 'RETRYING'))
SELECT id, kind, flow, state, attempt, payer_id, cost_msat, deadline, created_at, changed_at, failure_code FROM open
WHERE state = @state AND id < @before ORDER BY id DESC LIMIT @page;

-- name: NewestUnpaid :many
-- Those in FAILED or RETRYING, newest first, wherever in the history they are. For the comparison of rows see profile.sql.
SELECT id, kind, flow, state, attempt, payer_id, cost_msat, deadline, created_at, changed_at, failure_code FROM paid_action
WHERE state IN ('FAILED', 'RETRYING') AND (state, id) < (@state::action_state, @before::bigint) AND state >= @state::action_state
ORDER BY state DESC, id DESC LIMIT @page;

-- name: NewestPaid :many
-- Most are.
SELECT id, kind, flow, state, attempt, payer_id, cost_msat, deadline, created_at, changed_at, failure_code FROM paid_action
WHERE state = 'PAID' AND id < @before ORDER BY id DESC LIMIT @page;

-- name: HeldByWithdrawals :one
-- How many places at a node the relay counts as held by withdrawals when it claims another (ClaimRelay), at most so many.
SELECT count(*) FROM (SELECT FROM relay_payment WHERE stage = 'in_work' AND payer_id IS NOT NULL AND node = @node AND changed_at > @since AND changed_at <= @latest
    ORDER BY changed_at LIMIT @most::bigint) AS holding;

-- name: Histories :many
-- The steps of actions, the oldest first.
SELECT * FROM action_history WHERE action_id = ANY(@ids::bigint[]) ORDER BY id;

-- name: AnyAction :one
-- Whether anybody has ever paid for anything here, or tried to.
SELECT EXISTS (SELECT FROM paid_action);

-- name: NoteCommand :one
INSERT INTO operator_command (at, operator, command, arguments) VALUES (@at, @operator, @command, @arguments) RETURNING id;

-- name: NoteEnd :exec
UPDATE operator_command SET ended_at = @at::timestamptz, failure = @failure WHERE id = @id;

-- name: CommandsBefore :many
-- Newest first.
SELECT * FROM operator_command WHERE id < @before ORDER BY id DESC LIMIT @page;

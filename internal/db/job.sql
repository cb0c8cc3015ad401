-- name: InsertJob :exec
-- A row as River itself would insert it, but for the answer: nobody waits for one, so it travels with the commit. It is due at once.
INSERT INTO river_job (kind, queue, args, max_attempts, metadata, tags)
VALUES (@kind, @queue, @args, @max_attempts, coalesce(sqlc.narg(metadata)::jsonb, '{}'), '{}');

-- name: InsertLaterJob :exec
-- As InsertJob, for one that is due then.
INSERT INTO river_job (kind, queue, args, max_attempts, metadata, tags, state, scheduled_at)
VALUES (@kind, @queue, @args, @max_attempts, coalesce(sqlc.narg(metadata)::jsonb, '{}'), '{}', 'scheduled', @due);

-- name: MakeDueAvailable :execrows
-- The scheduled jobs of a queue that are due before then may be fetched once they are due. Who else does so at the same time does others.
UPDATE river_job SET state = 'available' WHERE river_job.id = ANY (ARRAY (
    SELECT j.id FROM river_job j
    WHERE j.state = 'scheduled' AND j.queue = @queue AND j.priority = 1 AND j.scheduled_at <= @before::timestamptz AND j.unique_key IS NULL
    ORDER BY j.scheduled_at, j.id LIMIT @page FOR NO KEY UPDATE SKIP LOCKED
));

-- name: BringJobsForward :execrows
-- The jobs of a queue that wait until after then are due now. Who else does so at the same time does others.
UPDATE river_job SET state = 'available', scheduled_at = @now::timestamptz WHERE river_job.id = ANY (ARRAY (
    SELECT j.id FROM river_job j
    WHERE j.state IN ('available', 'scheduled', 'retryable') AND j.queue = @queue AND j.priority = 1 AND j.scheduled_at > @after::timestamptz AND j.unique_key IS NULL
    ORDER BY j.scheduled_at, j.id LIMIT @page FOR NO KEY UPDATE SKIP LOCKED
));

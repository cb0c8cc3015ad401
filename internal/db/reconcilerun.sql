-- name: BeginReconcile :execrows
-- 0 rows: another process has begun one, not long ago. One that began later than can be was begun by a clock that was ahead.
INSERT INTO reconcile_run (began_at) VALUES (@at)
ON CONFLICT (one) DO UPDATE SET began_at = excluded.began_at WHERE reconcile_run.began_at <= @due::timestamptz OR reconcile_run.began_at > @ahead::timestamptz;

-- name: EndReconcile :exec
-- Nothing where another process has begun one since, which will say more.
UPDATE reconcile_run SET checked_to = sqlc.narg(checked_to), ended_at = @ended_at, report = @report WHERE began_at = @began_at;

-- name: LastReconcile :one
SELECT checked_to, ended_at, report FROM reconcile_run WHERE ended_at IS NOT NULL;

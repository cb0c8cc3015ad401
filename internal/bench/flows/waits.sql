-- The jobs of the actions after $1 that bring them on: from when they could be worked on, and when a worker took them.
SELECT (args ->> 'action')::bigint, greatest(created_at, scheduled_at), attempted_at
FROM river_job WHERE queue IN ('money', 'settles') AND attempted_at IS NOT NULL AND (args ->> 'action')::bigint > $1;

-- name: TracesOfActions :many
-- Where the requests of these actions were traced to: the jobs that they stored say so.
SELECT a.id::bigint AS action, t.traceparent::text AS traceparent FROM unnest(@ids::bigint[]) AS a (id)
CROSS JOIN LATERAL (
    SELECT metadata->>'traceparent' AS traceparent FROM river_job
    WHERE (args->>'action')::bigint = a.id AND kind = 'advance' AND metadata->>'traceparent' IS NOT NULL LIMIT 1
) AS t;

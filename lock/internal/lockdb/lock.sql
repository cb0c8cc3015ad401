-- The lock's operations are functions of the database (migrations/0006_lock.up.sql says why).

-- name: Enter :one
-- A lease that is fleeting is not worth a wait for the disk; one that is handed over on the way is.
SELECT e.*, (CASE WHEN @fleeting::boolean AND e.next_ticket = '' THEN set_config('synchronous_commit', 'off', true) ELSE '' END)::text AS flush
FROM lock_enter(@key, @ticket, @process, @name, @live_ms, @ttl_ms, @hold_ms, @queue, @wait) AS e;

-- name: Beat :exec
SELECT lock_beat(@process, @name, @live_ms);

-- name: Look :many
-- held; queued; stale, if the key's lease is over and nobody has noticed; gone.
SELECT a.key, a.ticket,
    (CASE WHEN k.ticket = a.ticket AND k.expires_at > clock_timestamp() THEN 'held'
          WHEN k.expires_at <= clock_timestamp() AND (k.ticket = a.ticket OR t.id IS NOT NULL) THEN 'stale'
          WHEN t.id IS NOT NULL THEN 'queued'
          ELSE 'gone' END)::text AS state,
    coalesce(k.fence, 0)::bigint AS fence,
    coalesce(floor(extract(epoch FROM k.expires_at - clock_timestamp()) * 1000), 0)::bigint AS valid_ms
FROM (SELECT unnest(@keys::text[])::text AS key, unnest(@tickets::text[])::text AS ticket) AS a
LEFT JOIN lock_key k ON k.key = a.key
LEFT JOIN lock_ticket t ON t.id = a.ticket;

-- name: Touch :many
-- A lease that is over, or another's, is not in the answer. The clock is read after the rows are locked: what ran out meanwhile
-- stays over.
WITH wanted AS (
    SELECT unnest(@keys::text[])::text AS key, unnest(@tickets::text[])::text AS ticket, unnest(@ttl_ms::bigint[])::bigint AS ttl_ms
), mine AS MATERIALIZED (
    SELECT k.key, w.ttl_ms FROM lock_key k JOIN wanted w ON w.key = k.key AND w.ticket = k.ticket
    ORDER BY k.key FOR NO KEY UPDATE OF k
)
UPDATE lock_key k SET expires_at = least(clock_timestamp() + mine.ttl_ms * interval '1 millisecond', k.hold_until)
FROM mine WHERE k.key = mine.key AND k.expires_at > clock_timestamp() AND k.hold_until > clock_timestamp()
RETURNING coalesce(k.ticket, '')::text AS ticket,
    floor(extract(epoch FROM k.expires_at - clock_timestamp()) * 1000)::bigint AS valid_ms;

-- name: Release :one
-- Where nobody is next, a crash of the server may forget it: then the lease ends by its TTL. Who gets the lock before that crash does so
-- in a later commit, which writes this one to disk as well.
SELECT r.*, (CASE WHEN r.next_ticket = '' THEN set_config('synchronous_commit', 'off', true) ELSE '' END)::text AS flush
FROM lock_release(@key, @ticket, @process) AS r;

-- name: Leave :one
SELECT * FROM lock_leave(@key, @ticket, @process);

-- name: Advance :one
SELECT * FROM lock_advance(@key, @process);

-- name: Ping :exec
-- Not worth a wait for the disk.
SELECT set_config('synchronous_commit', 'off', true), pg_notify(@channel, @message);

-- name: Backend :one
-- The number of the server's process that answers.
SELECT pg_backend_pid()::bigint;

-- name: Abandoned :many
-- Keys whose lease ran out long ago: whoever still waited would have had them advanced.
SELECT k.key FROM lock_key k
WHERE k.ticket IS NOT NULL AND k.expires_at < clock_timestamp() - interval '1 millisecond' * @idle_ms::bigint LIMIT @page;

-- name: Sweep :exec
SELECT lock_sweep(@idle_ms);

-- name: Holders :many
-- A lease that has run out is held by nobody, as lock_enter sees it, and would stay in the list until it is swept. It is in
-- it only while somebody waits, who should have got it.
SELECT k.key, k.fence, k.name, k.waiting,
    (extract(epoch FROM clock_timestamp() - k.since) * 1000)::bigint AS held_ms,
    (extract(epoch FROM k.expires_at - clock_timestamp()) * 1000)::bigint AS left_ms
FROM lock_key k
WHERE k.ticket IS NOT NULL AND (k.expires_at > clock_timestamp() OR k.waiting > 0)
ORDER BY k.since, k.key LIMIT @page;

-- name: Waiters :many
SELECT t.key, coalesce(p.name, t.process) AS process,
    (p.live_until IS NOT NULL AND p.live_until > clock_timestamp())::boolean AS alive,
    (extract(epoch FROM clock_timestamp() - t.since) * 1000)::bigint AS waited_ms
FROM lock_ticket t LEFT JOIN lock_process p ON p.id = t.process
WHERE t.key = ANY(@keys::text[])
ORDER BY t.key, t.number LIMIT @page;

-- name: GetNode :one
SELECT * FROM lightning_node WHERE name = $1;

-- name: ListNodes :many
SELECT * FROM lightning_node ORDER BY name;

-- name: MeetNode :one
-- The first key that is seen under a name is remembered. Another one disables the node, until an operator says that it is the
-- right one (spec 05.16e). Without a key it only gets its row.
INSERT INTO lightning_node AS known (name, public_key, changed_at) VALUES (@name, sqlc.narg(public_key), @at)
ON CONFLICT (name) DO UPDATE SET
    public_key = coalesce(known.public_key, excluded.public_key),
    other_key = CASE WHEN excluded.public_key IS NULL THEN known.other_key
        ELSE nullif(excluded.public_key, coalesce(known.public_key, excluded.public_key)) END,
    disabled_reason = CASE WHEN excluded.public_key <> known.public_key
        THEN coalesce(known.disabled_reason, 'it answered as ' || excluded.public_key || ' and was known as ' || known.public_key)
        ELSE known.disabled_reason END,
    changed_at = excluded.changed_at
RETURNING *;

-- name: DrainNode :execrows
UPDATE lightning_node SET draining = @draining, changed_at = @at WHERE name = @name;

-- name: DisableNode :execrows
UPDATE lightning_node SET disabled_reason = @reason::text, changed_at = @at WHERE name = @name;

-- name: EnableNode :execrows
-- Whoever enables a node that answers with another key says that this is the node now, and which key that is: since they looked, a third
-- one may answer.
UPDATE lightning_node SET disabled_reason = NULL, public_key = coalesce(other_key, public_key), other_key = NULL, changed_at = @at
WHERE name = @name AND (@key::text = coalesce(other_key, public_key) OR (other_key IS NULL AND @key = ''));

-- name: CoolNode :exec
-- Of two cooldowns the one that ends later counts, unless only a clock that was ahead can have written it down.
UPDATE lightning_node SET
    cooling_reason = CASE WHEN cooling_until > @until::timestamptz AND cooling_until <= @latest::timestamptz THEN cooling_reason ELSE @reason::text END,
    cooling_until = CASE WHEN cooling_until > @until AND cooling_until <= @latest THEN cooling_until ELSE @until END
WHERE name = @name;

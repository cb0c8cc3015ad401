-- name: FoundTerritory :execrows
-- 0 rows: the name is taken. The primary key decides, whoever comes at the same time.
INSERT INTO territory (name, founder_id, base_cost_msat, reply_cost_msat, created_at, state, billing, auto_renew, description, pending_action)
VALUES (@name, @founder_id, @base_cost_msat, @reply_cost_msat, @at, 'PENDING', @billing, @auto_renew, @description, @action_id::bigint)
ON CONFLICT (name) DO NOTHING;

-- name: DropTerritory :execrows
-- Its payment failed: the name is free again.
DELETE FROM territory WHERE name = @name AND state = 'PENDING' AND pending_action = @action_id::bigint;

-- name: LockTerritory :one
SELECT * FROM territory WHERE name = $1 FOR NO KEY UPDATE;

-- name: ReserveTerritory :execrows
UPDATE territory SET pending_action = @action_id::bigint WHERE name = @name AND pending_action IS NULL;

-- name: FreeTerritory :execrows
UPDATE territory SET pending_action = NULL WHERE name = @name AND pending_action = @action_id::bigint;

-- name: SaveTerritory :exec
-- The row is locked by the caller, and is not reserved any more.
UPDATE territory SET founder_id = @founder_id, base_cost_msat = @base_cost_msat, reply_cost_msat = @reply_cost_msat, state = @state,
    billing = @billing, auto_renew = @auto_renew, description = @description, period_start = sqlc.narg(period_start),
    period_day = sqlc.narg(period_day), paid_until = sqlc.narg(paid_until), paid_msat = @paid_msat, grace_until = sqlc.narg(grace_until), bill_at = sqlc.narg(bill_at),
    pending_action = NULL
WHERE name = @name;

-- name: DueTerritories :many
-- What is reserved is about to be paid, or to be free again.
SELECT * FROM territory WHERE bill_at <= @at::timestamptz AND pending_action IS NULL ORDER BY bill_at, name LIMIT @page;

-- name: InsertTerritoryTransfer :exec
INSERT INTO territory_transfer (territory, from_user, to_user, action_id, at) VALUES ($1, $2, $3, $4, $5);

-- name: TellOfTerritory :exec
-- Written with what it tells of, and so once.
INSERT INTO notification (user_id, kind, territory, created_at) VALUES (@user_id, @kind, @territory::text, @at);

-- name: TerritoriesAfter :many
-- One page of all territories by name; those that are not paid for come back for their founder alone.
SELECT * FROM territory WHERE name > @after AND (state <> 'PENDING' OR founder_id = sqlc.narg(viewer)::bigint) ORDER BY name LIMIT @page;

-- name: TransfersOfTerritories :many
-- One page of each of these territories' transfers, newest first.
SELECT sqlc.embed(territory_transfer) FROM unnest(@territories::text[]) AS wanted (name) CROSS JOIN LATERAL (
    SELECT t.* FROM territory_transfer t WHERE t.territory = wanted.name AND t.id < @before::bigint ORDER BY t.id DESC LIMIT @page
) AS territory_transfer ORDER BY territory_transfer.territory, territory_transfer.id DESC;

-- name: AgeTerritory :exec
-- For the demo, which cannot wait a month: as if the period and the grace after it had just ended.
UPDATE territory SET state = 'GRACE', period_start = @begun, period_day = @day::smallint, paid_until = @ended, grace_until = @ended, bill_at = @ended WHERE name = @name;

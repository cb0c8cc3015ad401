-- name: ServerTimeline :one
-- name is empty on a copy that only follows.
SELECT here.name, (known.name IS NOT NULL)::boolean AS met, known.accepted_at
FROM (SELECT coalesce(server_timeline(), '')::text AS name) here LEFT JOIN timeline known ON known.name = here.name;

-- name: LockTimelines :exec
-- Until the transaction ends nobody else meets a timeline.
LOCK TABLE timeline IN SHARE ROW EXCLUSIVE MODE;

-- name: Timelines :many
-- In the order in which they were met, whatever a clock said: before each but the first, numbers were skipped.
SELECT * FROM timeline ORDER BY last_action, met_at, name;

-- name: MeetTimeline :exec
-- accept: it is accepted at once.
INSERT INTO timeline (name, met_at, accepted_at)
VALUES (server_timeline(), @at::timestamptz, CASE WHEN @accept::boolean THEN @at::timestamptz END);

-- name: AcceptTimeline :exec
-- Always after it was met, whatever a clock says: accepted at that moment means that it was never doubted.
UPDATE timeline SET accepted_at = greatest(@at::timestamptz, met_at + interval '1 microsecond'), last_action = newest_action()
WHERE name = server_timeline() AND accepted_at IS NULL;

-- name: DoubtTimeline :exec
UPDATE timeline SET accepted_at = NULL, last_action = newest_action() WHERE name = server_timeline();

-- name: SkipNumbers :exec
-- It takes effect at once, and is not undone with the transaction.
SELECT skip_numbers(@numbers::bigint);

-- name: InsertPollOptions :exec
INSERT INTO poll_option (item_id, position, text)
SELECT @item_id::bigint, generate_subscripts(@texts::text[], 1), unnest(@texts::text[]);

-- name: GetPollOption :one
SELECT * FROM poll_option WHERE id = $1;

-- name: PollOptions :many
-- The options of these polls in their order, with the votes that are paid, uncounted ones included. mine is the state of the viewer's own vote, if
-- it is for this option; else it is empty.
SELECT poll_option.item_id, poll_option.id, poll_option.text, (poll_option.votes
    + (SELECT count(*) FROM poll_vote WHERE poll_vote.option_id = poll_option.id AND poll_vote.state = 'PAID' AND NOT poll_vote.counted))::bigint AS votes,
    coalesce(own.state::text, '')::text AS mine
FROM poll_option LEFT JOIN poll_vote own ON own.item_id = poll_option.item_id AND own.option_id = poll_option.id
    AND own.user_id = sqlc.narg(viewer)::bigint AND own.state <> 'FAILED'
WHERE poll_option.item_id = ANY(@polls::bigint[]) ORDER BY poll_option.item_id, poll_option.position;

-- name: HasVoted :one
SELECT EXISTS (SELECT 1 FROM poll_vote WHERE item_id = @item_id AND user_id = @user_id AND state <> 'FAILED');

-- name: InsertPollVote :exec
INSERT INTO poll_vote (action_id, item_id, option_id, user_id, state) VALUES (@action_id, @item_id, @option_id, @user_id, 'PENDING');

-- name: RepointPollVote :execrows
UPDATE poll_vote SET action_id = @action_id, state = 'PENDING' WHERE action_id = @previous;

-- name: MarkPollVote :exec
UPDATE poll_vote SET state = @state WHERE action_id = @action_id AND state <> @state;

-- name: FoldPolls :execrows
-- Paid votes that nobody else is counting: what is added is what this very statement marks. The options are changed, and by that locked, in the order of their ids
-- (PlanOnce).
WITH fresh AS (
    UPDATE poll_vote SET counted = true WHERE action_id = ANY (ARRAY(
        SELECT v.action_id FROM poll_vote AS v WHERE v.state = 'PAID' AND NOT v.counted ORDER BY v.option_id LIMIT @page FOR NO KEY UPDATE SKIP LOCKED))
    RETURNING option_id
), sums AS (
    SELECT option_id, count(*) AS votes FROM fresh GROUP BY option_id ORDER BY option_id
)
UPDATE poll_option SET votes = poll_option.votes + sums.votes FROM sums WHERE poll_option.id = sums.option_id;

-- Feeds: posts that everybody sees, best first, each from its own index. A page goes on below the score and id where the one before
-- ended, so posts that come meanwhile neither repeat what was read nor hide what was not.
--
-- One territory is asked for as the end of a range, not as an equal: then nothing but the territory's own index gives the order. An
-- equal lets the planner walk the index of all posts and drop those of other territories, which can be nearly all of them.

-- name: NewPosts :many
SELECT id, id AS score FROM item WHERE parent_id IS NULL AND kind <> 'BIO' AND state = 'PAID' AND deleted_at IS NULL AND id < @before
ORDER BY id DESC LIMIT @page;

-- name: NewPostsIn :many
SELECT id, id AS score FROM item
WHERE parent_id IS NULL AND kind <> 'BIO' AND state = 'PAID' AND deleted_at IS NULL AND territory >= @territory::text
    AND (territory, id) < (@territory, @before::bigint)
ORDER BY territory DESC, id DESC LIMIT @page;

-- name: HotPosts :many
SELECT item_id AS id, hot AS score FROM item_count
WHERE listed AND (hot, item_id) < (@score::bigint, @before::bigint)
ORDER BY hot DESC, item_id DESC LIMIT @page;

-- name: HotPostsIn :many
SELECT item_id AS id, hot AS score FROM item_count
WHERE listed AND territory >= @territory::text
    AND (territory, hot, item_id) < (@territory, @score::bigint, @before::bigint)
ORDER BY territory DESC, hot DESC, item_id DESC LIMIT @page;

-- name: TopPosts :many
SELECT item_id AS id, vote_micros AS score FROM item_count
WHERE listed AND (vote_micros, item_id) < (@score::bigint, @before::bigint)
ORDER BY vote_micros DESC, item_id DESC LIMIT @page;

-- name: TopPostsIn :many
SELECT item_id AS id, vote_micros AS score FROM item_count
WHERE listed AND territory >= @territory::text
    AND (territory, vote_micros, item_id) < (@territory, @score::bigint, @before::bigint)
ORDER BY territory DESC, vote_micros DESC, item_id DESC LIMIT @page;

-- name: TopPostsSince :many
-- The best of the days with the best posts: on a page of ten there is nothing from an eleventh day, and nothing below the best post of the tenth. What is read
-- grows with the days and the page, not with the posts. A day is asked for as the end of a range as well: as an equal it lets the planner walk the index of all
-- posts for each day, once a page is far down. That the first day alone is asked for the moment also keeps the planner from the belief that hardly any post of a
-- day is young enough.
WITH best_day AS MATERIALIZED (
    SELECT any_day AS number, winner.vote_micros, winner.id FROM generate_series(@first_day::int, @last_day::int) AS any_day CROSS JOIN LATERAL (
        SELECT item_id AS id, vote_micros FROM item_count
        WHERE listed AND day >= any_day AND (day, vote_micros, item_id) < (any_day, @score::bigint, @before::bigint)
            AND (any_day > @first_day OR created_at > @since::timestamptz)
        ORDER BY day DESC, vote_micros DESC, item_id DESC LIMIT 1
    ) AS winner ORDER BY winner.vote_micros DESC, winner.id DESC LIMIT @page
), lowest AS MATERIALIZED (
    SELECT b.vote_micros, b.id FROM best_day AS b WHERE (SELECT count(*) FROM best_day) = @page::int ORDER BY b.vote_micros, b.id LIMIT 1
)
SELECT best.id, best.score FROM best_day LEFT JOIN lowest ON true CROSS JOIN LATERAL (
    SELECT item_id AS id, vote_micros AS score FROM item_count
    WHERE listed AND (day, vote_micros, item_id) < (best_day.number, @score::bigint, @before::bigint)
        AND (day, vote_micros, item_id) >= (best_day.number, coalesce(lowest.vote_micros, -9223372036854775808), coalesce(lowest.id, 0))
        AND (best_day.number > @first_day::int OR created_at > @since::timestamptz)
    ORDER BY day DESC, vote_micros DESC, item_id DESC LIMIT @page
) AS best ORDER BY best.score DESC, best.id DESC LIMIT @page;

-- name: TopPostsSinceIn :many
WITH best_day AS MATERIALIZED (
    SELECT any_day AS number, winner.vote_micros, winner.id FROM generate_series(@first_day::int, @last_day::int) AS any_day CROSS JOIN LATERAL (
        SELECT item_id AS id, vote_micros FROM item_count
        WHERE listed AND territory = @territory::text AND day >= any_day AND (day, vote_micros, item_id) < (any_day, @score::bigint, @before::bigint)
            AND (any_day > @first_day OR created_at > @since::timestamptz)
        ORDER BY day DESC, vote_micros DESC, item_id DESC LIMIT 1
    ) AS winner ORDER BY winner.vote_micros DESC, winner.id DESC LIMIT @page
), lowest AS MATERIALIZED (
    SELECT b.vote_micros, b.id FROM best_day AS b WHERE (SELECT count(*) FROM best_day) = @page::int ORDER BY b.vote_micros, b.id LIMIT 1
)
SELECT best.id, best.score FROM best_day LEFT JOIN lowest ON true CROSS JOIN LATERAL (
    SELECT item_id AS id, vote_micros AS score FROM item_count
    WHERE listed AND territory = @territory::text AND (day, vote_micros, item_id) < (best_day.number, @score::bigint, @before::bigint)
        AND (day, vote_micros, item_id) >= (best_day.number, coalesce(lowest.vote_micros, -9223372036854775808), coalesce(lowest.id, 0))
        AND (best_day.number > @first_day::int OR created_at > @since::timestamptz)
    ORDER BY day DESC, vote_micros DESC, item_id DESC LIMIT @page
) AS best ORDER BY best.score DESC, best.id DESC LIMIT @page;

-- The path of an item is its ancestors and itself: in the order of paths a thread reads from top to bottom, and all that is below an
-- item lies side by side. What has not been paid for is looked up for its author alone.
CREATE INDEX item_path ON item ((ancestors || id)) WHERE parent_id IS NOT NULL AND state = 'PAID';
CREATE INDEX item_unpaid_path ON item (author_id, (ancestors || id)) WHERE state <> 'PAID' AND deleted_at IS NULL;

CREATE INDEX item_of_author ON item (author_id, id) WHERE state = 'PAID' AND deleted_at IS NULL;
CREATE INDEX item_unpaid_of_author ON item (author_id, id) WHERE state <> 'PAID' AND deleted_at IS NULL;

-- How much somebody has written that was paid for. Nobody else moves these, so they need no deltas.
ALTER TABLE usr ADD COLUMN posts bigint NOT NULL DEFAULT 0, ADD COLUMN comments bigint NOT NULL DEFAULT 0;
UPDATE usr SET posts = written.posts, comments = written.comments FROM (
    SELECT author_id, count(*) FILTER (WHERE parent_id IS NULL AND kind <> 'BIO') AS posts, count(*) FILTER (WHERE parent_id IS NOT NULL) AS comments
    FROM item WHERE state = 'PAID' GROUP BY author_id) AS written
WHERE usr.id = written.author_id;

-- What receivers were paid directly.
CREATE INDEX relay_payment_received ON relay_payment (receiver_id, id) WHERE preimage IS NOT NULL AND receiver_id IS NOT NULL;

-- The item that an action is about, as its result or its arguments name it; NULL if they name none.
CREATE FUNCTION action_item(args jsonb, result jsonb) RETURNS bigint LANGUAGE sql IMMUTABLE PARALLEL SAFE AS $$
    SELECT (item #>> '{}')::bigint FROM (VALUES (1, result -> 'item'), (2, args -> 'item'), (3, args -> 'parent')) AS named (place, item)
    WHERE jsonb_typeof(item) = 'number' ORDER BY place LIMIT 1
$$;

-- Up to where somebody has looked at their notifications.
CREATE TABLE notification_seen (
    user_id bigint PRIMARY KEY REFERENCES usr (id),
    up_to   bigint NOT NULL
);

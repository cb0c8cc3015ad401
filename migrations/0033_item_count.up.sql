-- What is counted at an item, in a row of its own. Counters change with every zap, and each change of a row that is ranked writes to all indexes
-- of its table: a post was in twelve of item; it is in four of these, or seven in a territory, and the rows are short.
CREATE TABLE item_count (
    item_id         bigint PRIMARY KEY REFERENCES item (id),
    -- What follows the item (follow_item): by these feeds choose.
    listed          boolean NOT NULL,             -- a post that everybody sees
    territory       text,
    created_at      timestamptz NOT NULL,
    -- Folded counters; what came since lies in item_delta.
    msat            bigint NOT NULL DEFAULT 0,
    credit_msat     bigint NOT NULL DEFAULT 0,
    comment_msat    bigint NOT NULL DEFAULT 0,
    boost_msat      bigint NOT NULL DEFAULT 0,
    down_msat       bigint NOT NULL DEFAULT 0,
    upvotes         bigint NOT NULL DEFAULT 0,
    downvotes       bigint NOT NULL DEFAULT 0,
    vote_micros     bigint NOT NULL DEFAULT 0,
    comments        bigint NOT NULL DEFAULT 0,
    last_zap_at     timestamptz,
    last_comment_at timestamptz,
    -- The hot score, see 0012.
    hot             bigint NOT NULL GENERATED ALWAYS AS (round((
        sign(vote_micros::float8 + boost_msat) * log(1 + abs(vote_micros::float8 + boost_msat) / 1000000)
        + extract(epoch FROM created_at AT TIME ZONE 'UTC')::float8 / 45000) * 1000000)::bigint) STORED,
    -- Days since 1970-01-01 (UTC): the best of a window are the best of its days.
    day             int NOT NULL GENERATED ALWAYS AS (floor(extract(epoch FROM created_at AT TIME ZONE 'UTC') / 86400)::int) STORED
) WITH (fillfactor = 80);

INSERT INTO item_count (item_id, listed, territory, created_at, msat, credit_msat, comment_msat, boost_msat, down_msat, upvotes, downvotes,
    vote_micros, comments, last_zap_at, last_comment_at)
SELECT id, parent_id IS NULL AND kind <> 'BIO' AND state = 'PAID' AND deleted_at IS NULL, territory, created_at, msat, credit_msat, comment_msat,
    boost_msat, down_msat, upvotes, downvotes, vote_micros, comments, last_zap_at, last_comment_at
FROM item;

-- One index for each feed (internal/db/feed.sql). All are read backwards.
CREATE INDEX item_count_hot ON item_count (hot, item_id) WHERE listed;
CREATE INDEX item_count_hot_in ON item_count (territory, hot, item_id) WHERE listed AND territory IS NOT NULL;
CREATE INDEX item_count_top ON item_count (vote_micros, item_id) WHERE listed;
CREATE INDEX item_count_top_in ON item_count (territory, vote_micros, item_id) WHERE listed AND territory IS NOT NULL;
CREATE INDEX item_count_top_of_day ON item_count (day, vote_micros, item_id) WHERE listed;
CREATE INDEX item_count_top_of_day_in ON item_count (territory, day, vote_micros, item_id) WHERE listed AND territory IS NOT NULL;

-- With their columns go the indexes item_hot, item_top, item_top_of_day and those in a territory.
ALTER TABLE item DROP COLUMN hot, DROP COLUMN day;
ALTER TABLE item DROP COLUMN msat, DROP COLUMN credit_msat, DROP COLUMN comment_msat, DROP COLUMN boost_msat, DROP COLUMN down_msat,
    DROP COLUMN upvotes, DROP COLUMN downvotes, DROP COLUMN vote_micros, DROP COLUMN comments, DROP COLUMN last_zap_at, DROP COLUMN last_comment_at;

-- Whoever makes or changes an item: what feeds choose by is never out of step with it.
CREATE FUNCTION follow_item() RETURNS trigger LANGUAGE plpgsql AS $$
DECLARE
    listed_now boolean := NEW.parent_id IS NULL AND NEW.kind <> 'BIO' AND NEW.state = 'PAID' AND NEW.deleted_at IS NULL;
BEGIN
    IF TG_OP = 'INSERT' THEN
        INSERT INTO item_count (item_id, listed, territory, created_at) VALUES (NEW.id, listed_now, NEW.territory, NEW.created_at);
    ELSE
        UPDATE item_count SET listed = listed_now, territory = NEW.territory, created_at = NEW.created_at
        WHERE item_id = NEW.id AND (listed, territory, created_at) IS DISTINCT FROM (listed_now, NEW.territory, NEW.created_at);
    END IF;
    RETURN NULL;
END $$;
CREATE TRIGGER follow_item AFTER INSERT OR UPDATE OF parent_id, kind, state, deleted_at, territory, created_at ON item
    FOR EACH ROW EXECUTE FUNCTION follow_item();

DROP TRIGGER follow_item ON item;
DROP FUNCTION follow_item();

ALTER TABLE item
    ADD COLUMN msat            bigint NOT NULL DEFAULT 0,
    ADD COLUMN credit_msat     bigint NOT NULL DEFAULT 0,
    ADD COLUMN comment_msat    bigint NOT NULL DEFAULT 0,
    ADD COLUMN upvotes         bigint NOT NULL DEFAULT 0,
    ADD COLUMN vote_micros     bigint NOT NULL DEFAULT 0,
    ADD COLUMN comments        bigint NOT NULL DEFAULT 0,
    ADD COLUMN last_zap_at     timestamptz,
    ADD COLUMN last_comment_at timestamptz,
    ADD COLUMN down_msat       bigint NOT NULL DEFAULT 0,
    ADD COLUMN downvotes       bigint NOT NULL DEFAULT 0,
    ADD COLUMN boost_msat      bigint NOT NULL DEFAULT 0;
UPDATE item SET msat = c.msat, credit_msat = c.credit_msat, comment_msat = c.comment_msat, upvotes = c.upvotes, vote_micros = c.vote_micros,
    comments = c.comments, last_zap_at = c.last_zap_at, last_comment_at = c.last_comment_at, down_msat = c.down_msat, downvotes = c.downvotes,
    boost_msat = c.boost_msat
FROM item_count c WHERE c.item_id = item.id;
DROP TABLE item_count;

ALTER TABLE item
    ADD COLUMN hot bigint NOT NULL GENERATED ALWAYS AS (round((
        sign(vote_micros::float8 + boost_msat) * log(1 + abs(vote_micros::float8 + boost_msat) / 1000000)
        + extract(epoch FROM created_at AT TIME ZONE 'UTC')::float8 / 45000) * 1000000)::bigint) STORED,
    ADD COLUMN day int NOT NULL GENERATED ALWAYS AS (floor(extract(epoch FROM created_at AT TIME ZONE 'UTC') / 86400)::int) STORED;
CREATE INDEX item_hot ON item (hot, id) WHERE parent_id IS NULL AND kind <> 'BIO' AND state = 'PAID' AND deleted_at IS NULL;
CREATE INDEX item_hot_in ON item (territory, hot, id) WHERE parent_id IS NULL AND kind <> 'BIO' AND state = 'PAID' AND deleted_at IS NULL;
CREATE INDEX item_top ON item (vote_micros, id) WHERE parent_id IS NULL AND kind <> 'BIO' AND state = 'PAID' AND deleted_at IS NULL;
CREATE INDEX item_top_in ON item (territory, vote_micros, id) WHERE parent_id IS NULL AND kind <> 'BIO' AND state = 'PAID' AND deleted_at IS NULL;
CREATE INDEX item_top_of_day ON item (day, vote_micros, id) WHERE parent_id IS NULL AND kind <> 'BIO' AND state = 'PAID' AND deleted_at IS NULL;
CREATE INDEX item_top_of_day_in ON item (territory, day, vote_micros, id) WHERE parent_id IS NULL AND kind <> 'BIO' AND state = 'PAID' AND deleted_at IS NULL;

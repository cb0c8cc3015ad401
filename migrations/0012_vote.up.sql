-- A zap lifts an item or lowers it, and each direction has a total of its own per person.
ALTER TABLE zap ADD COLUMN down boolean NOT NULL DEFAULT false;
ALTER TABLE zap_total ADD COLUMN down boolean NOT NULL DEFAULT false,
    DROP CONSTRAINT zap_total_pkey, ADD CONSTRAINT zap_total_pkey PRIMARY KEY (item_id, user_id, down);

-- What each paid zap of a known person has changed in the weighted vote of an item, below zero for a down-zap. Appended, never
-- changed. No foreign keys to what is popular, for the reason given at balance_delta.
CREATE TABLE vote_event (
    action_id bigint PRIMARY KEY REFERENCES paid_action (id),
    item_id   bigint NOT NULL,
    author_id bigint,           -- of the item; NULL is the anonymous author
    micros    bigint NOT NULL,  -- in millionths
    at        timestamptz NOT NULL
);
CREATE INDEX vote_event_at ON vote_event (at);

-- What an item is ranked higher for: from paid_at until expires_at, after which a job takes it off the item, at expired_at.
CREATE TABLE boost (
    action_id  bigint PRIMARY KEY REFERENCES paid_action (id),  -- that pays for it now: a boost, or the making or changing of the item
    item_id    bigint NOT NULL,
    user_id    bigint REFERENCES usr (id),                      -- NULL is the anonymous author of the item
    msat       bigint NOT NULL CHECK (msat > 0),
    state      item_state NOT NULL,
    paid_at    timestamptz,
    expires_at timestamptz,
    expired_at timestamptz,
    CONSTRAINT boost_lasts_once_paid CHECK ((state = 'PAID') = (paid_at IS NOT NULL) AND (paid_at IS NULL) = (expires_at IS NULL)),
    CONSTRAINT boost_expires_once_paid CHECK (expired_at IS NULL OR state = 'PAID')
);
CREATE INDEX boost_running ON boost (expires_at, action_id) WHERE state = 'PAID' AND expired_at IS NULL;

ALTER TABLE item_delta
    ADD COLUMN down_msat  bigint NOT NULL DEFAULT 0,
    ADD COLUMN downvotes  bigint NOT NULL DEFAULT 0,
    ADD COLUMN boost_msat bigint NOT NULL DEFAULT 0;
ALTER TABLE item
    ADD COLUMN down_msat  bigint NOT NULL DEFAULT 0,
    ADD COLUMN downvotes  bigint NOT NULL DEFAULT 0,
    ADD COLUMN boost_msat bigint NOT NULL DEFAULT 0;

-- The hot score, in millionths: log10 of the weighted votes and the boost (1,000 sats of it are one vote), plus one for every 45,000
-- seconds (12.5 hours) by which a post is newer. It does not depend on the present moment, so time changes no order, and what is
-- stored stays right. As a generated column it changes with the counters it is made of, whoever folds them.
ALTER TABLE item
    ADD COLUMN hot bigint NOT NULL GENERATED ALWAYS AS (round((
        sign(vote_micros::float8 + boost_msat) * log(1 + abs(vote_micros::float8 + boost_msat) / 1000000)
        + extract(epoch FROM created_at AT TIME ZONE 'UTC')::float8 / 45000) * 1000000)::bigint) STORED,
    -- Days since 1970-01-01 (UTC): the best of a window are the best of its days.
    ADD COLUMN day int NOT NULL GENERATED ALWAYS AS (floor(extract(epoch FROM created_at AT TIME ZONE 'UTC') / 86400)::int) STORED;

-- One index for each feed (internal/db/feed.sql); item_new_posts is there already. All are read backwards.
CREATE INDEX item_new_in ON item (territory, id) WHERE parent_id IS NULL AND kind <> 'BIO' AND state = 'PAID' AND deleted_at IS NULL;
CREATE INDEX item_hot ON item (hot, id) WHERE parent_id IS NULL AND kind <> 'BIO' AND state = 'PAID' AND deleted_at IS NULL;
CREATE INDEX item_hot_in ON item (territory, hot, id) WHERE parent_id IS NULL AND kind <> 'BIO' AND state = 'PAID' AND deleted_at IS NULL;
CREATE INDEX item_top ON item (vote_micros, id) WHERE parent_id IS NULL AND kind <> 'BIO' AND state = 'PAID' AND deleted_at IS NULL;
CREATE INDEX item_top_in ON item (territory, vote_micros, id) WHERE parent_id IS NULL AND kind <> 'BIO' AND state = 'PAID' AND deleted_at IS NULL;
CREATE INDEX item_top_of_day ON item (day, vote_micros, id) WHERE parent_id IS NULL AND kind <> 'BIO' AND state = 'PAID' AND deleted_at IS NULL;
CREATE INDEX item_top_of_day_in ON item (territory, day, vote_micros, id) WHERE parent_id IS NULL AND kind <> 'BIO' AND state = 'PAID' AND deleted_at IS NULL;

CREATE TYPE item_kind AS ENUM ('POST', 'COMMENT', 'LINK', 'POLL', 'BOUNTY', 'JOB', 'BIO');

ALTER TABLE item
    ADD COLUMN kind           item_kind NOT NULL DEFAULT 'POST',
    ADD COLUMN url            text,         -- of a link
    ADD COLUMN bounty_msat    bigint,       -- promised, not set aside: the owner pays it by zapping
    ADD COLUMN poll_msat      bigint,       -- what a vote costs
    ADD COLUMN poll_closes_at timestamptz,  -- NULL stays open
    ADD COLUMN job_company    text,
    ADD COLUMN job_location   text;
UPDATE item SET kind = 'COMMENT' WHERE parent_id IS NOT NULL;
ALTER TABLE item
    DROP CONSTRAINT post_has_title,
    ADD CONSTRAINT item_has_title CHECK ((kind IN ('COMMENT', 'BIO')) = (title IS NULL)),
    ADD CONSTRAINT comment_has_parent CHECK ((kind = 'COMMENT') = (parent_id IS NOT NULL)),
    ADD CONSTRAINT link_has_url CHECK ((kind = 'LINK') = (url IS NOT NULL) AND char_length(url) <= 2048),
    ADD CONSTRAINT bounty_has_amount CHECK ((kind = 'BOUNTY') = (bounty_msat IS NOT NULL) AND bounty_msat > 0),
    ADD CONSTRAINT poll_has_price CHECK ((kind = 'POLL') = (poll_msat IS NOT NULL) AND poll_msat > 0 AND (kind = 'POLL' OR poll_closes_at IS NULL)),
    ADD CONSTRAINT job_has_company CHECK ((kind = 'JOB') = (job_company IS NOT NULL) AND (kind = 'JOB') = (job_location IS NOT NULL)),
    ADD CONSTRAINT bio_is_its_authors CHECK (kind <> 'BIO' OR (author_id IS NOT NULL AND territory IS NULL));

-- A bio belongs to a profile, not among the posts. Each user has one.
DROP INDEX item_new_posts;
CREATE INDEX item_new_posts ON item (id) WHERE parent_id IS NULL AND kind <> 'BIO' AND state = 'PAID' AND deleted_at IS NULL;
CREATE UNIQUE INDEX item_one_bio ON item (author_id) WHERE kind = 'BIO' AND state <> 'FAILED' AND deleted_at IS NULL;

CREATE TABLE poll_option (
    id       bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    item_id  bigint NOT NULL REFERENCES item (id),
    position smallint NOT NULL CHECK (position BETWEEN 1 AND 10),
    text     text NOT NULL CHECK (char_length(text) BETWEEN 1 AND 140),
    UNIQUE (item_id, position),
    UNIQUE (item_id, text)
);

-- One row per vote; PENDING ones are seen by their voter alone, and who voted for what by nobody else.
-- No foreign keys to item and poll_option, for the reason given at balance_delta.
CREATE TABLE poll_vote (
    action_id bigint PRIMARY KEY REFERENCES paid_action (id),
    item_id   bigint NOT NULL,
    option_id bigint NOT NULL,
    user_id   bigint NOT NULL REFERENCES usr (id),
    state     item_state NOT NULL
);
CREATE UNIQUE INDEX poll_vote_once ON poll_vote (item_id, user_id) WHERE state <> 'FAILED';
CREATE INDEX poll_vote_counted ON poll_vote (option_id) WHERE state = 'PAID';

-- That a bounty is paid, by what and to which comment. The key decides that it happens once (spec 05.19).
CREATE TABLE bounty_payment (
    item_id    bigint PRIMARY KEY REFERENCES item (id),
    action_id  bigint NOT NULL REFERENCES paid_action (id),
    comment_id bigint NOT NULL REFERENCES item (id),
    user_id    bigint NOT NULL REFERENCES usr (id),
    at         timestamptz NOT NULL
);

CREATE TABLE territory (
    name            text PRIMARY KEY CHECK (name ~ '^[a-z0-9_]{1,32}$'),
    founder_id      bigint NOT NULL REFERENCES usr (id),
    base_cost_msat  bigint NOT NULL CHECK (base_cost_msat > 0),
    reply_cost_msat bigint NOT NULL CHECK (reply_cost_msat > 0),
    created_at      timestamptz NOT NULL
);

CREATE TYPE item_state AS ENUM ('PENDING', 'PAID', 'FAILED');

-- Posts and comments. PENDING is seen by its author alone, FAILED too.
CREATE TABLE item (
    id              bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    author_id       bigint REFERENCES usr (id),                   -- NULL is the anonymous author
    action_id       bigint NOT NULL REFERENCES paid_action (id),  -- the attempt that pays for it now
    state           item_state NOT NULL,
    territory       text REFERENCES territory (name),
    parent_id       bigint REFERENCES item (id),
    ancestors       bigint[] NOT NULL,                            -- from the root down to the parent
    title           text CHECK (char_length(title) <= 140),
    body            text NOT NULL CHECK (char_length(body) <= 40000),
    created_at      timestamptz NOT NULL,
    deleted_at      timestamptz,
    -- Folded counters; what came since lies in item_delta.
    msat            bigint NOT NULL DEFAULT 0,
    credit_msat     bigint NOT NULL DEFAULT 0,
    comment_msat    bigint NOT NULL DEFAULT 0,
    upvotes         bigint NOT NULL DEFAULT 0,
    vote_micros     bigint NOT NULL DEFAULT 0,
    comments        bigint NOT NULL DEFAULT 0,
    last_zap_at     timestamptz,
    last_comment_at timestamptz,
    CONSTRAINT post_has_title CHECK ((parent_id IS NULL) = (title IS NOT NULL)),
    CONSTRAINT root_has_no_ancestors CHECK ((parent_id IS NULL) = (cardinality(ancestors) = 0))
) WITH (fillfactor = 80);
CREATE INDEX item_action ON item (action_id);
CREATE INDEX item_author ON item (author_id, created_at);
CREATE INDEX item_parent ON item (parent_id, id) WHERE parent_id IS NOT NULL;
CREATE INDEX item_new_posts ON item (id) WHERE parent_id IS NULL AND state = 'PAID' AND deleted_at IS NULL;

-- The same author, parent, title and text again before until is refused: one statement against this key decides, whoever
-- comes at the same time. A post that failed frees its fingerprint.
CREATE TABLE item_fingerprint (
    fingerprint bytea PRIMARY KEY CHECK (octet_length(fingerprint) = 32),
    item_id     bigint NOT NULL REFERENCES item (id),
    until       timestamptz NOT NULL
);
CREATE INDEX item_fingerprint_item ON item_fingerprint (item_id);

-- Who else gets a share of an item's zaps: at most five people, at most 100 % together.
CREATE TABLE item_forward (
    item_id bigint NOT NULL REFERENCES item (id),
    user_id bigint NOT NULL REFERENCES usr (id),
    pct     smallint NOT NULL CHECK (pct BETWEEN 1 AND 100),
    PRIMARY KEY (item_id, user_id)
);
CREATE TABLE item_mention (
    item_id bigint NOT NULL REFERENCES item (id),
    user_id bigint NOT NULL REFERENCES usr (id),
    PRIMARY KEY (item_id, user_id)
);
-- Who is told of replies below an item.
CREATE TABLE item_subscription (
    item_id bigint NOT NULL REFERENCES item (id),
    user_id bigint NOT NULL REFERENCES usr (id),
    PRIMARY KEY (item_id, user_id)
);

-- Counters of an item not yet folded into its row: a popular item and its ancestors are never a row that payments wait for.
-- No foreign key to item, for the reason given at balance_delta.
CREATE TABLE item_delta (
    id              bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    item_id         bigint NOT NULL,
    msat            bigint NOT NULL DEFAULT 0,
    credit_msat     bigint NOT NULL DEFAULT 0,
    comment_msat    bigint NOT NULL DEFAULT 0,
    upvotes         bigint NOT NULL DEFAULT 0,
    vote_micros     bigint NOT NULL DEFAULT 0,
    comments        bigint NOT NULL DEFAULT 0,
    last_zap_at     timestamptz,
    last_comment_at timestamptz
);
CREATE INDEX item_delta_item ON item_delta (item_id);

-- One row per zap attempt; PENDING ones are seen by their payer alone.
CREATE TABLE zap (
    action_id bigint PRIMARY KEY REFERENCES paid_action (id),
    item_id   bigint NOT NULL,
    user_id   bigint REFERENCES usr (id),
    msat      bigint NOT NULL CHECK (msat > 0),
    state     item_state NOT NULL
);
CREATE INDEX zap_item ON zap (item_id, action_id);
CREATE INDEX zap_user ON zap (user_id, action_id) WHERE user_id IS NOT NULL;

-- What one user has zapped one item with in total, paid only: the base of the weighted vote.
CREATE TABLE zap_total (
    item_id bigint NOT NULL,
    user_id bigint NOT NULL REFERENCES usr (id),
    msat    bigint NOT NULL CHECK (msat > 0),
    PRIMARY KEY (item_id, user_id)
) WITH (fillfactor = 80);

CREATE TABLE donation (
    action_id bigint PRIMARY KEY REFERENCES paid_action (id),
    user_id   bigint REFERENCES usr (id),
    msat      bigint NOT NULL CHECK (msat > 0),
    state     item_state NOT NULL
);

-- What people are told. Written by a job after the payment: a notification never delays or fails one. The unique key
-- makes that job repeatable.
CREATE TABLE notification (
    id         bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    user_id    bigint NOT NULL REFERENCES usr (id),
    kind       text NOT NULL,
    action_id  bigint NOT NULL REFERENCES paid_action (id),
    item_id    bigint,
    created_at timestamptz NOT NULL,
    UNIQUE (action_id, user_id, kind)
);
CREATE INDEX notification_user ON notification (user_id, id);

-- Files that people have sent. These rows are read often and are short; what is in the files lies beside them.
CREATE TABLE upload (
    id           bigint PRIMARY KEY CHECK (id > 0),             -- drawn at random: to know it is all that proves whose an anonymous upload is
    token        text NOT NULL UNIQUE CHECK (token ~ '^[A-Za-z0-9_-]{22}$'), -- in its URL: 128 random bits
    owner_id     bigint REFERENCES usr (id),                    -- NULL is the anonymous
    client_hash  bytea,                                         -- of an anonymous owner's address, to bound what they leave lying
    bytes        bigint NOT NULL CHECK (bytes > 0),
    content_type text NOT NULL,
    fee_msat     bigint NOT NULL CHECK (fee_msat >= 0),         -- fixed when it was sent
    item_id      bigint REFERENCES item (id),                   -- that carries it, one at most; NULL while it is unclaimed
    action_id    bigint REFERENCES paid_action (id),            -- the attempt that pays for it
    paid_at      timestamptz,                                   -- from here on everybody sees it
    created_at   timestamptz NOT NULL,
    unclaimed_at timestamptz NOT NULL,                          -- since when no item carries it, while none does
    CONSTRAINT upload_owned CHECK ((owner_id IS NULL) = (client_hash IS NOT NULL)),
    CONSTRAINT upload_claimed_by_action CHECK ((item_id IS NULL) = (action_id IS NULL)),
    CONSTRAINT upload_paid_is_claimed CHECK (paid_at IS NULL OR item_id IS NOT NULL)
);
CREATE INDEX upload_owner ON upload (owner_id, created_at) WHERE owner_id IS NOT NULL;
CREATE INDEX upload_unclaimed ON upload (unclaimed_at) WHERE item_id IS NULL;
CREATE INDEX upload_unpaid_owner ON upload (owner_id) WHERE paid_at IS NULL AND owner_id IS NOT NULL;
CREATE INDEX upload_unpaid_client ON upload (client_hash) WHERE paid_at IS NULL AND client_hash IS NOT NULL;
CREATE INDEX upload_item ON upload (item_id) WHERE item_id IS NOT NULL;
CREATE INDEX upload_action ON upload (action_id) WHERE action_id IS NOT NULL;

-- The bytes are written first, and the owner's row is locked for the short rest alone: so the reference is looked at in the end.
CREATE TABLE upload_data (
    upload_id bigint PRIMARY KEY REFERENCES upload (id) ON DELETE CASCADE DEFERRABLE INITIALLY DEFERRED,
    data      bytea NOT NULL
);
-- Images are compressed already; and of what is not, a part can be read without the whole.
ALTER TABLE upload_data ALTER COLUMN data SET STORAGE EXTERNAL;

-- A change to an item that is not paid yet: what the item will say, whole. Its author alone sees it. It goes when it was taken over
-- or came to nothing.
CREATE TABLE item_edit (
    action_id  bigint PRIMARY KEY REFERENCES paid_action (id),
    item_id    bigint NOT NULL REFERENCES item (id),
    title      text CHECK (char_length(title) <= 140),
    body       text NOT NULL CHECK (char_length(body) <= 40000),
    url        text CHECK (char_length(url) <= 2048),
    created_at timestamptz NOT NULL
);
CREATE INDEX item_edit_item ON item_edit (item_id);

ALTER TABLE item ADD COLUMN edited_at timestamptz;

-- Nobody is told twice that an item mentions them, however often it is changed.
CREATE UNIQUE INDEX notification_mention ON notification (item_id, user_id) WHERE kind = 'MENTION';

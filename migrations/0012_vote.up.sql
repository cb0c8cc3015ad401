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

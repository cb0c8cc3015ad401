-- What each payment changed of an item's weighted vote, in millionths: the days' rewards go by it.
CREATE TABLE vote_event (
    action_id bigint PRIMARY KEY,
    item_id   bigint,
    author_id bigint,
    micros    bigint,
    at        timestamptz
);
CREATE INDEX vote_event_at ON vote_event (at);

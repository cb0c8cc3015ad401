-- The rewards of a day (of UTC): paid once, since a day is a key, and all of the pool or nothing of it.
CREATE TABLE reward_day (
    day               date PRIMARY KEY,
    pool_credits_msat bigint NOT NULL CHECK (pool_credits_msat >= 0), -- what the day left in the pool
    pool_sats_msat    bigint NOT NULL CHECK (pool_sats_msat >= 0),
    paid_credits_msat bigint NOT NULL,
    paid_sats_msat    bigint NOT NULL,
    paid_at           timestamptz NOT NULL,
    CONSTRAINT all_or_nothing CHECK (paid_credits_msat IN (0, pool_credits_msat) AND paid_sats_msat IN (0, pool_sats_msat))
);
CREATE TABLE reward (
    day          date NOT NULL REFERENCES reward_day (day),
    user_id      bigint NOT NULL REFERENCES usr (id),
    rank         bigint NOT NULL CHECK (rank >= 1),
    micros       bigint NOT NULL CHECK (micros > 0),       -- the weighted votes of the day for what they wrote
    credits_msat bigint NOT NULL CHECK (credits_msat >= 0),
    sats_msat    bigint NOT NULL CHECK (sats_msat >= 0),
    PRIMARY KEY (day, user_id),
    UNIQUE (day, rank),
    CONSTRAINT reward_is_something CHECK (credits_msat > 0 OR sats_msat > 0)
);
CREATE TRIGGER reward_day_append_only BEFORE UPDATE OR DELETE ON reward_day FOR EACH ROW EXECUTE FUNCTION refuse_posting_change();
CREATE TRIGGER reward_append_only BEFORE UPDATE OR DELETE ON reward FOR EACH ROW EXECUTE FUNCTION refuse_posting_change();
-- What has come into the pool since a day ended.
CREATE INDEX posting_to_rewards ON posting (to_account, at) WHERE to_account IN (3, 4);

-- What people are told of a day belongs to no action.
ALTER TABLE notification ALTER COLUMN action_id DROP NOT NULL;
ALTER TABLE notification ADD COLUMN day date;
CREATE UNIQUE INDEX notification_of_day ON notification (user_id, kind, day) WHERE day IS NOT NULL;

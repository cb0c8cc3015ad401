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

-- Who has the code may redeem it: as many newcomers as the limit says, each once, each the first and only time.
CREATE TABLE invite (
    code       text PRIMARY KEY CHECK (octet_length(code) BETWEEN 16 AND 64),
    inviter_id bigint NOT NULL REFERENCES usr (id),
    gift_msat  bigint NOT NULL CHECK (gift_msat > 0),   -- of credits, for each
    uses_limit bigint NOT NULL CHECK (uses_limit > 0),
    used       bigint NOT NULL DEFAULT 0,
    created_at timestamptz NOT NULL,
    revoked_at timestamptz,
    id         bigint NOT NULL GENERATED ALWAYS AS IDENTITY,
    CONSTRAINT used_within_limit CHECK (used BETWEEN 0 AND uses_limit)
);
CREATE INDEX invite_inviter ON invite (inviter_id, id);
CREATE INDEX invite_open ON invite (inviter_id) WHERE revoked_at IS NULL AND used < uses_limit;
CREATE TABLE invite_redemption (
    user_id   bigint PRIMARY KEY REFERENCES usr (id),
    code      text NOT NULL REFERENCES invite (code),
    action_id bigint NOT NULL UNIQUE REFERENCES paid_action (id),
    at        timestamptz NOT NULL
);
CREATE INDEX invite_redemption_code ON invite_redemption (code);

-- What somebody wants otherwise than it is.
CREATE TABLE user_preference (
    user_id                  bigint PRIMARY KEY REFERENCES usr (id),
    drop_invoices_after_days integer CHECK (drop_invoices_after_days > 0), -- NULL: they are kept
    dropped_to               bigint NOT NULL DEFAULT 0,                    -- of the actions up to this one they are dropped
    due_at                   timestamptz NOT NULL                          -- when to look for more
);
CREATE INDEX user_preference_due ON user_preference (due_at, user_id) WHERE drop_invoices_after_days IS NOT NULL;
-- That an invoice was issued stays known when its text is dropped.
ALTER TABLE invoice ADD COLUMN dropped_at timestamptz,
    ADD CONSTRAINT dropped_has_no_text CHECK (dropped_at IS NULL OR bolt11 IS NULL);

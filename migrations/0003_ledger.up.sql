-- People. A user's balances are accounts of the ledger, never columns here.
CREATE TABLE usr (
    id         bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    name       text NOT NULL UNIQUE CHECK (name ~ '^[a-z0-9_]{1,32}$'),
    -- How much a person's vote weighs, in millionths. Integers, so that sums do not depend on the order of votes.
    trust_micros bigint NOT NULL DEFAULT 1000000 CHECK (trust_micros >= 0),
    created_at timestamptz NOT NULL
);

CREATE TABLE api_key (
    id         bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    user_id    bigint NOT NULL REFERENCES usr (id),
    -- SHA-256 of the key. A key is 32 random bytes, so a fast hash gives nothing away.
    key_hash   bytea NOT NULL UNIQUE CHECK (octet_length(key_hash) = 32),
    created_at timestamptz NOT NULL,
    revoked_at timestamptz
);
CREATE INDEX api_key_user ON api_key (user_id);

-- An account belongs to a user, or to the system (owner 0). Its number says whose it is and what it holds, so that nobody
-- looks one up before posting: id = owner × 16 + kind; an even kind holds sats, an odd one credits.
CREATE TABLE account (
    id      bigint PRIMARY KEY CHECK (id >= 0 AND (id < 16 OR id % 16 IN (0, 1))),
    -- Folded balance in msat. What was received and not yet folded in lies in balance_delta; the two together are the balance.
    balance bigint NOT NULL DEFAULT 0,
    -- A user never owes. Deltas of users are only ever positive, so the true balance is never below this one.
    CONSTRAINT user_balance_not_negative CHECK (id < 16 OR balance >= 0)
) WITH (fillfactor = 80);

CREATE FUNCTION open_user_accounts() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    INSERT INTO account (id) VALUES (NEW.id * 16), (NEW.id * 16 + 1);
    RETURN NULL;
END $$;
CREATE TRIGGER open_user_accounts AFTER INSERT ON usr FOR EACH ROW EXECUTE FUNCTION open_user_accounts();

-- The system's accounts; the names are in ledger/account.go.
INSERT INTO account (id) SELECT generate_series(0, 15);

-- Money received and not yet folded into account.balance. Receiving appends here instead of updating the account, so that
-- a popular author, the rewards pool and the node's account never become a row that every payment waits for.
-- There is no foreign key to account on purpose: it would take a share lock on that one row for every payment.
CREATE TABLE balance_delta (
    id         bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    account_id bigint NOT NULL,
    msat       bigint NOT NULL,
    CONSTRAINT user_delta_positive CHECK (account_id < 16 OR msat > 0)
);
CREATE INDEX balance_delta_account ON balance_delta (account_id);

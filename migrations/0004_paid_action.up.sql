-- The names are part of the public contract (spec 01 §1.1). paidaction/machine.go is the table they come from; tests hold
-- the two against each other.
CREATE TYPE action_state AS ENUM (
    'PENDING', 'PENDING_HELD', 'HELD', 'FORWARDING', 'FORWARDED', 'FAILED_FORWARD', 'CANCELING', 'PAID', 'FAILED', 'RETRYING');
CREATE TYPE action_flow AS ENUM ('BALANCE', 'OPTIMISTIC', 'PESSIMISTIC', 'WRAPPED', 'OUTGOING');
CREATE TYPE payment_method AS ENUM (
    'ZERO_COST', 'P2P', 'FEE_CREDIT', 'REWARD_SATS', 'OPTIMISTIC', 'PESSIMISTIC', 'OUTGOING');

-- Every step an action may take; '' is the beginning. Anything else is a bug, and is refused here whatever the code does.
CREATE FUNCTION action_step_allowed(flow action_flow, from_state text, to_state text) RETURNS boolean
LANGUAGE sql IMMUTABLE PARALLEL SAFE AS $$
    SELECT CASE flow
    WHEN 'BALANCE' THEN (from_state, to_state) IN (('', 'PAID'))
    WHEN 'OPTIMISTIC' THEN (from_state, to_state) IN (
        ('', 'PENDING'), ('PENDING', 'PAID'), ('PENDING', 'CANCELING'), ('PENDING', 'FAILED'),
        ('CANCELING', 'FAILED'), ('CANCELING', 'PAID'), ('FAILED', 'RETRYING'))
    WHEN 'PESSIMISTIC' THEN (from_state, to_state) IN (
        ('', 'PENDING_HELD'), ('PENDING_HELD', 'HELD'), ('PENDING_HELD', 'CANCELING'), ('PENDING_HELD', 'FAILED'),
        ('HELD', 'PAID'), ('HELD', 'CANCELING'), ('HELD', 'FAILED'), ('CANCELING', 'FAILED'), ('FAILED', 'RETRYING'))
    WHEN 'WRAPPED' THEN (from_state, to_state) IN (
        ('', 'PENDING_HELD'), ('PENDING_HELD', 'FORWARDING'), ('PENDING_HELD', 'CANCELING'), ('PENDING_HELD', 'FAILED'),
        ('FORWARDING', 'FORWARDED'), ('FORWARDING', 'FAILED_FORWARD'), ('FORWARDED', 'PAID'),
        ('FAILED_FORWARD', 'CANCELING'), ('FAILED_FORWARD', 'FAILED'), ('CANCELING', 'FAILED'), ('FAILED', 'RETRYING'))
    WHEN 'OUTGOING' THEN (from_state, to_state) IN (
        ('', 'FORWARDING'), ('FORWARDING', 'FORWARDED'), ('FORWARDING', 'FAILED_FORWARD'),
        ('FORWARDED', 'PAID'), ('FAILED_FORWARD', 'FAILED'))
    END
$$;

CREATE TABLE paid_action (
    id              bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    kind            text NOT NULL,
    flow            action_flow NOT NULL,
    method          payment_method NOT NULL,
    state           action_state NOT NULL,
    attempt         smallint NOT NULL DEFAULT 1 CHECK (attempt >= 1),
    payer_id        bigint REFERENCES usr (id),                   -- NULL is the anonymous payer
    cost_msat       bigint NOT NULL CHECK (cost_msat >= 0),
    created_at      timestamptz NOT NULL,
    changed_at      timestamptz NOT NULL,
    deadline        timestamptz,                                  -- until when the one who moves next has to move
    deadline_height integer,                                      -- the HTLC safety height (spec 01 §1.5)
    genesis_id      bigint REFERENCES paid_action (id),           -- the first attempt; NULL in that one
    successor_id    bigint UNIQUE REFERENCES paid_action (id),    -- unique: of two concurrent retries one wins
    settle_permitted_at timestamptz,                              -- from here on HELD may not be cancelled any more
    args            jsonb NOT NULL,
    result          jsonb,                                        -- set exactly when perform has run
    idempotency_key text CHECK (octet_length(idempotency_key) BETWEEN 1 AND 255),
    args_hash       bytea,
    failure_code    text,
    failure_message text,
    CONSTRAINT open_has_deadline CHECK (state IN ('PAID', 'FAILED', 'RETRYING') OR deadline IS NOT NULL),
    CONSTRAINT paid_was_performed CHECK (state <> 'PAID' OR flow IN ('BALANCE', 'OUTGOING') OR result IS NOT NULL),
    CONSTRAINT failed_has_reason CHECK (state NOT IN ('FAILED', 'RETRYING') OR failure_code IS NOT NULL),
    CONSTRAINT retried_has_successor CHECK ((state = 'RETRYING') = (successor_id IS NOT NULL)),
    CONSTRAINT key_has_hash CHECK ((idempotency_key IS NULL) = (args_hash IS NULL))
);
-- One key, one action (spec 01 §1.8.8). Known payers each have keys of their own; the anonymous share one space.
CREATE UNIQUE INDEX paid_action_key ON paid_action (payer_id, idempotency_key)
    WHERE payer_id IS NOT NULL AND idempotency_key IS NOT NULL;
CREATE UNIQUE INDEX paid_action_anonymous_key ON paid_action (idempotency_key)
    WHERE payer_id IS NULL AND idempotency_key IS NOT NULL;
CREATE INDEX paid_action_payer ON paid_action (payer_id, id);
CREATE INDEX paid_action_genesis ON paid_action (genesis_id) WHERE genesis_id IS NOT NULL;
-- What is open: small whatever the history holds. Sweeps, deadlines and limits read these.
CREATE INDEX paid_action_open ON paid_action (deadline, id) WHERE state NOT IN ('PAID', 'FAILED', 'RETRYING');
CREATE INDEX paid_action_open_height ON paid_action (deadline_height)
    WHERE state NOT IN ('PAID', 'FAILED', 'RETRYING') AND deadline_height IS NOT NULL;
CREATE INDEX paid_action_open_payer ON paid_action (payer_id) WHERE state IN ('PENDING', 'PENDING_HELD');

CREATE FUNCTION refuse_action_step() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    IF TG_OP = 'INSERT' THEN
        RAISE EXCEPTION 'paid_action: % cannot begin in %', NEW.flow, NEW.state USING ERRCODE = 'HF001';
    ELSIF TG_OP = 'UPDATE' THEN
        RAISE EXCEPTION 'paid_action %: % cannot go from % to %', OLD.id, OLD.flow, OLD.state, NEW.state USING ERRCODE = 'HF001';
    END IF;
    RAISE EXCEPTION 'paid_action: rows are never deleted' USING ERRCODE = 'HF001';
END $$;
-- The condition is looked at without a call into PL/pgSQL: the allowed way costs next to nothing.
CREATE TRIGGER refuse_beginning BEFORE INSERT ON paid_action FOR EACH ROW
    WHEN (NOT action_step_allowed(NEW.flow, '', NEW.state::text)) EXECUTE FUNCTION refuse_action_step();
CREATE TRIGGER refuse_step BEFORE UPDATE ON paid_action FOR EACH ROW
    WHEN (OLD.flow <> NEW.flow OR OLD.payer_id IS DISTINCT FROM NEW.payer_id OR OLD.cost_msat <> NEW.cost_msat
        OR OLD.kind <> NEW.kind OR OLD.method <> NEW.method
        OR (OLD.state <> NEW.state AND NOT action_step_allowed(OLD.flow, OLD.state::text, NEW.state::text)))
    EXECUTE FUNCTION refuse_action_step();
CREATE TRIGGER refuse_delete BEFORE DELETE ON paid_action FOR EACH ROW EXECUTE FUNCTION refuse_action_step();

-- Every step that was taken, in order. from_state is NULL for the beginning.
CREATE TABLE action_history (
    id         bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    action_id  bigint NOT NULL REFERENCES paid_action (id),
    from_state action_state,
    to_state   action_state NOT NULL,
    fact       text NOT NULL,
    at         timestamptz NOT NULL
);
CREATE INDEX action_history_action ON action_history (action_id);

CREATE TABLE invoice (
    action_id     bigint PRIMARY KEY REFERENCES paid_action (id),
    node          text NOT NULL,                                  -- the node that issued it; asked and told by that name
    payment_hash  bytea NOT NULL UNIQUE CHECK (octet_length(payment_hash) = 32),
    preimage      bytea CHECK (octet_length(preimage) = 32),      -- NULL while only the receiver of a wrapped invoice knows it
    hold          boolean NOT NULL,
    amount_msat   bigint NOT NULL CHECK (amount_msat > 0),
    memo          text NOT NULL,
    cltv_delta    integer NOT NULL CHECK (cltv_delta > 0),
    expires_at    timestamptz NOT NULL,
    client_hash   bytea,                                          -- of an anonymous payer's address, to bound their open invoices
    bolt11        text,                                           -- NULL until the node has issued it
    received_msat bigint CHECK (received_msat > 0)                -- what arrived; may be more than amount_msat
);

-- One posting is one transfer from an account to another, so the ledger is balanced by construction. Both accounts hold
-- the same asset (the lowest bit of the number). Rows are appended, never changed.
CREATE TABLE posting (
    id           bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    action_id    bigint REFERENCES paid_action (id),
    from_account bigint NOT NULL,
    to_account   bigint NOT NULL CHECK (to_account <> from_account),
    msat         bigint NOT NULL CHECK (msat > 0),
    reason       text NOT NULL,
    at           timestamptz NOT NULL,
    CONSTRAINT one_asset CHECK ((from_account & 1) = (to_account & 1))
);
CREATE INDEX posting_action ON posting (action_id);
CREATE INDEX posting_from ON posting (from_account, id);
CREATE INDEX posting_to ON posting (to_account, id);

CREATE FUNCTION refuse_posting_change() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    RAISE EXCEPTION '%: rows are appended, never changed', TG_TABLE_NAME USING ERRCODE = 'HF002';
END $$;
CREATE TRIGGER posting_append_only BEFORE UPDATE OR DELETE ON posting FOR EACH ROW EXECUTE FUNCTION refuse_posting_change();
CREATE TRIGGER history_append_only BEFORE UPDATE OR DELETE ON action_history
    FOR EACH ROW EXECUTE FUNCTION refuse_posting_change();

-- How far each node's stream of invoices has been worked off, without a gap (spec 01 §1.6).
CREATE TABLE node_cursor (
    node         text PRIMARY KEY,
    add_index    bigint NOT NULL DEFAULT 0,
    settle_index bigint NOT NULL DEFAULT 0,
    height       integer NOT NULL DEFAULT 0
);

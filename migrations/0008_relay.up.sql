-- Where an outgoing payment is (spec 04 §4.3). relay/ moves the first two stages, paidaction/ the others together with the
-- action's state.
CREATE TYPE relay_stage AS ENUM ('incoming', 'in_work', 'pending_confirmation', 'completed', 'failed');

-- A hash whose preimage is somebody else's is used in one way for ever. Wrapped once: a second outer invoice with it could be
-- settled with the preimage of the first. Withdrawn: an outer invoice with it would be paid with our own money.
CREATE TABLE foreign_hash (
    payment_hash bytea PRIMARY KEY CHECK (octet_length(payment_hash) = 32),
    used         text NOT NULL CHECK (used IN ('WRAPPED', 'WITHDRAWN'))
);

-- The receiver's invoice inside of one of ours.
CREATE TABLE inner_invoice (
    action_id   bigint PRIMARY KEY REFERENCES invoice (action_id),
    receiver_id bigint NOT NULL REFERENCES usr (id),
    wallet_id   bigint NOT NULL,
    bolt11      text NOT NULL,                                -- never shown to the payer
    amount_msat bigint NOT NULL CHECK (amount_msat > 0),
    budget_msat bigint NOT NULL CHECK (budget_msat >= 0),     -- for routing fees at most
    final_cltv  integer NOT NULL CHECK (final_cltv >= 0),
    expires_at  timestamptz NOT NULL
);
CREATE INDEX inner_invoice_wallet ON inner_invoice (wallet_id);

CREATE TABLE relay_payment (
    id              bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    action_id       bigint NOT NULL UNIQUE REFERENCES paid_action (id),
    stage           relay_stage NOT NULL DEFAULT 'incoming',
    payment_hash    bytea NOT NULL CHECK (octet_length(payment_hash) = 32),
    bolt11          text NOT NULL,
    receiver_id     bigint REFERENCES usr (id),               -- of a forward; NULL: a withdrawal
    wallet_id       bigint,
    inside_id       bigint UNIQUE REFERENCES paid_action (id), -- the action whose own invoice is paid by a withdrawal: nothing is sent
    amount_msat     bigint NOT NULL CHECK (amount_msat > 0),
    budget_msat     bigint NOT NULL CHECK (budget_msat >= 0),
    final_cltv      integer NOT NULL CHECK (final_cltv >= 0),
    expires_at      timestamptz NOT NULL,                     -- of the bolt11: no node sends it after that
    node            text,                                     -- the one it was given to, or has to be given to again
    attempts        integer NOT NULL DEFAULT 0,
    requeued_at     timestamptz,                              -- by an operator: what nodes refused before counts no more
    not_before      timestamptz,                              -- after a send that came to nothing: others first
    preimage        bytea CHECK (octet_length(preimage) = 32),
    fee_msat        bigint CHECK (fee_msat >= 0),             -- what it really cost; set when it was booked
    failure_code    text,
    failure_message text,
    created_at      timestamptz NOT NULL,
    changed_at      timestamptz NOT NULL,
    CONSTRAINT forward_has_wallet CHECK ((receiver_id IS NULL) = (wallet_id IS NULL)),
    CONSTRAINT work_has_node CHECK (stage <> 'in_work' OR node IS NOT NULL),
    CONSTRAINT paid_has_preimage CHECK ((stage IN ('pending_confirmation', 'completed')) = (preimage IS NOT NULL)),
    CONSTRAINT completed_has_fee CHECK ((stage = 'completed') = (fee_msat IS NOT NULL)),
    CONSTRAINT failed_has_reason CHECK (stage <> 'failed' OR failure_code IS NOT NULL)
);
-- At most one payment of a hash under way or made, over all nodes, for ever (spec 01 §1.8.4).
CREATE UNIQUE INDEX relay_payment_hash ON relay_payment (payment_hash) WHERE stage <> 'failed';
CREATE INDEX relay_payment_incoming ON relay_payment (expires_at, id) WHERE stage = 'incoming';
CREATE INDEX relay_payment_open ON relay_payment (node, id) WHERE stage IN ('in_work', 'pending_confirmation');
CREATE INDEX relay_payment_receiver ON relay_payment (receiver_id) WHERE stage IN ('incoming', 'in_work', 'pending_confirmation');
CREATE INDEX relay_payment_any_hash ON relay_payment (payment_hash);
CREATE INDEX relay_payment_stage ON relay_payment (stage, id);

-- A claim: the promise to call SendPaymentV2 once, on this node, before send_until. Committed before the call.
CREATE TABLE relay_attempt (
    id         bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    payment_id bigint NOT NULL REFERENCES relay_payment (id),
    node       text NOT NULL,
    node_key   text NOT NULL,                                 -- its public key: another one under the same name knows nothing
    fence      bigint NOT NULL,                               -- of the lease on the node
    claimed_at timestamptz NOT NULL,
    send_until timestamptz NOT NULL,
    earlier    bigint,                                        -- the number of a failed payment of this hash that the node showed before the send
    seen       boolean NOT NULL DEFAULT false,                -- the node has shown the payment: "not found" is a loss of data from then on
    outcome    text CHECK (outcome IN ('PAID', 'FAILED', 'NOT_SENT')),
    reason     text,
    ended_at   timestamptz,
    CONSTRAINT ended_has_outcome CHECK ((outcome IS NULL) = (ended_at IS NULL))
);
CREATE INDEX relay_attempt_payment ON relay_attempt (payment_id, id);
-- Nobody claims what is claimed.
CREATE UNIQUE INDEX relay_attempt_open ON relay_attempt (payment_id) WHERE outcome IS NULL;

-- A territory is paid for by the period. Those that were there before count as paid once and for all.
CREATE TYPE territory_state AS ENUM ('PENDING', 'ACTIVE', 'GRACE', 'STOPPED');
CREATE TYPE territory_billing AS ENUM ('MONTHLY', 'YEARLY', 'ONCE');

ALTER TABLE territory
    ADD COLUMN state          territory_state NOT NULL DEFAULT 'ACTIVE',
    ADD COLUMN billing        territory_billing NOT NULL DEFAULT 'ONCE', -- of the next period
    ADD COLUMN auto_renew     boolean NOT NULL DEFAULT false,
    ADD COLUMN description    text NOT NULL DEFAULT '',
    ADD COLUMN period_start   timestamptz,                         -- of the period that was paid for last; NULL while none was
    ADD COLUMN paid_until     timestamptz,                         -- its end; NULL is none
    ADD COLUMN paid_msat      bigint NOT NULL DEFAULT 0,           -- what was paid for it
    ADD COLUMN grace_until    timestamptz,                         -- then it is stopped
    ADD COLUMN bill_at        timestamptz,                         -- when the server looks at it next
    ADD COLUMN pending_action bigint REFERENCES paid_action (id),  -- a payment that is held: until it has ended no other one may be
    ADD CONSTRAINT territory_description_length CHECK (char_length(description) <= 1000),
    ADD CONSTRAINT territory_paid_msat CHECK (paid_msat >= 0),
    ADD CONSTRAINT territory_pending CHECK (state <> 'PENDING' OR pending_action IS NOT NULL),
    ADD CONSTRAINT territory_once CHECK (state = 'PENDING' OR (billing = 'ONCE') = (paid_until IS NULL)),
    ADD CONSTRAINT territory_period CHECK (paid_until IS NULL OR (period_start IS NOT NULL AND paid_until > period_start)),
    ADD CONSTRAINT territory_grace CHECK ((state = 'GRACE') = (grace_until IS NOT NULL)),
    ADD CONSTRAINT territory_bill CHECK ((state IN ('ACTIVE', 'GRACE') AND paid_until IS NOT NULL) = (bill_at IS NOT NULL));
-- What is due: small however many territories there are.
CREATE INDEX territory_due ON territory (bill_at, name) WHERE bill_at IS NOT NULL;
-- A territory that came to nothing is deleted, and PostgreSQL looks whether an item lies in it.
CREATE INDEX item_territory ON item (territory, id) WHERE territory IS NOT NULL;

-- Who took a stopped territory over from whom; who revived their own as well.
CREATE TABLE territory_transfer (
    id        bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    territory text NOT NULL REFERENCES territory (name),
    from_user bigint NOT NULL REFERENCES usr (id),
    to_user   bigint NOT NULL REFERENCES usr (id),
    action_id bigint NOT NULL UNIQUE REFERENCES paid_action (id),
    at        timestamptz NOT NULL
);
CREATE INDEX territory_transfer_territory ON territory_transfer (territory, id);

-- People are also told of what no action of anybody's has caused: it is written in the transaction that causes it, once.
ALTER TABLE notification
    ALTER COLUMN action_id DROP NOT NULL,
    ADD COLUMN territory text;

-- The history and the postings, the two that only grow, in partitions by ranges of actions: the rows of a range can be taken away as a whole
-- (holdfast archive), and of each action either all rows are here or none.

-- What is taken away stays here as plain tables, until whoever runs the service has dumped and dropped them.
CREATE SCHEMA archive;

-- The ranges there are. What belongs to the actions from first_action to last_action is in action_history_<first_action> and
-- posting_<first_action>. Ranges abut, and those that are archived come before all others: one number says what is archived.
CREATE TABLE action_range (
    first_action bigint PRIMARY KEY,
    last_action  bigint NOT NULL,
    archived_at  timestamptz,                     -- NULL: its tables are partitions; else they are in the schema archive, or dropped
    steps        bigint,                          -- how many rows there were
    postings     bigint,
    CONSTRAINT range_is_one CHECK (last_action >= first_action),
    CONSTRAINT archived_is_counted CHECK ((archived_at IS NULL) = (steps IS NULL) AND (archived_at IS NULL) = (postings IS NULL))
);

-- What the postings of an archived range came to. These sums and the postings that are left are the balances.
CREATE TABLE archived_balance (
    first_action bigint NOT NULL REFERENCES action_range (first_action),
    account_id   bigint NOT NULL,
    msat         bigint NOT NULL,
    PRIMARY KEY (first_action, account_id)
);
CREATE TRIGGER archived_append_only BEFORE UPDATE OR DELETE ON archived_balance FOR EACH ROW EXECUTE FUNCTION refuse_posting_change();

-- What is still asked of an archived action: what it lost us, and whether its payer's payment was lost after its receiver had been paid.
CREATE TABLE archived_loss (
    action_id bigint PRIMARY KEY REFERENCES paid_action (id),
    msat      bigint NOT NULL CHECK (msat >= 0),
    incoming  boolean NOT NULL
);
CREATE TRIGGER archived_append_only BEFORE UPDATE OR DELETE ON archived_loss FOR EACH ROW EXECUTE FUNCTION refuse_posting_change();

-- A message knows the action of its step, by which the step is found in its partition. It had a foreign key to the step, which would need a
-- unique index over all partitions. Nothing is lost with it: the statement that writes a message has the step from the same statement, or reads it;
-- steps are never deleted; and no range is archived while there is a message of one of its steps.
ALTER TABLE webhook_message DROP CONSTRAINT webhook_message_step_id_fkey;
ALTER TABLE webhook_message ADD COLUMN action_id bigint;
UPDATE webhook_message SET action_id = h.action_id FROM action_history h WHERE h.id = webhook_message.step_id;
ALTER TABLE webhook_message ADD CONSTRAINT step_has_action CHECK ((step_id IS NULL) = (action_id IS NULL));

-- The tables as they were become the partitions of the first range. Their keys stay theirs: a key over all partitions would have to contain the
-- action. An id comes from the one sequence of all partitions.
ALTER TABLE action_history RENAME TO action_history_1;
ALTER TABLE posting RENAME TO posting_1;
ALTER INDEX action_history_pkey RENAME TO action_history_1_pkey;
ALTER INDEX action_history_action RENAME TO action_history_1_action;
ALTER INDEX posting_pkey RENAME TO posting_1_pkey;
ALTER INDEX posting_action RENAME TO posting_1_action;
ALTER INDEX posting_from RENAME TO posting_1_from;
ALTER INDEX posting_to RENAME TO posting_1_to;
ALTER INDEX posting_to_rewards RENAME TO posting_1_to_rewards;
DROP TRIGGER history_append_only ON action_history_1;
DROP TRIGGER posting_append_only ON posting_1;
ALTER TABLE action_history_1 ALTER COLUMN id DROP IDENTITY;
ALTER TABLE posting_1 ALTER COLUMN id DROP IDENTITY;

CREATE TABLE action_history (LIKE action_history_1 INCLUDING CONSTRAINTS) PARTITION BY RANGE (action_id);
CREATE TABLE posting (LIKE posting_1 INCLUDING CONSTRAINTS) PARTITION BY RANGE (action_id);
ALTER TABLE action_history ALTER COLUMN id ADD GENERATED ALWAYS AS IDENTITY;
ALTER TABLE posting ALTER COLUMN id ADD GENERATED ALWAYS AS IDENTITY;
SELECT setval(pg_get_serial_sequence('action_history', 'id'), (SELECT coalesce(max(id), 0) + 1 FROM action_history_1), false),
    setval(pg_get_serial_sequence('posting', 'id'), (SELECT coalesce(max(id), 0) + 1 FROM posting_1), false);
ALTER TABLE action_history ADD CONSTRAINT action_history_action_id_fkey FOREIGN KEY (action_id) REFERENCES paid_action (id);
ALTER TABLE posting ADD CONSTRAINT posting_action_id_fkey FOREIGN KEY (action_id) REFERENCES paid_action (id);
CREATE INDEX action_history_action ON action_history (action_id);
CREATE INDEX posting_action ON posting (action_id);
CREATE INDEX posting_from ON posting (from_account, id);
CREATE INDEX posting_to ON posting (to_account, id);
CREATE INDEX posting_to_rewards ON posting (to_account, at) WHERE to_account IN (3, 4);

-- The rest: postings of no action, which are never archived, and what finds no partition, so that no payment is ever refused for want of one.
CREATE TABLE action_history_rest PARTITION OF action_history DEFAULT;
CREATE TABLE posting_rest PARTITION OF posting DEFAULT;
ALTER TABLE action_history_rest ADD PRIMARY KEY (id);
ALTER TABLE posting_rest ADD PRIMARY KEY (id);
-- OVERRIDING: since PostgreSQL 17 a partition gives numbers too, from the same sequence, and refuses others.
INSERT INTO posting_rest OVERRIDING SYSTEM VALUE SELECT * FROM posting_1 WHERE action_id IS NULL;
DELETE FROM posting_1 WHERE action_id IS NULL;

CREATE TRIGGER history_append_only BEFORE UPDATE OR DELETE ON action_history
    FOR EACH ROW EXECUTE FUNCTION refuse_posting_change();
CREATE TRIGGER posting_append_only BEFORE UPDATE OR DELETE ON posting FOR EACH ROW EXECUTE FUNCTION refuse_posting_change();

-- The number of the newest action, one that is not committed yet included.
CREATE FUNCTION newest_action() RETURNS bigint LANGUAGE plpgsql AS $$
BEGIN
    RETURN (SELECT CASE WHEN is_called THEN last_value ELSE 0 END FROM paid_action_id_seq);
END $$;

-- Up to which action the history and the postings are archived; 0: none is.
CREATE FUNCTION archived_to() RETURNS bigint LANGUAGE sql STABLE AS $$
    SELECT coalesce(max(last_action), 0) FROM action_range WHERE archived_at IS NOT NULL
$$;

-- Ranges are made and archived by one transaction at a time. false: another one is at it.
CREATE FUNCTION hold_action_ranges() RETURNS boolean LANGUAGE sql AS $$
    SELECT pg_try_advisory_xact_lock(1, 36)
$$;

-- The partitions of the range after the last one. What the rest has caught of it goes there.
CREATE FUNCTION add_action_range(size bigint) RETURNS void LANGUAGE plpgsql AS $$
DECLARE
    first_one bigint := (SELECT coalesce(max(last_action), 0) + 1 FROM action_range);
    family    text;
    part      text;
    caught    boolean;
BEGIN
    INSERT INTO action_range (first_action, last_action) VALUES (first_one, first_one + size - 1);
    FOREACH family IN ARRAY ARRAY['action_history', 'posting'] LOOP
        part := family || '_' || first_one;
        -- Made beside the table and attached, it locks out nobody who reads or writes the others.
        EXECUTE format('CREATE TABLE %I (LIKE %I INCLUDING CONSTRAINTS)', part, family);
        EXECUTE format('ALTER TABLE %I ADD PRIMARY KEY (id)', part);
        EXECUTE format('SELECT EXISTS (SELECT FROM %I WHERE action_id BETWEEN %s AND %s)', family || '_rest', first_one, first_one + size - 1) INTO caught;
        IF caught THEN
            EXECUTE format('ALTER TABLE %I DISABLE TRIGGER USER', family || '_rest');
            EXECUTE format('WITH late AS (DELETE FROM %I WHERE action_id BETWEEN %s AND %s RETURNING *) INSERT INTO %I SELECT * FROM late',
                family || '_rest', first_one, first_one + size - 1, part);
            EXECUTE format('ALTER TABLE %I ENABLE TRIGGER USER', family || '_rest');
        END IF;
        EXECUTE format('ALTER TABLE %I ATTACH PARTITION %I FOR VALUES FROM (%s) TO (%s)', family, part, first_one, first_one + size);
    END LOOP;
END $$;

-- Whether there are fewer than this many whole ranges after the one that the newest action is in.
CREATE FUNCTION lacks_action_ranges(size bigint, ahead bigint) RETURNS boolean LANGUAGE sql AS $$
    SELECT coalesce(max(last_action), 0) < greatest(newest_action(), 1) + ahead * size FROM action_range
$$;

-- As many ranges as are missing for that; returns how many were made.
CREATE FUNCTION make_action_ranges(size bigint, ahead bigint) RETURNS bigint LANGUAGE plpgsql AS $$
DECLARE
    made bigint := 0;
BEGIN
    WHILE lacks_action_ranges(size, ahead) LOOP
        -- In the order in which payments come to them. A foreign key of a new partition stops writes to what it refers to.
        LOCK TABLE paid_action IN SHARE ROW EXCLUSIVE MODE;
        LOCK TABLE ONLY action_history, ONLY posting IN SHARE UPDATE EXCLUSIVE MODE;
        PERFORM add_action_range(size);
        made := made + 1;
    END LOOP;
    RETURN made;
END $$;

-- No vacuum by itself, which can last for long, is in the way of the locks that follow from here to the end of the transaction. Neither readers nor
-- writers wait for this one; a vacuum that is under way is broken off by PostgreSQL once it has been waited for.
CREATE FUNCTION hold_back_vacuum() RETURNS void LANGUAGE plpgsql AS $$
BEGIN
    LOCK TABLE paid_action, action_history_rest, posting_rest IN SHARE UPDATE EXCLUSIVE MODE;
END $$;

-- Nobody writes to the partitions of a range from here to the end of the transaction.
CREATE FUNCTION freeze_action_range(first_one bigint) RETURNS void LANGUAGE plpgsql AS $$
BEGIN
    EXECUTE format('LOCK TABLE %I, %I IN SHARE MODE', 'action_history_' || first_one, 'posting_' || first_one);
END $$;

-- The partitions of a range become tables of the schema archive. Without foreign keys: whoever drops them later stops nobody.
CREATE FUNCTION detach_action_range(first_one bigint) RETURNS void LANGUAGE plpgsql AS $$
DECLARE
    family text;
    part   text;
    key    name;
BEGIN
    -- In the order in which payments come to them. The foreign keys of the partitions hang on paid_action.
    LOCK TABLE paid_action IN ACCESS EXCLUSIVE MODE;
    LOCK TABLE ONLY action_history, ONLY posting IN ACCESS EXCLUSIVE MODE;
    FOREACH family IN ARRAY ARRAY['action_history', 'posting'] LOOP
        part := family || '_' || first_one;
        EXECUTE format('ALTER TABLE %I DETACH PARTITION %I', family, part);
        FOR key IN SELECT conname FROM pg_constraint WHERE conrelid = part::regclass AND contype = 'f' LOOP
            EXECUTE format('ALTER TABLE %I DROP CONSTRAINT %I', part, key);
        END LOOP;
        EXECUTE format('ALTER TABLE %I SET SCHEMA archive', part);
    END LOOP;
END $$;

-- All actions so far are the first range; it ends with a whole number of ten millions (archive/ranges.go), and two of that size follow.
DO $$
DECLARE
    size constant bigint := 10000000;
    last_one bigint := greatest(1, (newest_action() + size - 1) / size) * size;
BEGIN
    INSERT INTO action_range (first_action, last_action) VALUES (1, last_one);
    EXECUTE format('ALTER TABLE action_history ATTACH PARTITION action_history_1 FOR VALUES FROM (1) TO (%s)', last_one + 1);
    EXECUTE format('ALTER TABLE posting ATTACH PARTITION posting_1 FOR VALUES FROM (1) TO (%s)', last_one + 1);
    PERFORM make_action_ranges(size, 2);
END $$;

-- TRUNCATE passes the triggers that refuse to change or to delete a row: of the tables that have one it is refused as well.
CREATE TRIGGER usr_not_truncated BEFORE TRUNCATE ON usr FOR EACH STATEMENT EXECUTE FUNCTION refuse_record_delete();
CREATE TRIGGER paid_action_not_truncated BEFORE TRUNCATE ON paid_action FOR EACH STATEMENT EXECUTE FUNCTION refuse_record_delete();

-- Of a partition, too: a trigger of the whole table does not see what is done to one of its partitions alone.
CREATE FUNCTION refuse_truncate(family text, part regclass) RETURNS void LANGUAGE plpgsql AS $$
BEGIN
    EXECUTE format('CREATE TRIGGER %I BEFORE TRUNCATE ON %s FOR EACH STATEMENT EXECUTE FUNCTION refuse_record_delete()', family || '_not_truncated', part);
END $$;
SELECT refuse_truncate(family, p.relid) FROM unnest(ARRAY['action_history', 'posting']) family, pg_partition_tree(family::regclass) p;

CREATE TRIGGER invoice_not_truncated BEFORE TRUNCATE ON invoice FOR EACH STATEMENT EXECUTE FUNCTION refuse_record_delete();
CREATE TRIGGER inner_invoice_not_truncated BEFORE TRUNCATE ON inner_invoice FOR EACH STATEMENT EXECUTE FUNCTION refuse_record_delete();
CREATE TRIGGER foreign_hash_not_truncated BEFORE TRUNCATE ON foreign_hash FOR EACH STATEMENT EXECUTE FUNCTION refuse_record_delete();
CREATE TRIGGER relay_payment_not_truncated BEFORE TRUNCATE ON relay_payment FOR EACH STATEMENT EXECUTE FUNCTION refuse_record_delete();
CREATE TRIGGER relay_attempt_not_truncated BEFORE TRUNCATE ON relay_attempt FOR EACH STATEMENT EXECUTE FUNCTION refuse_record_delete();
CREATE TRIGGER reward_day_not_truncated BEFORE TRUNCATE ON reward_day FOR EACH STATEMENT EXECUTE FUNCTION refuse_record_delete();
CREATE TRIGGER reward_not_truncated BEFORE TRUNCATE ON reward FOR EACH STATEMENT EXECUTE FUNCTION refuse_record_delete();
CREATE TRIGGER archived_balance_not_truncated BEFORE TRUNCATE ON archived_balance FOR EACH STATEMENT EXECUTE FUNCTION refuse_record_delete();
CREATE TRIGGER archived_loss_not_truncated BEFORE TRUNCATE ON archived_loss FOR EACH STATEMENT EXECUTE FUNCTION refuse_record_delete();

-- As in 0036, and of a new partition, too.
CREATE OR REPLACE FUNCTION add_action_range(size bigint) RETURNS void LANGUAGE plpgsql AS $$
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
        PERFORM refuse_truncate(family, part::regclass);
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

-- As in 0036, and without the trigger: what is archived is the operator's.
CREATE OR REPLACE FUNCTION detach_action_range(first_one bigint) RETURNS void LANGUAGE plpgsql AS $$
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
        -- A partition that a process of before has made meanwhile, or an operator has attached again, has none.
        EXECUTE format('DROP TRIGGER IF EXISTS %I ON %I', family || '_not_truncated', part);
        FOR key IN SELECT conname FROM pg_constraint WHERE conrelid = part::regclass AND contype = 'f' LOOP
            EXECUTE format('ALTER TABLE %I DROP CONSTRAINT %I', part, key);
        END LOOP;
        EXECUTE format('ALTER TABLE %I SET SCHEMA archive', part);
    END LOOP;
END $$;

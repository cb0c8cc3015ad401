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
        FOR key IN SELECT conname FROM pg_constraint WHERE conrelid = part::regclass AND contype = 'f' LOOP
            EXECUTE format('ALTER TABLE %I DROP CONSTRAINT %I', part, key);
        END LOOP;
        EXECUTE format('ALTER TABLE %I SET SCHEMA archive', part);
    END LOOP;
END $$;
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
DROP FUNCTION refuse_truncate;
DROP TRIGGER archived_loss_not_truncated ON archived_loss;
DROP TRIGGER archived_balance_not_truncated ON archived_balance;
DROP TRIGGER reward_not_truncated ON reward;
DROP TRIGGER reward_day_not_truncated ON reward_day;
DROP TRIGGER relay_attempt_not_truncated ON relay_attempt;
DROP TRIGGER relay_payment_not_truncated ON relay_payment;
DROP TRIGGER foreign_hash_not_truncated ON foreign_hash;
DROP TRIGGER inner_invoice_not_truncated ON inner_invoice;
DROP TRIGGER invoice_not_truncated ON invoice;
DO $$
DECLARE
    family text;
    part   regclass;
BEGIN
    FOREACH family IN ARRAY ARRAY['posting', 'action_history'] LOOP
        FOR part IN SELECT relid FROM pg_partition_tree(family::regclass) LOOP
            EXECUTE format('DROP TRIGGER IF EXISTS %I ON %s', family || '_not_truncated', part);
        END LOOP;
    END LOOP;
END $$;
DROP TRIGGER paid_action_not_truncated ON paid_action;
DROP TRIGGER usr_not_truncated ON usr;

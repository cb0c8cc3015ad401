-- What people hold is in the rows of account and balance_delta. Without a row what it held is gone, and nobody can pay from it or be paid. Each guard costs
-- payments nothing: they neither delete a row of these nor change one of balance_delta.
CREATE TRIGGER account_kept BEFORE DELETE ON account FOR EACH STATEMENT EXECUTE FUNCTION refuse_record_delete();
CREATE TRIGGER account_not_truncated BEFORE TRUNCATE ON account FOR EACH STATEMENT EXECUTE FUNCTION refuse_record_delete();

CREATE TRIGGER balance_delta_append_only BEFORE UPDATE ON balance_delta FOR EACH STATEMENT EXECUTE FUNCTION refuse_posting_change();
CREATE TRIGGER balance_delta_not_truncated BEFORE TRUNCATE ON balance_delta FOR EACH STATEMENT EXECUTE FUNCTION refuse_record_delete();

-- Deltas are deleted by a fold alone, which changes their account's row in the same statement. So what is refused is to delete those of an account whose row this
-- transaction has not written: its age is above zero. It is asked once for each account of a statement that deletes thousands of rows. Planned once for a connection,
-- perhaps while the table was small: only the key will do.
CREATE FUNCTION refuse_unfolded() RETURNS trigger LANGUAGE plpgsql SET enable_seqscan = off SET enable_bitmapscan = off AS $$
DECLARE
    lost bigint := (SELECT deleted.account_id FROM (SELECT DISTINCT gone.account_id FROM gone) AS deleted
        WHERE (SELECT age(a.xmin) FROM account a WHERE a.id = deleted.account_id) <= 0 IS NOT TRUE LIMIT 1);
BEGIN
    IF lost IS NOT NULL THEN
        RAISE EXCEPTION 'balance_delta: what account % has received is added to its balance before its rows are deleted', lost USING ERRCODE = 'HF002';
    END IF;
    RETURN NULL;
END $$;
CREATE TRIGGER balance_delta_folded AFTER DELETE ON balance_delta REFERENCING OLD TABLE AS gone
    FOR EACH STATEMENT EXECUTE FUNCTION refuse_unfolded();

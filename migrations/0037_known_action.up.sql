-- That the history and the postings belong to actions that exist is asked once for each statement, and no longer once for each row by a foreign key:
-- these checks were a tenth of what the rows of a zap cost. It holds as firmly. An action is never deleted (refuse_delete), and its
-- number is an identity, which no update changes: one that was there when its rows came stays, and need not be locked for that.

-- Planned once for a connection, perhaps while the tables were small: only the key will do.
CREATE FUNCTION refuse_unknown_action() RETURNS trigger LANGUAGE plpgsql SET enable_seqscan = off SET enable_bitmapscan = off AS $$
DECLARE
    unknown bigint := (SELECT added.action_id FROM added
        WHERE added.action_id IS NOT NULL AND (SELECT a.id FROM paid_action a WHERE a.id = added.action_id) IS NULL LIMIT 1);
BEGIN
    IF unknown IS NOT NULL THEN
        RAISE EXCEPTION '%: there is no action %', TG_TABLE_NAME, unknown USING ERRCODE = 'foreign_key_violation';
    END IF;
    RETURN NULL;
END $$;
CREATE TRIGGER history_action_known AFTER INSERT ON action_history REFERENCING NEW TABLE AS added
    FOR EACH STATEMENT EXECUTE FUNCTION refuse_unknown_action();
CREATE TRIGGER posting_action_known AFTER INSERT ON posting REFERENCING NEW TABLE AS added
    FOR EACH STATEMENT EXECUTE FUNCTION refuse_unknown_action();
ALTER TABLE action_history DROP CONSTRAINT action_history_action_id_fkey;
ALTER TABLE posting DROP CONSTRAINT posting_action_id_fkey;

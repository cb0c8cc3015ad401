-- Less for each zap.

-- A notification is found by whom it is for, and its number is told apart among theirs: one index in place of two. It comes first, since it takes the longest: what
-- everybody waits for is locked only after it.
ALTER TABLE notification DROP CONSTRAINT notification_pkey;
ALTER TABLE notification ADD PRIMARY KEY (user_id, id);
DROP INDEX notification_user;

-- That the payer exists is asked once for each statement, and no longer once for each row by a foreign key, which wrote to the payer's row each
-- time: a hundredth of a zap. It holds as firmly: people are never deleted, from now on by more than the rows that refer to them, and their numbers are
-- identities, which no update chooses.
CREATE FUNCTION refuse_user_delete() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    RAISE EXCEPTION 'usr %: people are never deleted', OLD.id USING ERRCODE = 'HF001';
END $$;
CREATE TRIGGER refuse_user_delete BEFORE DELETE ON usr FOR EACH ROW EXECUTE FUNCTION refuse_user_delete();

-- Planned once for a connection, perhaps while the table was small: only the key will do.
CREATE FUNCTION refuse_unknown_payer() RETURNS trigger LANGUAGE plpgsql SET enable_seqscan = off SET enable_bitmapscan = off AS $$
DECLARE
    unknown bigint := (SELECT added.payer_id FROM added
        WHERE added.payer_id IS NOT NULL AND (SELECT u.id FROM usr u WHERE u.id = added.payer_id) IS NULL LIMIT 1);
BEGIN
    IF unknown IS NOT NULL THEN
        RAISE EXCEPTION '%: there is no user %', TG_TABLE_NAME, unknown USING ERRCODE = 'foreign_key_violation';
    END IF;
    RETURN NULL;
END $$;
CREATE TRIGGER action_payer_known AFTER INSERT ON paid_action REFERENCING NEW TABLE AS added
    FOR EACH STATEMENT EXECUTE FUNCTION refuse_unknown_payer();
ALTER TABLE paid_action DROP CONSTRAINT paid_action_payer_id_fkey;

-- The webhooks that are told of a payment that somebody has received, and the step that they are told of. Who is told of a zap and has forwarded all of it has
-- received nothing; that is asked of the webhooks' owner, and so of nobody where there is none. The numbers of accounts are those of ledger/account.go.
-- A query that has it in its FROM is planned as if this stood there.
CREATE FUNCTION webhooks_of_receipt(receiver bigint, action bigint) RETURNS TABLE (webhook_id bigint, step_id bigint, at timestamptz) LANGUAGE sql STABLE AS $$
    SELECT w.id, h.id, h.at
    FROM (SELECT one.id, one.user_id FROM webhook one WHERE one.user_id = receiver AND one.disabled_at IS NULL
            AND (one.events = '{}' OR 'payment.received' = ANY (one.events)) OFFSET 0) AS w -- one by one: a join may go through all webhooks
        JOIN action_history h ON h.action_id = action AND h.to_state = 'PAID'
    WHERE EXISTS (SELECT FROM posting p WHERE p.action_id = action AND p.to_account IN (w.user_id * 16, w.user_id * 16 + 1))
        OR EXISTS (SELECT FROM relay_payment r WHERE r.action_id = action AND r.receiver_id = w.user_id AND r.preimage IS NOT NULL)
$$;

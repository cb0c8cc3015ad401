-- What holds for ever is also refused to be otherwise.

-- Of the attempts that follow a first one at most one can still be paid for, or is: two would charge for one thing twice. First attempts, which are nearly all, are not
-- in the index and do not pay for it. It comes first, since it takes the longest.
CREATE UNIQUE INDEX paid_action_one_attempt ON paid_action (genesis_id) WHERE genesis_id IS NOT NULL AND state NOT IN ('FAILED', 'RETRYING');

-- By these rows nodes are asked about payments. Without an invoice nobody knows whose payment it was; without an outgoing payment, or a claim on it, its hash could be
-- paid again.
CREATE FUNCTION refuse_record_delete() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    RAISE EXCEPTION '%: rows are never deleted', TG_TABLE_NAME USING ERRCODE = 'HF002';
END $$;
CREATE TRIGGER invoice_kept BEFORE DELETE ON invoice FOR EACH ROW EXECUTE FUNCTION refuse_record_delete();
CREATE TRIGGER inner_invoice_kept BEFORE DELETE ON inner_invoice FOR EACH ROW EXECUTE FUNCTION refuse_record_delete();
CREATE TRIGGER relay_payment_kept BEFORE DELETE ON relay_payment FOR EACH ROW EXECUTE FUNCTION refuse_record_delete();
CREATE TRIGGER relay_attempt_kept BEFORE DELETE ON relay_attempt FOR EACH ROW EXECUTE FUNCTION refuse_record_delete();

-- A hash is used in one way for ever: the row that says so is neither deleted nor changed.
CREATE TRIGGER foreign_hash_append_only BEFORE UPDATE OR DELETE ON foreign_hash FOR EACH ROW EXECUTE FUNCTION refuse_posting_change();

-- A name for each guard: one that was gone was not missed (holdfast reconcile) while another had its name.
ALTER TRIGGER archived_append_only ON archived_balance RENAME TO archived_balance_append_only;
ALTER TRIGGER archived_append_only ON archived_loss RENAME TO archived_loss_append_only;

ALTER TRIGGER archived_loss_append_only ON archived_loss RENAME TO archived_append_only;
ALTER TRIGGER archived_balance_append_only ON archived_balance RENAME TO archived_append_only;
DROP TRIGGER foreign_hash_append_only ON foreign_hash;
DROP TRIGGER relay_attempt_kept ON relay_attempt;
DROP TRIGGER relay_payment_kept ON relay_payment;
DROP TRIGGER inner_invoice_kept ON inner_invoice;
DROP TRIGGER invoice_kept ON invoice;
DROP FUNCTION refuse_record_delete;
DROP INDEX paid_action_one_attempt;

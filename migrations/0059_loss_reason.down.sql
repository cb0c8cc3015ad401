ALTER TABLE archived_loss DROP COLUMN reason;

ALTER TABLE webhook DROP COLUMN former, DROP COLUMN former_until;

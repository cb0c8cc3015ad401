ALTER TABLE webhook DROP COLUMN failed_at;

ALTER TABLE webhook DROP COLUMN left_alone_until;

ALTER TABLE paid_action DROP COLUMN proved_id;

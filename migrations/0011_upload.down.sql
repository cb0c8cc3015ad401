DROP INDEX notification_mention;
ALTER TABLE item DROP COLUMN edited_at;
DROP TABLE item_edit, upload_data, upload;

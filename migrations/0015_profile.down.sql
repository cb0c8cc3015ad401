DROP TABLE notification_seen;
DROP FUNCTION action_item;
DROP INDEX relay_payment_received;
ALTER TABLE usr DROP COLUMN posts, DROP COLUMN comments;
DROP INDEX item_unpaid_of_author, item_of_author, item_unpaid_path, item_path;

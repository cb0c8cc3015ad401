CREATE INDEX item_parent ON item (parent_id, id) WHERE parent_id IS NOT NULL;
DROP INDEX item_unpaid_comment, item_comment;

-- A page of comments is read from what is paid, and for its author from what is not: one index of both had everybody read past all comments that nobody
-- has paid for, however many there are.
CREATE INDEX item_comment ON item (parent_id, id) WHERE parent_id IS NOT NULL AND state = 'PAID' AND deleted_at IS NULL;
CREATE INDEX item_unpaid_comment ON item (author_id, parent_id, id) WHERE state <> 'PAID' AND deleted_at IS NULL;
DROP INDEX item_parent;

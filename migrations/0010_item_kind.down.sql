DROP TABLE bounty_payment, poll_vote, poll_option;
DROP INDEX item_one_bio, item_new_posts;
CREATE INDEX item_new_posts ON item (id) WHERE parent_id IS NULL AND state = 'PAID' AND deleted_at IS NULL;
ALTER TABLE item
    DROP CONSTRAINT item_has_title, DROP CONSTRAINT comment_has_parent, DROP CONSTRAINT link_has_url, DROP CONSTRAINT bounty_has_amount,
    DROP CONSTRAINT poll_has_price, DROP CONSTRAINT job_has_company, DROP CONSTRAINT bio_is_its_authors;
UPDATE item SET title = 'Bio' WHERE kind = 'BIO'; -- it becomes a post
ALTER TABLE item
    DROP COLUMN kind, DROP COLUMN url, DROP COLUMN bounty_msat, DROP COLUMN poll_msat, DROP COLUMN poll_closes_at, DROP COLUMN job_company,
    DROP COLUMN job_location,
    ADD CONSTRAINT post_has_title CHECK ((parent_id IS NULL) = (title IS NOT NULL));
DROP TYPE item_kind;

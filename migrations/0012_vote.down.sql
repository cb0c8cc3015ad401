-- The columns take their indexes with them.
DROP INDEX item_new_in;
ALTER TABLE item DROP COLUMN hot, DROP COLUMN day;
DROP INDEX item_top, item_top_in;
ALTER TABLE item DROP COLUMN down_msat, DROP COLUMN downvotes, DROP COLUMN boost_msat;
ALTER TABLE item_delta DROP COLUMN down_msat, DROP COLUMN downvotes, DROP COLUMN boost_msat;
DROP TABLE boost, vote_event;
DELETE FROM zap_total WHERE down;
DELETE FROM zap WHERE down;
ALTER TABLE zap_total DROP CONSTRAINT zap_total_pkey, DROP COLUMN down, ADD CONSTRAINT zap_total_pkey PRIMARY KEY (item_id, user_id);
ALTER TABLE zap DROP COLUMN down;

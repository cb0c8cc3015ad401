ALTER TABLE vote_event DROP COLUMN credits;

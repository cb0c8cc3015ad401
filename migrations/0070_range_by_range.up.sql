-- The next range, if fewer than this many whole ones follow the one that the newest action is in. Each is made in a transaction of its own, so
-- that payments wait for one at a time, and what is made stays if a later one cannot be. false: none was missing.
CREATE FUNCTION make_action_range(size bigint, ahead bigint) RETURNS boolean LANGUAGE plpgsql AS $$
BEGIN
    IF NOT lacks_action_ranges(size, ahead) THEN
        RETURN false;
    END IF;
    -- In the order in which payments come to them. A foreign key of a new partition stops writes to what it refers to.
    LOCK TABLE paid_action IN SHARE ROW EXCLUSIVE MODE;
    LOCK TABLE ONLY action_history, ONLY posting IN SHARE UPDATE EXCLUSIVE MODE;
    PERFORM add_action_range(size);
    RETURN true;
END $$;

-- All of them at once, however long payments wait: for an operator who has stopped every process.
CREATE OR REPLACE FUNCTION make_action_ranges(size bigint, ahead bigint) RETURNS bigint LANGUAGE plpgsql AS $$
DECLARE
    made bigint := 0;
BEGIN
    WHILE make_action_range(size, ahead) LOOP
        made := made + 1;
    END LOOP;
    RETURN made;
END $$;

CREATE OR REPLACE FUNCTION make_action_ranges(size bigint, ahead bigint) RETURNS bigint LANGUAGE plpgsql AS $$
DECLARE
    made bigint := 0;
BEGIN
    WHILE lacks_action_ranges(size, ahead) LOOP
        -- In the order in which payments come to them. A foreign key of a new partition stops writes to what it refers to.
        LOCK TABLE paid_action IN SHARE ROW EXCLUSIVE MODE;
        LOCK TABLE ONLY action_history, ONLY posting IN SHARE UPDATE EXCLUSIVE MODE;
        PERFORM add_action_range(size);
        made := made + 1;
    END LOOP;
    RETURN made;
END $$;
DROP FUNCTION make_action_range;

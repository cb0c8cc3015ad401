-- Whoever writes rows that are there for sure need not wait to hear how many they were: the statement itself fails where it is another number, and with it the
-- transaction.
CREATE FUNCTION must_be(counted bigint, wanted bigint, what text) RETURNS void LANGUAGE plpgsql AS $$
BEGIN
    IF counted IS DISTINCT FROM wanted THEN
        RAISE EXCEPTION '% of % %', counted, wanted, what USING ERRCODE = 'HF003';
    END IF;
END $$;

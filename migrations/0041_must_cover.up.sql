-- As must_be, for balances that are to cover what is taken from them: another code, for that is nobody's mistake.
CREATE FUNCTION must_cover(covered bigint, wanted bigint) RETURNS void LANGUAGE plpgsql AS $$
BEGIN
    IF covered IS DISTINCT FROM wanted THEN
        RAISE EXCEPTION '% of % balances suffice', covered, wanted USING ERRCODE = 'HF004';
    END IF;
END $$;

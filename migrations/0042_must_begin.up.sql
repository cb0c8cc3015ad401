-- As must_be, for what the beginning of an action supposes and does not wait to hear: that its idempotency key was not used before, and that its payer, or the
-- receiver's wallet, has fewer open invoices than it may. Each has a code that it is known by.
CREATE FUNCTION must_begin(begun bigint) RETURNS void LANGUAGE plpgsql AS $$
BEGIN
    IF begun IS DISTINCT FROM 1 THEN
        RAISE EXCEPTION 'the idempotency key was used before' USING ERRCODE = 'HF005';
    END IF;
END $$;
CREATE FUNCTION must_be_below(counted bigint, most bigint, code text) RETURNS void LANGUAGE plpgsql AS $$
BEGIN
    IF counted >= most THEN
        RAISE EXCEPTION '% are open, and % are the most', counted, most USING ERRCODE = code;
    END IF;
END $$;

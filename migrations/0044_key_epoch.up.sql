-- As long as the epoch is the same, no key has been revoked, and none has changed in any other way: whoever keeps in memory whose keys are asks for this row in
-- place of theirs (graph/whose.go). Both are seen, or neither, by whoever looks, since they commit together.
CREATE TABLE key_epoch (
    one   boolean PRIMARY KEY DEFAULT true CHECK (one),
    epoch bigint  NOT NULL DEFAULT 0
);
INSERT INTO key_epoch DEFAULT VALUES;

CREATE FUNCTION begin_key_epoch() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    UPDATE key_epoch SET epoch = epoch + 1;
    RETURN NULL;
END $$;

-- For each row: to revoke what is revoked already changes none, and waits for nobody.
CREATE TRIGGER begin_key_epoch AFTER UPDATE OR DELETE ON api_key FOR EACH ROW EXECUTE FUNCTION begin_key_epoch();
CREATE TRIGGER begin_key_epoch_without_keys AFTER TRUNCATE ON api_key FOR EACH STATEMENT EXECUTE FUNCTION begin_key_epoch();
ALTER TABLE api_key ENABLE ALWAYS TRIGGER begin_key_epoch, ENABLE ALWAYS TRIGGER begin_key_epoch_without_keys;

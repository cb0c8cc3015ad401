-- As long as the epoch is the same, no key has been revoked, and none has changed in any other way: whoever keeps in memory whose keys are asks for this row in
-- place of theirs (graph/whose.go). Both are seen, or neither, by whoever looks, since they commit together. The epoch is drawn at random: one that a failover or a
-- backup has undone never comes back with other keys behind it.
CREATE TABLE key_epoch (
    one   boolean PRIMARY KEY DEFAULT true CHECK (one),
    epoch uuid    NOT NULL DEFAULT gen_random_uuid()
);
INSERT INTO key_epoch DEFAULT VALUES;

CREATE FUNCTION begin_key_epoch() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    UPDATE key_epoch SET epoch = gen_random_uuid();
    RETURN NULL;
END $$;

CREATE TRIGGER begin_key_epoch AFTER UPDATE OR DELETE OR TRUNCATE ON api_key FOR EACH STATEMENT EXECUTE FUNCTION begin_key_epoch();

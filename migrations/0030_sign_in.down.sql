DROP TABLE sign_in;
DROP TABLE linking_key;
-- A key that was good for a while would be good for ever from now on: it goes.
DELETE FROM api_key WHERE expires_at IS NOT NULL;
ALTER TABLE api_key DROP COLUMN expires_at;

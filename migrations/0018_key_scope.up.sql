-- What a key is good for (schema.graphql, enum Scope). The keys that exist keep all they had; a new one says what it gets.
ALTER TABLE api_key ADD COLUMN scopes text[] NOT NULL DEFAULT '{READ,SPEND,WITHDRAW,SETTINGS}'
    CHECK (cardinality(scopes) > 0 AND scopes <@ '{READ,SPEND,WITHDRAW,SETTINGS}');
ALTER TABLE api_key ALTER COLUMN scopes DROP DEFAULT;

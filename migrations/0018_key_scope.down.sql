-- A key that was good for less would be good for everything from now on: it goes.
DELETE FROM api_key WHERE NOT scopes @> '{READ,SPEND,WITHDRAW,SETTINGS}';
ALTER TABLE api_key DROP COLUMN scopes;

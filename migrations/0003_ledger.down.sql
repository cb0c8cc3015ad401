DROP TABLE balance_delta;
DROP TRIGGER open_user_accounts ON usr;
DROP FUNCTION open_user_accounts;
DROP TABLE account;
DROP TABLE api_key;
DROP TABLE usr;

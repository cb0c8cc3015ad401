DROP TRIGGER begin_key_epoch_without_keys ON api_key;
DROP TRIGGER begin_key_epoch ON api_key;
DROP FUNCTION begin_key_epoch;
DROP TABLE key_epoch;

DROP FUNCTION webhook_type;
DROP TABLE webhook_attempt;
DROP TABLE webhook_message;
DROP TABLE webhook;

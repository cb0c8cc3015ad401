CREATE INDEX inner_invoice_wallet ON inner_invoice (wallet_id);
DROP INDEX paid_action_inner_wallet;
ALTER TABLE paid_action DROP COLUMN inner_wallet_id;

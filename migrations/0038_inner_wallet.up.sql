-- Whose invoice is inside of the action's own, so that what waits for its payer is counted by an index of that alone. Found by way of inner_invoice it took
-- all that was ever inside, of the wallet or of everybody.
ALTER TABLE paid_action ADD COLUMN inner_wallet_id bigint;           -- NULL: nobody's
UPDATE paid_action SET inner_wallet_id = inner_invoice.wallet_id FROM inner_invoice
WHERE inner_invoice.action_id = paid_action.id AND paid_action.state = 'PENDING_HELD';
CREATE INDEX paid_action_inner_wallet ON paid_action (inner_wallet_id) WHERE state = 'PENDING_HELD' AND inner_wallet_id IS NOT NULL;
DROP INDEX inner_invoice_wallet;

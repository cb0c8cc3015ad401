CREATE INDEX zap_pending ON zap (user_id, item_id) WHERE state = 'PENDING' AND user_id IS NOT NULL;

ALTER TABLE invoice ADD COLUMN client_hash bytea;
UPDATE invoice SET client_hash = paid_action.client_hash FROM paid_action
WHERE paid_action.id = invoice.action_id AND paid_action.client_hash IS NOT NULL;

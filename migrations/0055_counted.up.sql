-- Who withdraws to somebody outside by a payment, so that theirs that are under way are counted by an index of those alone. To find out by way of their actions took all
-- that were under way, of everybody.
ALTER TABLE relay_payment ADD COLUMN payer_id bigint REFERENCES usr (id);   -- NULL: it is a forward, or made inside
UPDATE relay_payment SET payer_id = paid_action.payer_id FROM paid_action
WHERE paid_action.id = relay_payment.action_id AND relay_payment.receiver_id IS NULL AND relay_payment.inside_id IS NULL AND relay_payment.stage <> 'completed';
CREATE INDEX relay_payment_payer ON relay_payment (payer_id) WHERE payer_id IS NOT NULL AND stage IN ('incoming', 'in_work', 'pending_confirmation');

-- Votes of polls that are counted at their options. What is paid and not counted yet, which at first is all, the fold counts.
ALTER TABLE poll_option ADD COLUMN votes bigint NOT NULL DEFAULT 0;
ALTER TABLE poll_vote ADD COLUMN counted boolean NOT NULL DEFAULT false, ADD CONSTRAINT counted_is_paid CHECK (NOT counted OR state = 'PAID');
DROP INDEX poll_vote_counted;
CREATE INDEX poll_vote_uncounted ON poll_vote (option_id) WHERE state = 'PAID' AND NOT counted;

-- Behind which address an anonymous payer of an invoice is, so that the open ones behind one are counted by an index of those alone. To find out by way of their invoices took
-- all that were open, of everybody who is anonymous.
ALTER TABLE paid_action ADD COLUMN client_hash bytea;                -- NULL: the payer is known, or no invoice is to be paid
UPDATE paid_action SET client_hash = invoice.client_hash FROM invoice
WHERE invoice.action_id = paid_action.id AND paid_action.state IN ('PENDING', 'PENDING_HELD') AND paid_action.payer_id IS NULL;
CREATE INDEX paid_action_open_client ON paid_action (client_hash) WHERE client_hash IS NOT NULL AND state IN ('PENDING', 'PENDING_HELD');

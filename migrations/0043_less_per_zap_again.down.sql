DROP FUNCTION webhooks_of_receipt;
CREATE INDEX notification_user ON notification (user_id, id);
ALTER TABLE notification DROP CONSTRAINT notification_pkey;
ALTER TABLE notification ADD PRIMARY KEY (id);
ALTER TABLE paid_action ADD CONSTRAINT paid_action_payer_id_fkey FOREIGN KEY (payer_id) REFERENCES usr (id);
DROP TRIGGER action_payer_known ON paid_action;
DROP FUNCTION refuse_unknown_payer;
DROP TRIGGER refuse_user_delete ON usr;
DROP FUNCTION refuse_user_delete;

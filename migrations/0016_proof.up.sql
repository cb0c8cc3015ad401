-- Whoever pays for a change to what an anonymous payer made shows the secret of that action. The secret is not stored; which action it
-- proved is: the first attempt of it.
ALTER TABLE paid_action ADD COLUMN proved_id bigint REFERENCES paid_action (id);

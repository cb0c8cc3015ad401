ALTER TABLE action_history ADD CONSTRAINT action_history_action_id_fkey FOREIGN KEY (action_id) REFERENCES paid_action (id);
ALTER TABLE posting ADD CONSTRAINT posting_action_id_fkey FOREIGN KEY (action_id) REFERENCES paid_action (id);
DROP TRIGGER history_action_known ON action_history;
DROP TRIGGER posting_action_known ON posting;
DROP FUNCTION refuse_unknown_action;

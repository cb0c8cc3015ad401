DROP INDEX paid_action_successor;
ALTER TABLE paid_action ADD CONSTRAINT paid_action_successor_id_key UNIQUE (successor_id);
ALTER TABLE notification ADD CONSTRAINT notification_action_id_fkey FOREIGN KEY (action_id) REFERENCES paid_action (id);
ALTER TABLE vote_event ADD CONSTRAINT vote_event_action_id_fkey FOREIGN KEY (action_id) REFERENCES paid_action (id);
ALTER TABLE zap ADD CONSTRAINT zap_action_id_fkey FOREIGN KEY (action_id) REFERENCES paid_action (id);
ALTER TABLE notification ADD CONSTRAINT notification_user_id_fkey FOREIGN KEY (user_id) REFERENCES usr (id);
ALTER TABLE zap_total ADD CONSTRAINT zap_total_user_id_fkey FOREIGN KEY (user_id) REFERENCES usr (id);
ALTER TABLE zap ADD CONSTRAINT zap_user_id_fkey FOREIGN KEY (user_id) REFERENCES usr (id);

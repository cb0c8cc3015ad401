CREATE INDEX zap_item ON zap (item_id, action_id);
CREATE INDEX zap_user ON zap (user_id, action_id) WHERE user_id IS NOT NULL;
DROP INDEX zap_pending;

ALTER TABLE paid_action DROP COLUMN again_refused_at;

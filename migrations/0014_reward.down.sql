ALTER TABLE invoice DROP COLUMN dropped_at;
DROP TABLE user_preference;
DROP TABLE invite_redemption, invite;
DELETE FROM notification WHERE action_id IS NULL;
ALTER TABLE notification DROP COLUMN day;
ALTER TABLE notification ALTER COLUMN action_id SET NOT NULL;
DROP INDEX posting_to_rewards;
DROP TABLE reward, reward_day;

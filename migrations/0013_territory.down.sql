DELETE FROM notification WHERE action_id IS NULL;
ALTER TABLE notification DROP COLUMN territory, ALTER COLUMN action_id SET NOT NULL;
DROP TABLE territory_transfer;
DROP INDEX item_territory;
-- Unknown to what comes before: their payments are still under way.
DELETE FROM territory WHERE state = 'PENDING';
ALTER TABLE territory
    DROP COLUMN state, DROP COLUMN billing, DROP COLUMN auto_renew, DROP COLUMN description, DROP COLUMN period_start,
    DROP COLUMN paid_until, DROP COLUMN paid_msat, DROP COLUMN grace_until, DROP COLUMN bill_at, DROP COLUMN pending_action;
DROP TYPE territory_billing;
DROP TYPE territory_state;

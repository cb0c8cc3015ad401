-- What the zap was paid with: each pool of a day's rewards is divided by the votes that were paid in its asset.
ALTER TABLE vote_event ADD COLUMN credits boolean NOT NULL DEFAULT true;  -- else sats
ALTER TABLE vote_event ALTER COLUMN credits DROP DEFAULT;

-- Rewards ask only about days that are not paid yet, which begin after the last that is recorded (but for days after the newest vote, which a clock that was ahead has
-- recorded). Of those from before it says true, whatever it was, which keeps the table as it is, and could never turn credits into sats.
UPDATE vote_event SET credits = false FROM paid_action
WHERE paid_action.id = vote_event.action_id AND paid_action.method <> 'FEE_CREDIT'
    AND vote_event.at >= coalesce((SELECT (max(day) + 1)::timestamp AT TIME ZONE 'UTC' FROM reward_day
        WHERE day < (SELECT (max(at) AT TIME ZONE 'UTC')::date FROM vote_event)), '-infinity');

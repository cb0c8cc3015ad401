-- What every zap paid for and nobody used.

-- No foreign keys to people who are popular or who zap much, for the reason given at balance_delta. Who pays is checked at paid_action.payer_id in
-- the same transaction, who is told is the author of an item, and no row of usr is ever deleted.
ALTER TABLE zap DROP CONSTRAINT zap_user_id_fkey;
ALTER TABLE zap_total DROP CONSTRAINT zap_total_user_id_fkey;
ALTER TABLE notification DROP CONSTRAINT notification_user_id_fkey;

-- Nor to the action from what follows from it and is no money: with these checks, each as dear as the row, an insert cost twice as much. The engine
-- hands out the number of a row that it has just inserted, and rows of paid_action are never deleted (refuse_delete). The history and the postings,
-- which say what is true, keep theirs.
ALTER TABLE zap DROP CONSTRAINT zap_action_id_fkey;
ALTER TABLE vote_event DROP CONSTRAINT vote_event_action_id_fkey;
ALTER TABLE notification DROP CONSTRAINT notification_action_id_fkey;

-- Hardly any action has a successor, and the index held a NULL for each of the others.
ALTER TABLE paid_action DROP CONSTRAINT paid_action_successor_id_key;
CREATE UNIQUE INDEX paid_action_successor ON paid_action (successor_id) WHERE successor_id IS NOT NULL;

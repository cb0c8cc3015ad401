-- The next attempt of an action whose receiver could not be paid, which the service prepares by itself, was refused: there will be none, and nobody waits for it.
ALTER TABLE paid_action ADD COLUMN again_refused_at timestamptz;

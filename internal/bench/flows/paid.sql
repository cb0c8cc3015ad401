-- The actions after $1 that are PAID: under which hash, and when that was committed.
SELECT i.action_id, i.payment_hash, pg_xact_commit_timestamp(h.xmin)
FROM action_history AS h JOIN invoice AS i ON i.action_id = h.action_id
WHERE h.action_id > $1 AND h.to_state = 'PAID';

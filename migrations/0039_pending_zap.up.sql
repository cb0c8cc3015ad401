-- What one user has zapped and not yet paid is all that is asked of zaps but by their action. The indexes of all zaps by item and by user were written to at random
-- places with each zap, and nobody used them.
CREATE INDEX zap_pending ON zap (user_id, item_id) WHERE state = 'PENDING' AND user_id IS NOT NULL;
DROP INDEX zap_item, zap_user;

-- The bytes of each table that grows with the actions, and of its indexes.
SELECT relname, pg_table_size(oid), pg_indexes_size(oid) FROM pg_class
WHERE relkind = 'r' AND relnamespace = 'public'::regnamespace
    AND relname IN ('paid_action', 'action_history', 'zap', 'zap_total', 'vote_event', 'posting', 'notification', 'river_job')
ORDER BY pg_total_relation_size(oid) DESC;

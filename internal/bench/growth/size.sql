-- The bytes of each table that grows with the actions, and of its indexes; of all its partitions together, where it has any.
SELECT t.name, sum(pg_table_size(part.relid))::bigint, sum(pg_indexes_size(part.relid))::bigint
FROM unnest(ARRAY['paid_action', 'action_history', 'zap', 'zap_total', 'vote_event', 'posting', 'notification', 'river_job']) AS t (name)
CROSS JOIN LATERAL (SELECT t.name::regclass AS relid UNION SELECT p.relid FROM pg_partition_tree(t.name::regclass) AS p) AS part
GROUP BY t.name ORDER BY sum(pg_total_relation_size(part.relid)) DESC;

-- What all statements in this database have cost since pg_stat_statements was reset: pages that were looked at, pages that became dirty,
-- and bytes of the write-ahead log.
SELECT coalesce(sum(shared_blks_hit + shared_blks_read), 0)::bigint, coalesce(sum(shared_blks_dirtied), 0)::bigint, coalesce(sum(wal_bytes), 0)::bigint
FROM pg_stat_statements WHERE dbid = (SELECT oid FROM pg_database WHERE datname = current_database());

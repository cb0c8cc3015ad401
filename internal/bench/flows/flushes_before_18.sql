-- The same, before PostgreSQL 18 counted the log among all that is written.
SELECT wal_sync, wal_sync_time FROM pg_stat_wal;

-- How often the log was flushed to the disk, and how long that took in milliseconds.
SELECT wal_sync, wal_sync_time FROM pg_stat_wal;

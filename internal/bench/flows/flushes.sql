-- How often the log was flushed to the disk, and how long that took in milliseconds.
SELECT sum(fsyncs)::bigint, sum(fsync_time)::float8 FROM pg_stat_io WHERE object = 'wal' AND context = 'normal';

-- The histories of the database from which the service went on. A server that was restored, or a copy that took over,
-- may lack what was committed last. Each is known by its cluster, its database and PostgreSQL's timeline, which is another
-- after every promotion and every recovery to a moment.
CREATE TABLE timeline (
    name        text PRIMARY KEY, -- as server_timeline says it
    met_at      timestamptz NOT NULL,
    accepted_at timestamptz       -- NULL: nobody has said that nothing is missing, so nothing new is begun
);

-- The history that this server writes; NULL on a copy that only follows.
CREATE FUNCTION server_timeline() RETURNS text LANGUAGE sql AS $$
    SELECT CASE WHEN NOT pg_is_in_recovery() THEN
        format('%s/%s/%s', (SELECT system_identifier FROM pg_control_system()), (SELECT oid FROM pg_database WHERE datname = current_database()),
            ('x' || left(pg_walfile_name(pg_current_wal_insert_lsn()), 8))::bit(32)::bigint) END
$$;

-- Has no sequence give so many numbers. It takes effect at once, and is not undone with its transaction.
CREATE FUNCTION skip_numbers(numbers bigint) RETURNS void LANGUAGE plpgsql AS $$
BEGIN
    PERFORM setval(format('%I.%I', schemaname, sequencename), least(max_value, coalesce(last_value, 0) + numbers))
        FROM pg_sequences WHERE schemaname = current_schema();
END $$;

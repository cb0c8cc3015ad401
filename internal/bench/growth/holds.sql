-- How many pages the reading of open hold invoices (OpenHoldInvoices) looked at for each of them, since pg_stat_statements was reset. It is known by
-- its words, since PostgreSQL 18 forgets the comment before them, which has the query's name.
SELECT coalesce(sum(shared_blks_hit + shared_blks_read) / nullif(sum(rows), 0), 0)::float8 FROM pg_stat_statements
WHERE query LIKE '%SELECT invoice.payment_hash, invoice.action_id FROM paid_action JOIN invoice %' AND dbid = (SELECT oid FROM pg_database WHERE datname = current_database());

-- How many pages the reading of open hold invoices looked at for each of them, since pg_stat_statements was reset.
SELECT coalesce(sum(shared_blks_hit + shared_blks_read) / nullif(sum(rows), 0), 0)::float8 FROM pg_stat_statements
WHERE query LIKE '%OpenHoldInvoices%' AND dbid = (SELECT oid FROM pg_database WHERE datname = current_database());

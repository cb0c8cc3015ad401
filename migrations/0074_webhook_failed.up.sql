-- When it last failed. NULL: it has not since it last worked, or that is not known. Days on which nobody tried do not count as failures.
ALTER TABLE webhook ADD COLUMN failed_at timestamptz;

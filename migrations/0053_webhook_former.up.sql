-- Secrets of a webhook before the previous one that still sign, each until its own end: who rotates again, since an answer was lost, has a server that knows only the first.
ALTER TABLE webhook ADD COLUMN former bytea[] NOT NULL DEFAULT '{}', ADD COLUMN former_until timestamptz[] NOT NULL DEFAULT '{}';

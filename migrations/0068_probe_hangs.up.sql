-- When a probe that has not come back counts as hanging. Those of before count at once, since nobody knows.
ALTER TABLE route_probe ADD COLUMN hangs_at timestamptz NOT NULL DEFAULT '-infinity';
ALTER TABLE route_probe ALTER COLUMN hangs_at DROP DEFAULT;

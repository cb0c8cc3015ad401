ALTER TABLE route_probe DROP COLUMN hangs_at;

ALTER TABLE route_probe DROP COLUMN hash, DROP COLUMN node;

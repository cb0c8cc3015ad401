ALTER TABLE invoice DROP COLUMN chosen;

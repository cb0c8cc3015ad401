ALTER TABLE sign_in DROP COLUMN contested_at;

-- Until then its server has asked to be left alone (Retry-After).
ALTER TABLE webhook ADD COLUMN left_alone_until timestamptz;

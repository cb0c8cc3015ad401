-- What is good for nothing any more is deleted, and found by when it became so.
CREATE INDEX api_key_over ON api_key (least(revoked_at, expires_at)) WHERE least(revoked_at, expires_at) IS NOT NULL;
CREATE INDEX item_fingerprint_until ON item_fingerprint (until);
CREATE INDEX route_probe_until ON route_probe (until);

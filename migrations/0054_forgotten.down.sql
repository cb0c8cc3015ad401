DROP INDEX route_probe_until;
DROP INDEX item_fingerprint_until;
DROP INDEX api_key_over;

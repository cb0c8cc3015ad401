DROP TABLE notification, donation, zap_total, zap, item_delta, item_subscription, item_mention, item_forward, item_fingerprint, item, territory;
DROP TYPE item_state;

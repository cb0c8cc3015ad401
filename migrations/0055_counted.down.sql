DROP INDEX paid_action_open_client;
ALTER TABLE paid_action DROP COLUMN client_hash;

DROP INDEX poll_vote_uncounted;
CREATE INDEX poll_vote_counted ON poll_vote (option_id) WHERE state = 'PAID';
ALTER TABLE poll_vote DROP COLUMN counted;
ALTER TABLE poll_option DROP COLUMN votes;

DROP INDEX relay_payment_payer;
ALTER TABLE relay_payment DROP COLUMN payer_id;

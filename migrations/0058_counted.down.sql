DROP INDEX relay_payment_payer;
ALTER TABLE relay_payment DROP COLUMN payer_id;

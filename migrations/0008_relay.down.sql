DROP TABLE relay_attempt;
DROP TABLE relay_payment;
DROP TABLE inner_invoice;
DROP TABLE foreign_hash;
DROP TYPE relay_stage;

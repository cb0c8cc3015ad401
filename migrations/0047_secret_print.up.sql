-- Which secret what is stored here was derived from or encrypted with: a print of it, which tells nothing of the secret. A process with another one could read no
-- receiver's wallet and prove no anonymous payer, and would say so only in its log.
CREATE TABLE secret_print (
    one   boolean PRIMARY KEY DEFAULT true CHECK (one),
    print bytea NOT NULL CHECK (octet_length(print) = 32)
);

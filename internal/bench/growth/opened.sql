-- What the invoices of the node are told in, before they become actions.
CREATE TEMPORARY TABLE opened (
    id bigint DEFAULT nextval('paid_action_id_seq'), item bigint, payer bigint, payment_hash bytea, preimage bytea, bolt11 text, until timestamptz
) ON COMMIT DROP;

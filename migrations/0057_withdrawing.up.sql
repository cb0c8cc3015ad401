-- Withdrawals to somebody outside that may hold a place at a node: those in work that were claimed lately, which is when they last changed. So few are counted before
-- another is claimed, by an index that forwards never touch.
CREATE INDEX relay_payment_withdrawing ON relay_payment (node, changed_at) WHERE stage = 'in_work' AND payer_id IS NOT NULL;

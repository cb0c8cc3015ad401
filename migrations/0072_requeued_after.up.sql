-- Which claims were made before an operator put a payment back, and count no more. That was told from moments: by a clock that was ahead all later
-- claims, which end by other clocks, counted as earlier ones, so that the payment was given to the same nodes again and again. Numbers only grow.
ALTER TABLE relay_payment ADD COLUMN requeued_after bigint NOT NULL DEFAULT 0;   -- the last claim before that; requeued_at only says since when it waits
UPDATE relay_payment SET requeued_after = coalesce((SELECT max(a.id) FROM relay_attempt a
    WHERE a.payment_id = relay_payment.id AND a.ended_at <= relay_payment.requeued_at), 0)
WHERE stage IN ('incoming', 'in_work') AND requeued_at IS NOT NULL;

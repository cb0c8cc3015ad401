UPDATE relay_payment SET requeued_at = greatest(requeued_at, (SELECT max(a.ended_at) FROM relay_attempt a
    WHERE a.payment_id = relay_payment.id AND a.id <= relay_payment.requeued_after))
WHERE stage IN ('incoming', 'in_work') AND requeued_at IS NOT NULL;
ALTER TABLE relay_payment DROP COLUMN requeued_after;

-- Behind which address an anonymous payer is, their action says since 0055, and their invoice need not say it as well. Of those that began before and may yet get a
-- next attempt by themselves it goes there now, since that attempt is counted at the same address.
UPDATE paid_action SET client_hash = invoice.client_hash FROM invoice
WHERE invoice.action_id = paid_action.id AND paid_action.flow = 'WRAPPED' AND paid_action.payer_id IS NULL AND paid_action.client_hash IS NULL
    AND (paid_action.state NOT IN ('PAID', 'FAILED', 'RETRYING')
        OR paid_action.state = 'FAILED' AND paid_action.failure_code = 'PAYMENT_FAILED' AND paid_action.again_refused_at IS NULL);
ALTER TABLE invoice DROP COLUMN client_hash;

-- Nobody asks what somebody has zapped and not yet paid.
DROP INDEX zap_pending;

CREATE OR REPLACE FUNCTION action_step_allowed(flow action_flow, from_state text, to_state text) RETURNS boolean
LANGUAGE sql IMMUTABLE PARALLEL SAFE AS $$
    SELECT CASE flow
    WHEN 'BALANCE' THEN (from_state, to_state) IN (('', 'PAID'))
    WHEN 'OPTIMISTIC' THEN (from_state, to_state) IN (
        ('', 'PENDING'), ('PENDING', 'PAID'), ('PENDING', 'CANCELING'), ('PENDING', 'FAILED'),
        ('CANCELING', 'FAILED'), ('CANCELING', 'PAID'), ('FAILED', 'RETRYING'))
    WHEN 'PESSIMISTIC' THEN (from_state, to_state) IN (
        ('', 'PENDING_HELD'), ('PENDING_HELD', 'HELD'), ('PENDING_HELD', 'CANCELING'), ('PENDING_HELD', 'FAILED'),
        ('HELD', 'PAID'), ('HELD', 'CANCELING'), ('HELD', 'FAILED'), ('CANCELING', 'FAILED'), ('FAILED', 'RETRYING'))
    WHEN 'WRAPPED' THEN (from_state, to_state) IN (
        ('', 'PENDING_HELD'), ('PENDING_HELD', 'FORWARDING'), ('PENDING_HELD', 'CANCELING'), ('PENDING_HELD', 'FAILED'),
        ('FORWARDING', 'FORWARDED'), ('FORWARDING', 'FAILED_FORWARD'), ('FORWARDED', 'PAID'),
        ('FAILED_FORWARD', 'CANCELING'), ('FAILED_FORWARD', 'FAILED'), ('CANCELING', 'FAILED'), ('FAILED', 'RETRYING'))
    WHEN 'OUTGOING' THEN (from_state, to_state) IN (
        ('', 'FORWARDING'), ('FORWARDING', 'FORWARDED'), ('FORWARDING', 'FAILED_FORWARD'),
        ('FORWARDED', 'PAID'), ('FAILED_FORWARD', 'FAILED'))
    END
$$;

-- The caller has locked the row of the key. Its lease ends, and the first ticket whose process is alive gets one; dead ones
-- before it are removed and counted.
--
-- The new lease first lasts only as long as that process was last known to live: it has not yet said that it noticed. Its
-- first touch makes it a whole one.
--
-- It is woken by a notification unless it is in the caller's own process (p_by). A commit with a notification holds a lock over
-- all others of the kind until it is on disk; a second transaction for it would cost every hand-over a round trip more.
CREATE OR REPLACE FUNCTION lock_hand_over(p_key text, p_head bigint, p_by text, OUT next_ticket text, OUT next_process text,
    OUT next_fence bigint, OUT next_valid_ms bigint, OUT dead bigint)
LANGUAGE plpgsql AS $$
#variable_conflict use_column
DECLARE
    moment timestamptz := clock_timestamp();
    -- While the server was down nobody could send a heartbeat: that must not cost them their place.
    grace  timestamptz := pg_postmaster_start_time() + interval '2 seconds';
    t      record;
BEGIN
    SELECT t.number, t.id, t.process, p.name, t.hold_ms,
        least(floor(extract(epoch FROM greatest(p.live_until, grace) - moment) * 1000), t.ttl_ms, t.hold_ms)::bigint AS valid_ms
        INTO t FROM lock_ticket t JOIN lock_process p ON p.id = t.process
        WHERE t.key = p_key AND t.number > p_head AND greatest(p.live_until, grace) > moment + interval '10 milliseconds'
        ORDER BY t.number LIMIT 1;
    IF NOT FOUND THEN
        DELETE FROM lock_ticket WHERE key = p_key AND number > p_head;
        GET DIAGNOSTICS dead = ROW_COUNT;
        UPDATE lock_key SET ticket = NULL, name = '', waiting = 0, since = moment WHERE key = p_key;
        next_ticket := ''; next_process := ''; next_fence := 0; next_valid_ms := 0;
        RETURN;
    END IF;
    DELETE FROM lock_ticket WHERE key = p_key AND number > p_head AND number <= t.number;
    GET DIAGNOSTICS dead = ROW_COUNT;
    dead := dead - 1;
    next_ticket := t.id; next_process := t.process; next_fence := nextval('lock_fence'); next_valid_ms := t.valid_ms;
    UPDATE lock_key SET ticket = t.id, name = t.name, fence = next_fence, since = moment, head = t.number,
        expires_at = moment + t.valid_ms * interval '1 millisecond', hold_until = moment + t.hold_ms * interval '1 millisecond',
        waiting = waiting - dead - 1
        WHERE key = p_key;
    IF t.process <> p_by THEN
        PERFORM pg_notify('holdfast_lock_' || t.process, t.id || ' ' || next_fence);
    END IF;
END $$;

-- Takes the lock if it is free, else a ticket if there may be a wait. state: held, queued, busy (no wait wanted), full. Asked
-- again with the same ticket it answers the same, so that a lost answer can be asked for again.
CREATE OR REPLACE FUNCTION lock_enter(p_key text, p_ticket text, p_process text, p_name text, p_live_ms bigint, p_ttl_ms bigint,
    p_hold_ms bigint, p_queue bigint, p_wait boolean,
    OUT state text, OUT fence bigint, OUT valid_ms bigint,
    OUT next_ticket text, OUT next_process text, OUT next_fence bigint, OUT next_valid_ms bigint, OUT dead bigint)
LANGUAGE plpgsql SET enable_seqscan = off AS $$
#variable_conflict use_column
DECLARE
    k      record;
    h      record;
    moment timestamptz;
    gone   bigint;
BEGIN
    fence := 0; valid_ms := 0; next_ticket := ''; next_process := ''; next_fence := 0; next_valid_ms := 0; dead := 0;
    LOOP
        SELECT ticket, fence, expires_at, head, waiting INTO k FROM lock_key WHERE key = p_key FOR NO KEY UPDATE;
        EXIT WHEN FOUND;
        INSERT INTO lock_key (key) VALUES (p_key) ON CONFLICT (key) DO NOTHING;
    END LOOP;
    moment := clock_timestamp();

    IF k.ticket IS NOT NULL AND k.expires_at <= moment THEN
        h := lock_hand_over(p_key, k.head, p_process);
        next_ticket := h.next_ticket; next_process := h.next_process; next_fence := h.next_fence; next_valid_ms := h.next_valid_ms;
        dead := h.dead;
        SELECT ticket, fence, expires_at, head, waiting INTO k FROM lock_key WHERE key = p_key;
    END IF;
    IF k.ticket = p_ticket THEN
        state := 'held';
        fence := k.fence;
        valid_ms := floor(extract(epoch FROM k.expires_at - moment) * 1000);
        RETURN;
    END IF;
    IF k.ticket IS NULL THEN
        state := 'held';
        fence := nextval('lock_fence');
        valid_ms := least(p_ttl_ms, p_hold_ms);
        UPDATE lock_key SET ticket = p_ticket, name = p_name, fence = lock_enter.fence, since = moment,
            expires_at = moment + lock_enter.valid_ms * interval '1 millisecond',
            hold_until = moment + p_hold_ms * interval '1 millisecond'
            WHERE key = p_key;
        RETURN;
    END IF;
    IF NOT p_wait THEN
        state := 'busy';
        RETURN;
    END IF;
    IF k.waiting >= p_queue AND NOT EXISTS (SELECT FROM lock_ticket WHERE id = p_ticket) THEN
        -- Places of the dead are free.
        DELETE FROM lock_ticket t WHERE t.key = p_key AND NOT EXISTS (
            SELECT FROM lock_process p
            WHERE p.id = t.process AND greatest(p.live_until, pg_postmaster_start_time() + interval '2 seconds') > moment);
        GET DIAGNOSTICS gone = ROW_COUNT;
        dead := dead + gone;
        UPDATE lock_key SET waiting = waiting - gone WHERE key = p_key;
        IF k.waiting - gone >= p_queue THEN
            state := 'full';
            RETURN;
        END IF;
    END IF;
    IF NOT EXISTS (SELECT FROM lock_process WHERE id = p_process AND live_until > moment + p_live_ms * interval '0.5 millisecond') THEN
        INSERT INTO lock_process (id, name, live_until) VALUES (p_process, p_name, moment + p_live_ms * interval '1 millisecond')
            ON CONFLICT (id) DO UPDATE SET live_until = clock_timestamp() + p_live_ms * interval '1 millisecond';
    END IF;
    INSERT INTO lock_ticket (id, key, process, ttl_ms, hold_ms, since) VALUES (p_ticket, p_key, p_process, p_ttl_ms, p_hold_ms, moment)
        ON CONFLICT (id) DO NOTHING;
    IF FOUND THEN
        UPDATE lock_key SET waiting = waiting + 1 WHERE key = p_key;
    END IF;
    IF next_ticket = '' THEN
        -- A place in the queue that a crash of the server forgets is taken again by whoever waited there. A lease is never
        -- given before its ticket is on disk as well, since commits are written in order.
        PERFORM set_config('synchronous_commit', 'off', true);
    END IF;
    state := 'queued';
END $$;

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
            ON CONFLICT (id) DO UPDATE SET live_until = excluded.live_until;
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

-- Says that a process lives. Forgotten in a crash of the server it only costs the next heartbeat.
CREATE OR REPLACE FUNCTION lock_beat(p_process text, p_name text, p_live_ms bigint) RETURNS void LANGUAGE plpgsql AS $$
BEGIN
    PERFORM set_config('synchronous_commit', 'off', true);
    INSERT INTO lock_process (id, name, live_until)
        VALUES (p_process, p_name, clock_timestamp() + p_live_ms * interval '1 millisecond')
        ON CONFLICT (id) DO UPDATE SET live_until = excluded.live_until;
END $$;

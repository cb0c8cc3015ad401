-- Fair keyed locks: what lock/postgres stands on. Each operation that moves a lock is one function, so that it costs one round
-- trip, is planned once per connection even behind a transaction pooler, and sees what came before it at the row lock of the key.
-- A plan made while a table was nearly empty would read all of it, and be kept for a queue of a thousand: without
-- enable_seqscan it takes the index.
--
-- Here, and nowhere else, the database's clock decides. Leases compare moments of different machines, whose clocks differ;
-- the one clock they share is this one. clock_timestamp() and not now(): a transaction may have waited for a row lock, and a
-- lease that is counted from before the wait would be over before it began.
--
-- A transaction locks the row of one key, and after it at most that of one process, so no two can wait for each other.

-- Fences come from one sequence, taken under the row lock of the key: they grow for each key, also when its row was swept away
-- meanwhile. It must not cache: a connection with numbers in store would hand out old ones.
CREATE SEQUENCE lock_fence CACHE 1;

-- Who waits. One heartbeat counts for all that wait in the process, however many.
CREATE TABLE lock_process (
    id         text PRIMARY KEY,
    name       text NOT NULL, -- for people: host and process number
    live_until timestamptz NOT NULL
) WITH (fillfactor = 50);

-- Package lock checks keys. A CHECK here would be parsed anew by each statement that writes a row, a tenth of its time.
CREATE TABLE lock_key (
    key        text PRIMARY KEY,
    ticket     text,                        -- the holder's; NULL: free, and then nobody waits
    name       text NOT NULL DEFAULT '',    -- the process of the holder, for people
    fence      bigint NOT NULL DEFAULT 0,
    since      timestamptz NOT NULL DEFAULT 'epoch',
    expires_at timestamptz NOT NULL DEFAULT 'epoch',
    hold_until timestamptz NOT NULL DEFAULT 'epoch', -- expires_at never passes it
    -- Of the last ticket that came to the head: those who wait have higher ones, so that the search for the next begins after
    -- the rows that are dead but not yet vacuumed.
    head       bigint NOT NULL DEFAULT 0,
    waiting    bigint NOT NULL DEFAULT 0
) WITH (fillfactor = 50);

CREATE TABLE lock_ticket (
    number  bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY, -- given under the row lock of the key: the order of arrival
    id      text NOT NULL UNIQUE,
    key     text NOT NULL,
    process text NOT NULL,
    ttl_ms  bigint NOT NULL,
    hold_ms bigint NOT NULL,
    since   timestamptz NOT NULL
);
CREATE INDEX lock_ticket_queue ON lock_ticket (key, number);

-- The caller has locked the row of the key. Its lease ends, and the first ticket whose process is alive gets one; dead ones
-- before it are removed and counted.
--
-- The new lease first lasts only as long as that process was last known to live: it has not yet said that it noticed. Its
-- first touch makes it a whole one.
--
-- It is woken by a notification unless it is in the caller's own process (p_by). A commit with a notification holds a lock over
-- all others of the kind until it is on disk; a second transaction for it would cost every hand-over a round trip more.
CREATE FUNCTION lock_hand_over(p_key text, p_head bigint, p_by text, OUT next_ticket text, OUT next_process text,
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
CREATE FUNCTION lock_enter(p_key text, p_ticket text, p_process text, p_name text, p_live_ms bigint, p_ttl_ms bigint,
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
CREATE FUNCTION lock_beat(p_process text, p_name text, p_live_ms bigint) RETURNS void LANGUAGE plpgsql AS $$
BEGIN
    PERFORM set_config('synchronous_commit', 'off', true);
    INSERT INTO lock_process (id, name, live_until)
        VALUES (p_process, p_name, clock_timestamp() + p_live_ms * interval '1 millisecond')
        ON CONFLICT (id) DO UPDATE SET live_until = excluded.live_until;
END $$;

-- Ends the lease of its owner and gives the next one. was: owner; late, if the lease had run out; other, and nothing changed.
CREATE FUNCTION lock_release(p_key text, p_ticket text, p_process text, OUT was text,
    OUT next_ticket text, OUT next_process text, OUT next_fence bigint, OUT next_valid_ms bigint, OUT dead bigint)
LANGUAGE plpgsql SET enable_seqscan = off AS $$
#variable_conflict use_column
DECLARE
    k record;
    h record;
BEGIN
    next_ticket := ''; next_process := ''; next_fence := 0; next_valid_ms := 0; dead := 0;
    SELECT ticket, expires_at, head INTO k FROM lock_key WHERE key = p_key FOR NO KEY UPDATE;
    IF k.ticket IS DISTINCT FROM p_ticket THEN
        was := 'other';
        RETURN;
    END IF;
    was := CASE WHEN k.expires_at > clock_timestamp() THEN 'owner' ELSE 'late' END;
    h := lock_hand_over(p_key, k.head, p_process);
    next_ticket := h.next_ticket; next_process := h.next_process; next_fence := h.next_fence; next_valid_ms := h.next_valid_ms;
    dead := h.dead;
END $$;

-- Gives up a ticket, wherever it has got to.
CREATE FUNCTION lock_leave(p_key text, p_ticket text, p_process text,
    OUT next_ticket text, OUT next_process text, OUT next_fence bigint, OUT next_valid_ms bigint, OUT dead bigint)
LANGUAGE plpgsql SET enable_seqscan = off AS $$
#variable_conflict use_column
DECLARE
    k record;
    h record;
BEGIN
    next_ticket := ''; next_process := ''; next_fence := 0; next_valid_ms := 0; dead := 0;
    SELECT ticket, expires_at, head INTO k FROM lock_key WHERE key = p_key FOR NO KEY UPDATE;
    DELETE FROM lock_ticket WHERE id = p_ticket;
    IF FOUND THEN
        UPDATE lock_key SET waiting = waiting - 1 WHERE key = p_key;
        PERFORM set_config('synchronous_commit', 'off', true); -- forgotten, it is left to whoever comes to it
    ELSIF k.ticket = p_ticket THEN
        h := lock_hand_over(p_key, k.head, p_process);
        next_ticket := h.next_ticket; next_process := h.next_process; next_fence := h.next_fence; next_valid_ms := h.next_valid_ms;
        dead := h.dead;
    END IF;
END $$;

-- Gives the next lease if the present one is over.
CREATE FUNCTION lock_advance(p_key text, p_process text,
    OUT next_ticket text, OUT next_process text, OUT next_fence bigint, OUT next_valid_ms bigint, OUT dead bigint)
LANGUAGE plpgsql SET enable_seqscan = off AS $$
#variable_conflict use_column
DECLARE
    k record;
    h record;
BEGIN
    next_ticket := ''; next_process := ''; next_fence := 0; next_valid_ms := 0; dead := 0;
    SELECT ticket, expires_at, head INTO k FROM lock_key WHERE key = p_key FOR NO KEY UPDATE;
    IF k.ticket IS NOT NULL AND k.expires_at <= clock_timestamp() THEN
        h := lock_hand_over(p_key, k.head, p_process);
        next_ticket := h.next_ticket; next_process := h.next_process; next_fence := h.next_fence; next_valid_ms := h.next_valid_ms;
        dead := h.dead;
    END IF;
END $$;

-- Removes rows that say nothing any more: keys long free, processes long dead.
CREATE FUNCTION lock_sweep(p_idle_ms bigint) RETURNS void LANGUAGE plpgsql AS $$
DECLARE
    before timestamptz := clock_timestamp() - p_idle_ms * interval '1 millisecond';
BEGIN
    DELETE FROM lock_key WHERE ticket IS NULL AND since < before;
    DELETE FROM lock_process p WHERE p.live_until < before AND NOT EXISTS (SELECT FROM lock_ticket t WHERE t.process = p.id);
END $$;

-- The last look at all invariants that a worker has taken, and what it found: one process looks at a time, the others show this.
CREATE TABLE reconcile_run (
    one        boolean PRIMARY KEY DEFAULT true CHECK (one),  -- there is one row
    began_at   timestamptz NOT NULL,                          -- of the newest, which may be under way or dead
    checked_to timestamptz,                                   -- what changed before is checked; NULL: nothing is yet
    ended_at   timestamptz,                                   -- of the last that came to its end
    report     jsonb,                                         -- of that one
    CONSTRAINT ended_has_report CHECK ((ended_at IS NULL) = (report IS NULL))
);

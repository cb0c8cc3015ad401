-- What operators did by commands that change something: noted before it is done (cmd/holdfast/noted.go).
CREATE TABLE operator_command (
    id        bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    at        timestamptz NOT NULL,
    operator  text NOT NULL,                        -- by the name of the machine that it ran on: nothing proves it
    role      text NOT NULL DEFAULT session_user,   -- by that of PostgreSQL
    command   text NOT NULL,
    arguments text[] NOT NULL,
    ended_at  timestamptz,                          -- NULL: it is under way, or was broken off
    failure   text,                                 -- NULL: it was done
    CONSTRAINT failure_ends CHECK (failure IS NULL OR ended_at IS NOT NULL)
);

-- What all processes have to know of a Lightning node, besides what each of them can ask it. Nodes that only issue are here too:
-- a name that suddenly is another node is dangerous whatever it does.
CREATE TABLE lightning_node (
    name            text PRIMARY KEY CHECK (name <> ''),
    public_key      text,                           -- of the first that answered under the name, in hex; NULL: none has
    other_key       text,                           -- of the one that answers under the name now, if it is not that one
    draining        boolean NOT NULL DEFAULT false, -- it gets no new payments
    disabled_reason text,                           -- NULL: enabled
    cooling_until   timestamptz,                    -- it gets no payment before
    cooling_reason  text NOT NULL DEFAULT '',
    changed_at      timestamptz NOT NULL,           -- of the keys, draining or disabled_reason
    CONSTRAINT another_node_is_disabled CHECK (other_key IS NULL OR disabled_reason IS NOT NULL)
);

-- Probes for routes that have not come back: each locks as much money as the payment it is for, and its receiver decides for how long.
CREATE TABLE route_probe (
    id          bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    receiver_id bigint NOT NULL REFERENCES usr (id),
    amount_msat bigint NOT NULL CHECK (amount_msat > 0),
    until       timestamptz NOT NULL                      -- by then it has come back, whatever the receiver does
);
CREATE INDEX route_probe_receiver ON route_probe (receiver_id, until);

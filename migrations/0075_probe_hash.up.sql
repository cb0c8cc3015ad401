-- By which node and under which hash a probe went out: the node can be asked whether it has come back. NULL for those of before.
ALTER TABLE route_probe ADD COLUMN node text, ADD COLUMN hash bytea CHECK (octet_length(hash) = 32);
CREATE INDEX route_probe_node ON route_probe (node, id);

-- Operators look for what was not paid (holdfast actions list --state FAILED). Where nearly everything was, that is looked for in the whole history otherwise.
-- What is paid never enters this index.
CREATE INDEX paid_action_not_paid ON paid_action (state, id) WHERE state IN ('FAILED', 'RETRYING');

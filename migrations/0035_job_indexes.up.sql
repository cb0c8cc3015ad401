-- What every job paid for three times, when it was stored, taken and done, and nobody used: with these two an insert cost twice as much. River has
-- them for searches by arguments and metadata, which its page does not offer and this service does not make, but for one: where the request
-- of an action was traced to. That has an index of its own, which jobs without a trace are not in.
DROP INDEX river_job_args_index;
DROP INDEX river_job_metadata_index;
CREATE INDEX river_job_trace ON river_job (((args->>'action')::bigint)) WHERE kind = 'advance' AND metadata->>'traceparent' IS NOT NULL;

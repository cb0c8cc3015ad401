DROP INDEX river_job_trace;
CREATE INDEX river_job_metadata_index ON river_job USING GIN (metadata);
CREATE INDEX river_job_args_index ON river_job USING GIN (args);

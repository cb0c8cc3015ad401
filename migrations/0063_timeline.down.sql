DROP FUNCTION skip_numbers(bigint);
DROP FUNCTION server_timeline();
DROP TABLE timeline;

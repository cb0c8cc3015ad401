DROP FUNCTION vote_micros(bigint, bigint);

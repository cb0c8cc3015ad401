-- The weight of one person's zaps on one item in one direction, in millionths: log10(total in sats, at least 1) × trust. Each zap adds the difference to the one
-- before, log10(new ÷ max(old, 1)) × trust (spec 02 §2.4); as whole numbers these add up to the same weight in whatever order the zaps come. The statement that
-- adds to the totals calls it, so that nobody waits for what they were.
CREATE FUNCTION vote_micros(total_msat bigint, trust_micros bigint) RETURNS bigint LANGUAGE sql IMMUTABLE PARALLEL SAFE AS $$
    SELECT round(log(greatest(total_msat / 1000, 1)::double precision) * trust_micros)::bigint
$$;

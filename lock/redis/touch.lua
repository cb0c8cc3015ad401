-- How long the lease lasts from now on; 0 for one that is over, or another's.
local key, ticket, ttl = ARGV[1], ARGV[2], tonumber(ARGV[3])
local h = holder(key)
if not h or h[1] ~= ticket then return '0' end
local valid = math.min(ttl, redis.call('PTTL', P .. 'h:' .. key))
if valid <= 0 then return '0' end
redis.call('PEXPIRE', P .. 'l:' .. key, whole(valid))
return whole(valid)

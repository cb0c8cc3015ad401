local key, ticket, process, live, ttl, hold, most, wait, clock =
  ARGV[1], ARGV[2], ARGV[3], ARGV[4], tonumber(ARGV[5]), tonumber(ARGV[6]), tonumber(ARGV[7]), ARGV[8], ARGV[9]
local queue, entry = P .. 'q:' .. key, ticket .. ' ' .. process .. ' ' .. ARGV[5] .. ' ' .. ARGV[6]

local following = none
local h = holder(key)
if not h and redis.call('EXISTS', queue) == 1 then
  following = handOver(key, process, clock) -- the lease ran out, and those who wait come first
  h = holder(key)
end
if not h then
  local fence, valid = grant(key, ticket, process, ttl, hold, clock)
  return {'held', fence, whole(valid), following}
end
if h[1] == ticket then
  return {'held', h[3], whole(redis.call('PTTL', P .. 'l:' .. key)), following}
end
if wait ~= '1' then return {'busy', '0', '0', following} end
-- Asked again, whoever waits keeps their place. Only LINSERT says whether it is in the list without handing the whole list out.
if redis.call('LINSERT', queue, 'AFTER', entry, entry) > 0 then
  redis.call('LREM', queue, 1, entry)
  return {'queued', '0', '0', following}
end
if redis.call('LLEN', queue) >= most then
  local dead = 0 -- places of the dead are free
  for _, other in ipairs(redis.call('LRANGE', queue, 0, -1)) do
    local owner = split(other)[2]
    if owner ~= process and redis.call('EXISTS', P .. 'p:' .. owner) == 0 then
      dead = dead + redis.call('LREM', queue, 1, other)
    end
  end
  following[5] = following[5] + dead
  if redis.call('LLEN', queue) >= most then return {'full', '0', '0', following} end
end
if redis.call('PTTL', P .. 'p:' .. process) < tonumber(live) / 2 then
  redis.call('SET', P .. 'p:' .. process, '1', 'PX', live)
end
redis.call('RPUSH', queue, entry)
redis.call('PEXPIRE', queue, 3600000) -- refreshed by every look: a queue without anybody alive goes
return {'queued', '0', '0', following}

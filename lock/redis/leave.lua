local key, ticket, process, clock = ARGV[1], ARGV[2], ARGV[3], ARGV[4]
local h = holder(key)
if h and h[1] == ticket then return handOver(key, process, clock) end
for _, entry in ipairs(redis.call('LRANGE', P .. 'q:' .. key, 0, -1)) do
  if split(entry)[1] == ticket then redis.call('LREM', P .. 'q:' .. key, 1, entry) end
end
return handOn(key, process, clock)

-- How tickets of one key stand: for each, its state; then the fence and the rest of the lease, for the one that holds.
local key = ARGV[1]
local waits = {}
for _, entry in ipairs(redis.call('LRANGE', P .. 'q:' .. key, 0, -1)) do waits[split(entry)[1]] = true end
if next(waits) then redis.call('PEXPIRE', P .. 'q:' .. key, 3600000) end
local h = holder(key)
local states = {}
for i = 2, #ARGV do
  if h and h[1] == ARGV[i] then states[#states + 1] = 'held'
  elseif not waits[ARGV[i]] then states[#states + 1] = 'gone'
  elseif h then states[#states + 1] = 'queued'
  else states[#states + 1] = 'stale' end
end
if not h then return {states, '0', '0'} end
return {states, h[3], whole(math.max(0, redis.call('PTTL', P .. 'l:' .. key)))}

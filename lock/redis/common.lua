-- Common to all scripts. Each runs as a whole, with nothing in between. Commands of Redis 2.6 alone.
--
-- Keys, after a prefix with a hash tag, so that a cluster keeps them together:
--   l:KEY  the lease: "TICKET PROCESS FENCE", expires with it
--   h:KEY  expires with the longest hold
--   q:KEY  the queue: a list of "TICKET PROCESS TTL HOLD"
--   p:PROCESS  expires when the process counts as dead
--   fence  the counter of fences
local P = KEYS[1]

local function split(text)
  local parts = {}
  for part in string.gmatch(text, '%S+') do parts[#parts + 1] = part end
  return parts
end

local function whole(n) return string.format('%.0f', n) end

-- A fence is one more than the last, and never below the caller's clock, in microseconds. Redis may have lost the counter, or
-- have an older copy of it: the clock is above all fences that were given before, as long as fewer than a million are given in a
-- second.
local function nextFence(clock)
  local fence = redis.call('INCR', P .. 'fence')
  if fence < tonumber(clock) then
    redis.call('SET', P .. 'fence', clock)
    fence = tonumber(clock)
  end
  return fence
end

local function grant(key, ticket, process, valid, hold, clock)
  local fence = whole(nextFence(clock))
  valid = math.min(valid, hold)
  redis.call('SET', P .. 'l:' .. key, ticket .. ' ' .. process .. ' ' .. fence, 'PX', whole(valid))
  redis.call('SET', P .. 'h:' .. key, '1', 'PX', whole(hold))
  return fence, valid
end

-- Gives the key to the first in the queue whose process is alive: ticket, process, fence, how long, how many were dead. The
-- lease first lasts only as long as that process was last known to live; its first touch makes it a whole one. It is told,
-- unless it is the caller's own (by).
local function handOver(key, by, clock)
  local dead = 0
  while true do
    local first = redis.call('LPOP', P .. 'q:' .. key)
    if not first then
      redis.call('DEL', P .. 'l:' .. key, P .. 'h:' .. key)
      return {'', '', '0', '0', dead}
    end
    local e = split(first)
    local live = redis.call('PTTL', P .. 'p:' .. e[2])
    if e[2] == by then live = math.max(live, 1000) end -- it is there to ask, whatever became of its heartbeats
    if live > 10 then
      local fence, valid = grant(key, e[1], e[2], math.min(live, tonumber(e[3])), tonumber(e[4]), clock)
      if e[2] ~= by then redis.call('PUBLISH', P .. 'w:' .. e[2], e[1] .. ' ' .. fence) end
      return {e[1], e[2], fence, whole(valid), dead}
    end
    dead = dead + 1
  end
end

local function holder(key)
  local lease = redis.call('GET', P .. 'l:' .. key)
  if not lease then return nil end
  return split(lease)
end

local none = {'', '', '0', '0', 0}

-- Hands a key over whose lease ran out, if somebody waits for it. Who comes with the word that it is over may come a moment after Redis has forgotten it: those
-- who wait would find that out by themselves, but only at their next look.
local function handOn(key, by, clock)
  if holder(key) or redis.call('EXISTS', P .. 'q:' .. key) == 0 then return none end
  return handOver(key, by, clock)
end

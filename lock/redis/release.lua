-- A lease that ran out is forgotten, so a late release is one by somebody who is not the owner.
local key, ticket, process, clock = ARGV[1], ARGV[2], ARGV[3], ARGV[4]
local h = holder(key)
if h and h[1] == ticket then return {'owner', handOver(key, process, clock)} end
return {'other', handOn(key, process, clock)}

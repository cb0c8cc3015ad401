-- A lease that ran out is forgotten, so a late release is one by somebody who is not the owner.
local h = holder(ARGV[1])
if not h or h[1] ~= ARGV[2] then return {'other', none} end
return {'owner', handOver(ARGV[1], ARGV[3], ARGV[4])}

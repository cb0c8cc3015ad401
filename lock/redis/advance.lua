if holder(ARGV[1]) or redis.call('EXISTS', P .. 'q:' .. ARGV[1]) == 0 then return none end
return handOver(ARGV[1], ARGV[2], ARGV[3])

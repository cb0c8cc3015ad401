return handOn(ARGV[1], ARGV[2], ARGV[3])

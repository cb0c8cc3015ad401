package redis

import (
	"context"

	"github.com/redis/go-redis/v9"
)

// CountTrips calls count at each round trip to the server from now on, except for those that begin a connection.
func (s *Store) CountTrips(count func()) { s.client.AddHook(trips(count)) }

type trips func()

func (trips) DialHook(next redis.DialHook) redis.DialHook { return next }

func (count trips) ProcessHook(next redis.ProcessHook) redis.ProcessHook {
	return func(ctx context.Context, command redis.Cmder) error {
		if command.Name() != "hello" {
			count()
		}
		return next(ctx, command)
	}
}

func (count trips) ProcessPipelineHook(next redis.ProcessPipelineHook) redis.ProcessPipelineHook {
	return func(ctx context.Context, commands []redis.Cmder) error {
		count()
		return next(ctx, commands)
	}
}

package main

import (
	"context"
	"errors"
	"fmt"

	"github.com/a-seed-a7aed72f/holdfast/internal/turns"
	"github.com/a-seed-a7aed72f/holdfast/lock"
	"github.com/a-seed-a7aed72f/holdfast/lock/postgres"
	"github.com/a-seed-a7aed72f/holdfast/lock/redis"
	"github.com/a-seed-a7aed72f/holdfast/paidaction"
)

// openLocker opens the lock that orders each payer's requests, if that is wanted, and that leases nodes to payments.
// A process with its locks in memory refuses to run beside another one. An unreachable database or Redis is not an error
// here, but only when a lock is asked for.
func (s *service) openLocker(ctx context.Context) error {
	if !s.ordered() && !s.config.Sends() {
		return nil
	}
	store, err := openLockStore(ctx, s.environment)
	if err != nil {
		return err
	}
	settings := s.config.Lock.Settings()
	settings.Metrics, settings.Log = lock.NewMetrics(s.registry), s.log
	if s.locker, err = lock.New(store, settings); err != nil {
		return errors.Join(err, store.Close())
	}
	return nil
}

// ordered reports whether the requests of one payer are put in order. Only a process with the role api gets requests.
func (s *service) ordered() bool { return s.config.Lock.Enabled && s.config.Has("api") }

// turns are nil if nobody waits for anybody.
func (s *service) turns() paidaction.Turns {
	if !s.ordered() {
		return nil
	}
	return turns.New(s.locker)
}

func openLockStore(ctx context.Context, e *environment) (lock.Store, error) {
	c, direct := e.config, e.config.Direct()
	switch c.Lock.Strategy {
	case "memory":
		store, err := postgres.OpenMemory(ctx, string(direct), c.Lock.MaxKeys)
		if err != nil {
			return nil, fmt.Errorf("%w (HOLDFAST_LOCK_STRATEGY)", err)
		}
		return store, nil
	case "redis":
		store, err := redis.Open(string(c.Lock.RedisURL))
		if err != nil {
			return nil, err
		}
		return postgres.TakingPart(store, string(direct), e.log)
	default:
		return postgres.Open(ctx, postgres.Options{DSN: string(c.DatabaseURL), Direct: string(direct), Guard: e.timeline.Guard})
	}
}

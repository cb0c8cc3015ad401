package main

import (
	"context"
	"errors"
	"time"

	"github.com/bsm/redislock"
	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/redis/go-redis/v9"

	"github.com/a-seed-a7aed72f/holdfast/lock"
	"github.com/a-seed-a7aed72f/holdfast/lock/postgres"
	ours "github.com/a-seed-a7aed72f/holdfast/lock/redis"
)

// contender is one way to lock. Many workers call acquire at once.
type contender struct {
	name    string
	acquire func(ctx context.Context, worker int, key string) (release func() error, err error)
	close   func()
}

// processes is how many Lockers share the workers, as that many instances of the service would.
const processes = 4

// lockers is our lock on the stores that open makes.
func lockers(name string, open func() (lock.Store, error)) (contender, error) {
	var all []*lock.Locker
	closeAll := func() {
		for _, l := range all {
			_ = l.Close()
		}
	}
	for range processes {
		store, err := open()
		if err == nil {
			var l *lock.Locker
			if l, err = lock.New(store, lock.Settings{}); err == nil {
				all = append(all, l)
			}
		}
		if err != nil {
			closeAll()
			return contender{}, err
		}
	}
	return contender{name, func(ctx context.Context, worker int, key string) (func() error, error) {
		lease, err := all[worker%processes].Acquire(ctx, key, lock.Options{})
		if err != nil {
			return nil, err
		}
		return func() error { return lease.Release(ctx) }, nil
	}, closeAll}, nil
}

// advisory locks in a transaction that stays open while the lock is held: fair and fast, but every waiter needs a
// connection.
func advisory(pool *pgxpool.Pool) contender {
	return contender{"pg_advisory_xact_lock", func(ctx context.Context, _ int, key string) (func() error, error) {
		tx, err := pool.Begin(ctx)
		if err != nil {
			return nil, err
		}
		if _, err := tx.Exec(ctx, "SELECT pg_advisory_xact_lock(hashtextextended($1, 0))", key); err != nil {
			return nil, errors.Join(err, tx.Rollback(ctx))
		}
		return func() error { return tx.Commit(ctx) }, nil
	}, func() {}}
}

// redislockRetry is how often redislock tries again. It has no queue, so a shorter interval is less fair and more load.
const redislockRetry = 10 * time.Millisecond

func bsm(client *redis.Client) contender {
	locker := redislock.New(client)
	return contender{"bsm/redislock, retry 10 ms", func(ctx context.Context, _ int, key string) (func() error, error) {
		limited, cancel := context.WithTimeout(ctx, 30*time.Second)
		defer cancel()
		held, err := locker.Obtain(limited, "bench:bsm:"+key, 10*time.Second, &redislock.Options{RetryStrategy: redislock.LinearBackoff(redislockRetry)})
		if err != nil {
			return nil, err
		}
		return func() error { return held.Release(ctx) }, nil
	}, func() {}}
}

var freeOwn = redis.NewScript(`if redis.call('get', KEYS[1]) == ARGV[1] then return redis.call('del', KEYS[1]) else return 0 end`)

// seedQueue is the lock of the nonce ordering in the relay: SET NX for the owner, a LIST for the queue, one look every
// 50 ms.
func seedQueue(client *redis.Client) contender {
	return contender{"polling: queue, 50 ms", func(ctx context.Context, worker int, key string) (func() error, error) {
		session := newSession()
		queue, owner := "bench:q:"+key, "bench:o:"+key
		if err := client.RPush(ctx, queue, session).Err(); err != nil {
			return nil, err
		}
		err := poll(ctx, 50*time.Millisecond, func() (bool, error) {
			first, err := client.LIndex(ctx, queue, 0).Result()
			if err != nil || first != session {
				return false, err
			}
			ok, err := setNX(ctx, client, owner, session, 30*time.Second)
			if err == nil && ok {
				err = client.LPop(ctx, queue).Err()
			}
			return ok, err
		})
		if err != nil {
			return nil, err
		}
		return func() error { return freeOwn.Run(ctx, client, []string{owner}, session).Err() }, nil
	}, func() {}}
}

// seedPoll is the lock of the trading bot: SET NX, tried every 100 ms.
func seedPoll(client *redis.Client) contender {
	return contender{"polling: SET NX, 100 ms", func(ctx context.Context, worker int, key string) (func() error, error) {
		session, owner := newSession(), "bench:p:"+key
		err := poll(ctx, 100*time.Millisecond, func() (bool, error) { return setNX(ctx, client, owner, session, 10*time.Second) })
		if err != nil {
			return nil, err
		}
		return func() error { return freeOwn.Run(ctx, client, []string{owner}, session).Err() }, nil
	}, func() {}}
}

func setNX(ctx context.Context, client *redis.Client, key, value string, ttl time.Duration) (bool, error) {
	err := client.SetArgs(ctx, key, value, redis.SetArgs{Mode: "NX", TTL: ttl}).Err()
	if errors.Is(err, redis.Nil) {
		return false, nil
	}
	return err == nil, err
}

func poll(ctx context.Context, every time.Duration, try func() (bool, error)) error {
	again := time.NewTicker(every)
	defer again.Stop()
	for {
		if ok, err := try(); ok || err != nil {
			return err
		}
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-again.C:
		}
	}
}

// contenders are all contenders, ours first.
func contenders(ctx context.Context, dsn, redisURL string, pool *pgxpool.Pool, client *redis.Client) ([]contender, error) {
	memory := lock.NewMemory(0)
	var all []contender
	for _, o := range []struct {
		name string
		open func() (lock.Store, error)
	}{
		{"memory", func() (lock.Store, error) { return memory, nil }},
		{"postgres", func() (lock.Store, error) { return postgres.Open(ctx, postgres.Options{DSN: dsn}) }},
		{"redis", func() (lock.Store, error) { return ours.Open(redisURL) }},
	} {
		c, err := lockers(o.name, o.open)
		if err != nil {
			return all, err
		}
		all = append(all, c)
	}
	return append(all, advisory(pool), bsm(client), seedQueue(client), seedPoll(client)), nil
}

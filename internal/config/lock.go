package config

import (
	"cmp"
	"errors"
	"net/url"
	"time"

	"github.com/a-seed-a7aed72f/holdfast/graph"
	"github.com/a-seed-a7aed72f/holdfast/lock"
)

// Lock says whether those requests of one payer that end in an invoice are served in order, and how the lock that
// orders them works (docs/locks.md). Its defaults are those of package lock.
type Lock struct {
	Enabled   bool     `help:"Make the invoices of one payer in the order of the requests." default:"true" negatable:""`
	Strategy  string   `help:"Where queues are kept: memory (for a single instance), postgres or redis." enum:"memory,postgres,redis" default:"postgres"`
	RedisURL  Redis    `name:"redis-url" help:"Redis to use, as a URL, for the strategy redis." placeholder:"URL"`
	DirectURL Database `name:"direct-url" help:"URL of the database that bypasses any pooler, for LISTEN, for the guard of locks in memory and for migrations. Default: the database URL." placeholder:"URL"`

	MaxHold  time.Duration `help:"The longest that a lock is held; after that the next request goes ahead." default:"30s"`
	TTL      time.Duration `name:"ttl" help:"How long the lock of a dead process stays taken." default:"10s"`
	MaxWait  time.Duration `help:"Longest wait of a request for its turn." default:"15s"`
	MaxQueue int           `help:"Most requests of one payer that may wait." default:"1000"`
	MaxKeys  int           `help:"Most payers whose requests are in progress at once, for the strategy memory." default:"100000"`

	Heartbeat    time.Duration `help:"How often a process with waiting requests reports that it is alive." default:"400ms"`
	Missed       int           `help:"How many missed heartbeats make it count as dead." default:"3"`
	PollInterval time.Duration `help:"How often waiting requests poll when they cannot be woken." default:"50ms"`
}

// Direct is the database without any pooler in between.
func (c *Config) Direct() Database { return cmp.Or(c.Lock.DirectURL, c.DatabaseURL) }

// Settings are the lock's.
func (l Lock) Settings() lock.Settings {
	return lock.Settings{
		Options:   lock.Options{TTL: l.TTL, MaxWait: l.MaxWait, MaxHold: l.MaxHold, MaxQueue: l.MaxQueue},
		Heartbeat: l.Heartbeat, Missed: l.Missed, Poll: l.PollInterval,
	}
}

// check refuses settings that the lock cannot work with. The lock orders requests, and it also leases nodes to outgoing
// payments.
func (l Lock) check(leases bool, refuse func(when bool, format string, args ...any)) {
	if !l.Enabled && !leases {
		return
	}
	refuse(l.Strategy == "redis" && l.RedisURL == "",
		"Locks in Redis need a server: set HOLDFAST_LOCK_REDIS_URL, or HOLDFAST_LOCK_STRATEGY to postgres.")
	refuse(l.Strategy != "redis" && l.RedisURL != "",
		"A Redis is given, but locks are kept elsewhere: set HOLDFAST_LOCK_STRATEGY to redis, or unset HOLDFAST_LOCK_REDIS_URL.")
	refuse(l.MaxHold < time.Second, "Nobody could hold a lock until the node answers: set HOLDFAST_LOCK_MAX_HOLD to 1s or more.")
	refuse(l.TTL < 50*time.Millisecond || l.TTL > 10*time.Minute,
		"A lock would end before it could be renewed, or stay for long with a process that died: set HOLDFAST_LOCK_TTL from 50ms to 10m.")
	refuse(l.MaxWait <= 0, "Nobody could wait for a turn: set HOLDFAST_LOCK_MAX_WAIT above 0.")
	refuse(l.MaxWait >= graph.Patience,
		"A request would be given up before it is told that its turn does not come: set HOLDFAST_LOCK_MAX_WAIT below %s.", graph.Patience)
	refuse(l.MaxQueue < 1, "Nobody could wait for a turn: set HOLDFAST_LOCK_MAX_QUEUE to 1 or more.")
	refuse(l.MaxKeys < 1, "No lock could be kept: set HOLDFAST_LOCK_MAX_KEYS to 1 or more.")
	refuse(l.Heartbeat < 10*time.Millisecond || l.Heartbeat > 5*time.Second, "Set HOLDFAST_LOCK_HEARTBEAT to between 10ms and 5s.")
	refuse(l.Missed < 1, "Every process would count as dead: set HOLDFAST_LOCK_MISSED to 1 or more.")
	refuse(l.Heartbeat > 0 && l.Missed > int(10*time.Minute/l.Heartbeat), // multiplied, it could overflow
		"A process that died would count as alive for more than ten minutes: set HOLDFAST_LOCK_MISSED times HOLDFAST_LOCK_HEARTBEAT lower.")
	refuse(l.PollInterval < time.Millisecond || l.PollInterval > 5*time.Second, "Set HOLDFAST_LOCK_POLL_INTERVAL to between 1ms and 5s.")
}

// Redis is the address of a Redis server; its password is not shown.
type Redis string

// UnmarshalText implements encoding.TextUnmarshaler.
func (r *Redis) UnmarshalText(text []byte) error {
	u, err := url.Parse(string(text))
	if err != nil || (u.Scheme != "redis" && u.Scheme != "rediss") || u.Host == "" {
		// Without quoting it: it may hold a password.
		return errors.New("the Redis must be given as a URL, redis://USER:PASSWORD@HOST:PORT or rediss://… with TLS; characters such as @ / : in the password must be %-encoded")
	}
	*r = Redis(text)
	return nil
}

// String is the address without the password.
func (r Redis) String() string { return Database(r).String() }

package lock

import (
	"cmp"
	"fmt"
	"log/slog"
	"os"
	"time"
)

// Unlimited as the longest wait or hold means no limit.
const Unlimited time.Duration = -1

// forever is Unlimited for stores, which count in milliseconds.
const forever = 100 * 365 * 24 * time.Hour

// Options say how to acquire. Zero values are taken from the Locker's settings, and zero values there from the
// defaults.
type Options struct {
	// TTL is how long the lease lasts without a touch (default 10 s, at least 50 ms). After that the lock of a dead
	// holder goes to the next. The lease is touched automatically, three times in each TTL.
	TTL time.Duration
	// MaxWait is the longest wait (default 15 s).
	MaxWait time.Duration
	// MaxHold is the longest hold (default 30 s): then the lock goes to the next, whatever the holder does. It counts
	// from when the lock was acquired, not from when it was asked for.
	MaxHold time.Duration
	// MaxQueue is how many may wait for the key (default 1000).
	MaxQueue int
	// Manual leaves touching to the caller.
	Manual bool
	// Fleeting spares the PostgreSQL store a write to disk. A crash of its server may forget the lease, and give the
	// next one the same fence. Use it only for work that may be done twice or out of order, and for keys that are never
	// locked without it.
	Fleeting bool
	// FailOpen goes on when the store is not available, with a lock within this process: its lease is degraded and has
	// no fence. Use it only for work that may be done twice or out of order, never for what moves money.
	FailOpen bool
}

// Settings are a Locker's.
type Settings struct {
	Options // the defaults of its acquisitions

	// Heartbeat is how often a process with waiters reports that it is alive (default 400 ms). After Missed missing
	// heartbeats (default 3) it counts as dead, and its waiters are skipped.
	Heartbeat time.Duration
	Missed    int
	// Poll is how often waiters look for themselves while wakes are unreliable (default 50 ms).
	Poll time.Duration
	// Patience is how long waiters stay while the store does not answer (default 5 s), and how long one store call may
	// take.
	Patience time.Duration

	Name    string   // of this process, for people (default host and process number)
	Metrics *Metrics // default: registered nowhere
	Log     *slog.Logger
}

// DefaultSettings are the values used in place of zeros.
func DefaultSettings() Settings {
	return Settings{
		Options:   Options{TTL: 10 * time.Second, MaxWait: 15 * time.Second, MaxHold: 30 * time.Second, MaxQueue: 1000},
		Heartbeat: 400 * time.Millisecond, Missed: 3, Poll: 50 * time.Millisecond, Patience: 5 * time.Second,
	}
}

func (s Settings) withDefaults() (Settings, error) {
	defaults := DefaultSettings()
	s.Options = s.Options.or(defaults.Options)
	s.Heartbeat = cmp.Or(s.Heartbeat, defaults.Heartbeat)
	s.Missed = cmp.Or(s.Missed, defaults.Missed)
	s.Poll = cmp.Or(s.Poll, defaults.Poll)
	s.Patience = cmp.Or(s.Patience, defaults.Patience)
	if s.Name == "" {
		host, _ := os.Hostname() // none is as good as one that nobody knows
		s.Name = fmt.Sprintf("%s:%d", cmp.Or(host, "unknown"), os.Getpid())
	}
	if s.Metrics == nil {
		s.Metrics = NewMetrics(nil)
	}
	s.Log = cmp.Or(s.Log, slog.Default())
	if s.Heartbeat < 10*time.Millisecond || s.Missed < 1 || s.Poll < time.Millisecond || s.Patience < s.Heartbeat {
		return s, fmt.Errorf("%w: heartbeat %v, missed %d, poll %v, patience %v", ErrBadOptions, s.Heartbeat, s.Missed, s.Poll, s.Patience)
	}
	return s, s.Options.check()
}

// live is how long a process counts as alive after a heartbeat.
func (s Settings) live() time.Duration { return s.Heartbeat * time.Duration(s.Missed) }

// or fills in what is zero.
func (o Options) or(defaults Options) Options {
	o.TTL = cmp.Or(o.TTL, defaults.TTL)
	o.MaxWait = cmp.Or(o.MaxWait, defaults.MaxWait)
	o.MaxHold = cmp.Or(o.MaxHold, defaults.MaxHold)
	o.MaxQueue = cmp.Or(o.MaxQueue, defaults.MaxQueue)
	o.Manual = o.Manual || defaults.Manual
	o.Fleeting = o.Fleeting || defaults.Fleeting
	o.FailOpen = o.FailOpen || defaults.FailOpen
	return o
}

func (o Options) check() error {
	wrong := func(d time.Duration) bool { return d != Unlimited && d < 0 }
	if o.TTL < 50*time.Millisecond || wrong(o.MaxWait) || wrong(o.MaxHold) || o.MaxQueue < 0 {
		return fmt.Errorf("%w: TTL %v, longest wait %v, longest hold %v, longest queue %d", ErrBadOptions, o.TTL, o.MaxWait, o.MaxHold, o.MaxQueue)
	}
	return nil
}

// bound is a limit in the form that a store takes.
func bound(d time.Duration) time.Duration {
	if d == Unlimited {
		return forever
	}
	return d
}

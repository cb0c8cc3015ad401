package pool

import (
	"errors"
	"time"

	"github.com/a-seed-a7aed72f/holdfast/paidaction"
)

// Settings bound what the pool does. Zero means zero, so start from [DefaultSettings].
type Settings struct {
	// Cooldown is how long a node with one slot rests after a payment. A node with several slots takes the next one at
	// once.
	Cooldown time.Duration
	// FailureCooldown is how long a node rests, with all its slots, after a payment failed because of it.
	FailureCooldown time.Duration
	// RetryTimeout is the longest wait for a node.
	RetryTimeout time.Duration
	// Jitter is the most that is added at random to pauses, so that processes do not all ask at the same instant.
	Jitter time.Duration

	// MinOutbound is what a node must be able to send to be used at all.
	MinOutbound paidaction.Msat
	// Unknowns is how many looks in a row may fail to tell what a node can send before it is disabled.
	Unknowns int
	// Probe is the time between two looks at a node; ProbeTimeout is how long one may take.
	Probe        time.Duration
	ProbeTimeout time.Duration
}

// DefaultSettings are those of the system that the pool descends from, where it has them.
func DefaultSettings() Settings {
	return Settings{
		Cooldown: 5 * time.Second, FailureCooldown: 20 * time.Second, RetryTimeout: 5 * time.Second, Jitter: 100 * time.Millisecond,
		MinOutbound: 1_000_000, Unknowns: 3, Probe: 5 * time.Second, ProbeTimeout: 2 * time.Second,
	}
}

// clocksApart is how far the clocks of processes may differ for a rest that another one has written down to count.
const clocksApart = time.Minute

// Rests reports whether a node rests now that is said to rest until then. What ends later than any rest can was written
// down by a clock that is far ahead: no process would use the node before everybody's clock has come as far.
func (s Settings) Rests(until, now time.Time) bool {
	return now.Before(until) && !until.After(s.latestRest(now))
}

// latestRest is when what rests now can rest until at the latest.
func (s Settings) latestRest(now time.Time) time.Time {
	return now.Add(max(s.Cooldown, s.FailureCooldown) + clocksApart)
}

// Check refuses settings that the pool cannot work with.
func (s Settings) Check() error {
	switch {
	case s.Cooldown < 0 || s.FailureCooldown < 0 || s.Jitter < 0 || s.MinOutbound < 0:
		return errors.New("a cooldown, the jitter or the least outbound liquidity of nodes is negative")
	case s.RetryTimeout <= 0:
		return errors.New("nobody could wait for a node: its retry timeout must be above zero")
	case s.Unknowns < 1:
		return errors.New("every node would be disabled: the number of unknowns must be 1 or more")
	case s.Probe < 10*time.Millisecond || s.ProbeTimeout <= 0:
		return errors.New("nodes cannot be looked at: the time between probes must be 10ms or more, and their timeout above zero")
	}
	return nil
}

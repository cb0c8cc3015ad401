package config

import (
	"cmp"
	"slices"
	"time"

	"github.com/a-seed-a7aed72f/holdfast/lightning/pool"
	"github.com/a-seed-a7aed72f/holdfast/paidaction"
)

// Sending says how payments are sent through the nodes (docs/nodes.md). Its defaults are those of package
// lightning/pool.
type Sending struct {
	Slots           int           `help:"Most payments in flight at a node, unless HOLDFAST_NODES says otherwise for it. With 1, it sends one at a time and rests after each." default:"10"`
	Cooldown        time.Duration `help:"How long a node with one slot rests after a payment." default:"5s"`
	FailureCooldown time.Duration `help:"How long a node rests after a payment failed because of it, or is not given amounts that it had too little balance for." default:"20s"`
	RetryTimeout    time.Duration `help:"The longest that a payment waits for a node." default:"5s"`
	Jitter          time.Duration `help:"Random time added to pauses, up to this much." default:"100ms"`
	MinOutbound     int64         `help:"A node that can send less than this is not used, in msat." default:"1000000"`
	Unknowns        int           `help:"A node that fails this many times in a row to report what it can send is not used." default:"3"`
	Probe           time.Duration `help:"Time between two checks of a node." default:"5s"`
	ProbeTimeout    time.Duration `help:"How long a node may take to answer a check." default:"2s"`
}

// Pool are the settings as the pool of nodes takes them.
func (s Sending) Pool() pool.Settings {
	return pool.Settings{
		Cooldown: s.Cooldown, FailureCooldown: s.FailureCooldown, RetryTimeout: s.RetryTimeout, Jitter: s.Jitter,
		MinOutbound: paidaction.Msat(s.MinOutbound), Unknowns: s.Unknowns, Probe: s.Probe, ProbeTimeout: s.ProbeTimeout,
	}
}

// Slots is how many payments a node may have in flight; 0 if it does not send.
func (c *Config) Slots(n Node) int {
	if !n.Sends {
		return 0
	}
	return cmp.Or(n.Slots, c.Sending.Slots)
}

// maxSlots is how many payments a channel can carry at once by the protocol, and so what a node with one channel can.
const maxSlots = 483

// Sends reports whether this process sends payments.
func (c *Config) Sends() bool {
	return c.Has("worker") && slices.ContainsFunc(c.Nodes, func(n Node) bool { return n.Sends })
}

const (
	maxRest   = 10 * time.Minute // for which a receiver's wallet is asked to let an invoice live
	maxUnseen = time.Minute      // for which a process may go by what it heard of a node before
	maxSilent = 100              // looks in which a node may not say what it can send
)

// check refuses settings that the pool cannot work with, and those under which payments would wait in vain.
func (s Sending) check(refuse func(when bool, format string, args ...any)) {
	refuse(s.Slots > maxSlots, "A channel carries at most %[2]d payments at once, not %[1]d: set HOLDFAST_NODE_SLOTS to %[2]d payments or less.", s.Slots, maxSlots)
	refuse(s.Slots < 1, "No node could send: set HOLDFAST_NODE_SLOTS to 1 or more, and send=no in HOLDFAST_NODES for nodes that should not.")
	unfit := s.Pool().Check()
	refuse(unfit != nil, "Payments cannot be sent with these settings: %w. Check those that begin with HOLDFAST_NODE_.", unfit)
	refuse(max(s.Cooldown, s.FailureCooldown) > maxRest,
		"Payments would expire before their node has rested: set HOLDFAST_NODE_COOLDOWN and HOLDFAST_NODE_FAILURE_COOLDOWN to %s or less.", maxRest)
	refuse(max(s.RetryTimeout, s.Jitter, s.Probe, s.ProbeTimeout) > maxUnseen,
		"It would not be noticed for long what becomes of a node: set HOLDFAST_NODE_RETRY_TIMEOUT, HOLDFAST_NODE_JITTER, HOLDFAST_NODE_PROBE and HOLDFAST_NODE_PROBE_TIMEOUT to %s or less.", maxUnseen)
	refuse(s.Unknowns > maxSilent, "A node that does not say what it can send would be used for long: set HOLDFAST_NODE_UNKNOWNS to %d or less.", maxSilent)
}

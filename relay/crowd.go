package relay

import (
	"context"
	"sync"
	"time"

	"github.com/a-seed-a7aed72f/holdfast/internal/db"
	"github.com/a-seed-a7aed72f/holdfast/lightning/wrap"
	"github.com/a-seed-a7aed72f/holdfast/paidaction"
)

// Somebody who is payer and receiver at once pays nothing for payments that hang, and with many accounts gets around
// what bounds each receiver. A channel carries few payments at a time (483 at most, 30 with many peers), so all of a
// node's channels could be full for days. Nothing would leave through them any more, withdrawals included. So a node is
// given no forward while too little of what it can send is left. That part is for withdrawals alone.
//
// The node itself says what is left, since only it knows its channels, in how many parts it sends, and what else uses
// them. Nobody waits for that: the last answer counts. No money depends on it, so without an answer
// payments go on. What goes out before the next answer, a few payments for each place at the node, comes on top.

// A node that has many channels works for seconds to list them.
const (
	crowdAge     = 2 * time.Second  // an answer older than this is replaced when the next payment comes
	crowdRest    = 10               // the node rests for so many times as long as the last answer took,
	crowdRestMax = 20 * time.Second // but no longer than this
	crowdGood    = time.Minute      // an answer counts for so long
	crowdTimeout = 30 * time.Second // for an answer
	// crowdedAfter is for how long a node has to say that it is crowded. What does not hang is over by then, such as a
	// large withdrawal in many parts.
	crowdedAfter = 10 * time.Second
)

// errCrowded says that too little is left of what a node can send.
var errCrowded = &wrap.Violation{Code: "CROWDED", Why: "too many payments hang in the node's channels"}

// crowd is what a node last said of its channels. Its times are those of Config.Now. Where that is time.Now, they are
// compared by the clock that nobody sets.
type crowd struct {
	mu      sync.Mutex
	asking  bool
	next    time.Time       // the node is not asked before
	said    time.Time       // when it was asked for its last answer
	since   time.Time       // when it was asked for the first of its latest answers that all say it is crowded; zero: none
	crowded bool            // by the last answer, and for long
	left    paidaction.Msat // in channels with room, by the last answer
	away    bool            // it did not answer when it was last asked
}

// crowded reports whether a node is given no forward now. It waits for nothing.
func (r *Relay) crowded(ctx context.Context, node string) bool {
	if r.Settings.CrowdedAt >= 100 {
		return false
	}
	c, now := r.crowds[node], r.Now()
	c.mu.Lock()
	ask := !c.asking && !now.Before(c.next)
	c.asking = c.asking || ask
	c.mu.Unlock()
	if ask {
		r.Beside(func() { r.askCrowd(context.WithoutCancel(ctx), node, c) })
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.crowded && now.Sub(c.said) < crowdGood
}

// askCrowd asks a node what is left in its channels.
func (r *Relay) askCrowd(ctx context.Context, name string, c *crowd) {
	began := r.Now()
	limited, cancel := context.WithTimeout(ctx, crowdTimeout)
	defer cancel()
	var channels []paidaction.Channel
	node, err := r.Nodes.Sender(name)
	if err == nil {
		channels, err = node.Channels(limited)
	}
	ended := r.Now()
	c.mu.Lock()
	defer c.mu.Unlock()
	c.asking, c.next = false, ended.Add(min(max(crowdAge, crowdRest*ended.Sub(began)), crowdRestMax))
	if err != nil {
		if !c.away {
			r.Log.WarnContext(ctx, "a node does not say what is left in its channels: it is given payments all the same", "node", name, "error", err)
		}
		c.away = true
		return
	}
	was := c.crowded
	left, enough := leftIn(channels, r.Settings.CrowdedAt)
	switch {
	case enough:
		c.since = time.Time{}
	case c.since.IsZero() || began.Sub(c.said) >= crowdGood: // nobody asked in between
		c.since = began
	}
	c.said, c.away, c.left, c.crowded = began, false, left, !c.since.IsZero() && began.Sub(c.since) >= crowdedAfter
	switch {
	case c.crowded && !was:
		r.Log.ErrorContext(ctx, "too many payments hang in the channels of a node: it is given no more payments to receivers", "node", name)
	case was && !c.crowded:
		r.Log.InfoContext(ctx, "a node is given payments to receivers again", "node", name)
	}
}

// showCrowds shows which nodes are crowded. Those that are get asked again, also while no payment comes.
func (r *Relay) showCrowds(ctx context.Context) {
	for name, c := range r.crowds {
		c.mu.Lock()
		crowded := c.crowded
		c.mu.Unlock()
		r.Metrics.showCrowded(name, crowded && r.crowded(ctx, name))
	}
}

// leftIn is what channels can send that have slots and room for more, and whether that is enough of what all can.
// percent is how much may be in use: of the slots of a channel, of what its peer lets be under way in it, and of the
// balance of all.
func leftIn(channels []paidaction.Channel, percent int64) (left paidaction.Msat, enough bool) {
	var all paidaction.Msat
	for _, c := range channels {
		all += c.Local + c.Locked
		if c.Leaving*100 <= c.MostLeaving*percent && int64(c.Locked) <= int64(c.MostLocked)/100*percent {
			left += c.Local
		}
	}
	return left, int64(left) >= int64(all)/100*(100-percent)
}

// roomElsewhere reports whether another node that is left to try is not crowded and, by its last answer, can send the
// payment. One that cannot would let it wait until its invoice has expired.
func (r *Relay) roomElsewhere(ctx context.Context, claimed *claim) bool {
	names, err := r.untried(ctx, db.New(r.Pool), claimed.row)
	if err != nil {
		r.Log.WarnContext(ctx, "whether another node has room is not known", "error", err)
		return false
	}
	for _, name := range names {
		if name == claimed.attempt.Node || r.crowded(ctx, name) {
			continue
		}
		c := r.crowds[name]
		c.mu.Lock()
		left := c.left
		c.mu.Unlock()
		if int64(left) >= claimed.row.AmountMsat+claimed.row.BudgetMsat {
			return true
		}
	}
	return false
}

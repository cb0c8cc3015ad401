package relay

import (
	"context"
	"math"
	"sync"
	"time"

	"github.com/a-seed-a7aed72f/holdfast/paidaction"
)

// What a node says that it can send is an upper bound: it includes reserves, and channels whose peers are away. What is
// more than it can really send fails there for lack of balance. Whoever withdraws that much gets the money back, and
// could do so again and again. So the node does not rest because of this, but gets only smaller payments for a while.
// Each process finds this out for itself, by a payment that the node fails at once and that goes on to another node.

// lack is an amount that a node had no balance for.
type lack struct {
	mu     sync.Mutex
	amount paidaction.Msat
	until  time.Time // by Monotonic
}

// lacked notes that the node had no balance for a payment.
func (r *Relay) lacked(ctx context.Context, c *claim) {
	r.Log.WarnContext(ctx, "a node has no balance for a payment: for a while it is given smaller ones", "action", c.row.ActionID, "node", c.attempt.Node)
	l, now, amount := r.lacks[c.attempt.Node], r.Monotonic(), paidaction.Msat(c.row.AmountMsat)
	l.mu.Lock()
	defer l.mu.Unlock()
	if !now.Before(l.until) || amount <= l.amount {
		l.amount, l.until = amount, now.Add(r.Settings.Lacking)
	}
}

// most is the most that a payment may cost for the node to get it now, whatever the node says that it can send.
func (r *Relay) most(node string) paidaction.Msat {
	l, now := r.lacks[node], r.Monotonic()
	l.mu.Lock()
	defer l.mu.Unlock()
	if now.Before(l.until) {
		return l.amount - 1
	}
	return math.MaxInt64
}

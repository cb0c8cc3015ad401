package relay

import (
	"context"
	"slices"
	"sync"
	"time"

	"github.com/a-seed-a7aed72f/holdfast/internal/db"
	"github.com/a-seed-a7aed72f/holdfast/lightning/wrap"
	"github.com/a-seed-a7aed72f/holdfast/paidaction"
)

// A node that can send less than the pool's bound (HOLDFAST_NODE_MIN_OUTBOUND) is leased to nobody, until channels are
// opened or filled: for days. A forward would wait for it until the receiver's invoice expires, or the blocks of its
// payer's payment run out. So none is offered that only such nodes could send, and one that waits for them goes back to
// its payer.

// lowAge is how long an answer counts. It is short because the answer costs little, and somebody's payment goes back
// because of it.
const lowAge = 2 * time.Second

// errLow says that no node can send enough to be given anything.
var errLow = &wrap.Violation{Code: "LOW_OUTBOUND", Why: "no node can send as much as it needs to be used at all"}

// outbound is what a node last said that it can send. Its times are those of Config.Now, as those of crowd are.
type outbound struct {
	mu   sync.Mutex // whoever comes while the node is asked waits for that answer
	next time.Time  // the node is not asked before
	low  bool       // by the last answer, if it gave one
}

// low reports whether a node says that it can send too little to be given anything. A node that does not answer is not
// low: that passes by itself.
func (r *Relay) low(ctx context.Context, name string) bool {
	if r.Settings.MinOutbound <= 0 || r.hangs(name) {
		return false
	}
	o := r.outbounds[name]
	o.mu.Lock()
	defer o.mu.Unlock()
	if r.Now().Before(o.next) {
		return o.low
	}
	var sendable paidaction.Msat
	node, err := r.Nodes.Sender(name)
	if err == nil {
		err = r.asking().ask(context.WithoutCancel(ctx), r.Settings.LookTimeout, name, func(ctx context.Context) (err error) {
			sendable, err = node.Sendable(ctx)
			return err
		})
	}
	o.low, o.next = err == nil && sendable < r.Settings.MinOutbound, r.Now().Add(lowAge)
	return o.low
}

// allLow reports whether all nodes that are left to try a payment are low.
func (r *Relay) allLow(ctx context.Context, row db.RelayPayment) (bool, error) {
	if r.Settings.MinOutbound <= 0 {
		return false, nil
	}
	names, err := r.untried(ctx, db.New(r.Pool), row)
	if err != nil || len(names) == 0 {
		return false, err
	}
	return !slices.ContainsFunc(names, func(name string) bool { return !r.low(ctx, name) }), nil
}

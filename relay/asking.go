package relay

import (
	"context"
	"fmt"
	"slices"
	"sync"
	"time"

	"github.com/a-seed-a7aed72f/holdfast/internal/db"
)

// asking is which nodes are asked about one invoice while somebody waits for the answer. A node that hangs is not
// waited for again and again, where another one can answer as well. That is so of all questions but one: whether it has
// paid a hash, only the node itself can say, so every node is asked that (notPaid).
type asking struct {
	relay *Relay
	mu    sync.Mutex
	names []string
}

// asking leaves out nodes that have just hung, as long as another one is left.
func (r *Relay) asking() *asking {
	all := r.Nodes.Names()
	awake := slices.DeleteFunc(slices.Clone(all), r.hangs)
	if len(awake) == 0 {
		awake = slices.Clone(all)
	}
	return &asking{relay: r, names: awake}
}

// hangs reports whether a node has just hung.
func (r *Relay) hangs(name string) bool {
	until, hung := r.hung.Load(name)
	return hung && r.Monotonic().Before(until.(time.Time))
}

// nodes are those that may still answer.
func (a *asking) nodes() []string {
	a.mu.Lock()
	defer a.mu.Unlock()
	return slices.Clone(a.names)
}

// hungFor is how long after a node has hung nobody who waits for an invoice asks it.
const hungFor = 10 * time.Second

// ask runs a question to a node. If the answer takes longer than limit, the node is left out from then on.
func (a *asking) ask(ctx context.Context, limit time.Duration, name string, question func(ctx context.Context) error) error {
	limited, cancel := context.WithTimeout(ctx, limit)
	defer cancel()
	err := question(limited)
	if err == nil || limited.Err() == nil || ctx.Err() != nil {
		return err
	}
	a.relay.hung.Store(name, a.relay.Monotonic().Add(hungFor))
	a.mu.Lock()
	defer a.mu.Unlock()
	a.names = slices.DeleteFunc(a.names, func(n string) bool { return n == name })
	return fmt.Errorf("node %s does not answer: %w", name, err)
}

// sending are the nodes that may be given payments: an operator neither drains nor has disabled them, and no other node
// answers under their names. Whatever else keeps a payment from a node passes by itself, such as its rest after a
// failure, in far less time than a payer's payment is held; but for what low and crowded look at.
func (r *Relay) sending(ctx context.Context, q *db.Queries) ([]string, error) {
	known, err := q.ListNodes(ctx)
	if err != nil {
		return nil, fmt.Errorf("read what is known of the nodes: %w", err)
	}
	return slices.DeleteFunc(slices.Clone(r.Nodes.Names()), func(name string) bool {
		return slices.ContainsFunc(known, func(n db.LightningNode) bool {
			return n.Name == name && (n.Draining || n.DisabledReason != nil || n.OtherKey != nil)
		})
	}), nil
}

package simulate

import (
	"context"
	"fmt"
	"slices"
	"time"

	"github.com/a-seed-a7aed72f/holdfast/relay"
)

// A node takes a few payments at a time, of all processes together. There are so few places that payments wait for each
// other, and that withdrawals meet the bound of their share (relay/share.go).
const (
	perNode        = 2
	forWithdrawals = 1
	sendWindow     = 30 * time.Second // after which a payment that hangs gives its place back
	claimGrace     = 30 * time.Second // how long after that a claim is over
	placeWait      = 5 * time.Second  // how long a worker waits for a place
	placeLapses    = 10 * time.Second // how long a process that died, or stands still, keeps its places
)

// places are those that are taken, by node.
type places map[string][]*slot

// slot is a place that a fiber has taken for one payment.
type slot struct {
	world  *world
	node   string
	fiber  *fiber
	fence  int64
	leased time.Time // by the clock of the process
	action int64     // whose payment is sent; 0: none yet
}

// leases hands out the places.
type leases struct{ world *world }

// Lease implements relay.Leases.
func (l leases) Lease(ctx context.Context, node string) (relay.Lease, error) {
	w, f := l.world, fiberOf(ctx)
	if !w.hasPlace(node) {
		until := w.tick + placeWait
		w.queue.add(until, func() {}) // whoever waits is looked at after each event
		w.wait(ctx, f, func() bool { return !w.hasPlace(node) && w.tick < until })
	}
	switch {
	case f.dead():
		return nil, errDead
	case ctx.Err() != nil:
		return nil, ctx.Err()
	case !w.hasPlace(node):
		return nil, relay.ErrNoNode
	}
	w.fences++
	s := &slot{world: w, node: node, fiber: f, fence: w.fences, leased: f.process.relays()}
	w.places[node] = append(slices.DeleteFunc(w.places[node], (*slot).lapsed), s)
	return s, nil
}

// hasPlace reports whether a place at the node is free.
func (w *world) hasPlace(node string) bool {
	taken := 0
	for _, s := range w.places[node] {
		if !s.lapsed() {
			taken++
		}
	}
	return taken < perNode
}

// lapsed reports whether others may have the place, since the one that took it does not keep it any more.
func (s *slot) lapsed() bool {
	f, now := s.fiber, s.world.tick
	return f.process.dead && now-f.process.died > placeLapses || f.stalled && now-f.since > placeLapses
}

// Fence implements relay.Lease.
func (s *slot) Fence() int64 { return s.fence }

// Release implements relay.Lease. Nobody else's place is given back with it, and a worker looks soon for what may have
// waited.
func (s *slot) Release(_ context.Context, blame relay.Blame) {
	w := s.world
	if s.fiber.dead() {
		return
	}
	w.places[s.node] = slices.DeleteFunc(w.places[s.node], func(other *slot) bool { return other == s })
	if blame == relay.Unused || w.looking[s.node] {
		return
	}
	w.looking[s.node] = true
	w.woken++
	name := fmt.Sprintf("worker %d of %s", w.woken, s.node)
	w.queue.add(w.tick+w.chance.between(20*time.Millisecond, 2*time.Second, name, 0), func() {
		w.looking[s.node] = false
		w.work(s.node, name, s.fiber.label, w.alive(name, 0))
	})
}

func (w *world) placesOfEach() map[string]int {
	all := map[string]int{}
	for _, name := range w.nodes.Names() {
		all[name] = perNode
	}
	return all
}

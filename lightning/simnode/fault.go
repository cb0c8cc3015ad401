package simnode

import (
	"context"
	"errors"
	"time"

	"github.com/a-seed-a7aed72f/holdfast/paidaction"
)

// What a caller sees of a fault. Neither error says what the node has done, and a caller must treat both as an unknown
// outcome.
var (
	ErrUnavailable = errors.New("simnode: the node cannot be reached")
	ErrAnswerLost  = errors.New("simnode: the answer was lost")
	ErrStreamLost  = errors.New("simnode: the stream was lost")
)

// faults are what a test has broken. The node's mutex guards them.
type faults struct {
	away     bool
	hung     chan struct{} // closed when the node goes on; nil unless it hangs
	isolated bool
	ahead    time.Duration
	unsynced bool
	holding  bool
	repeat   int            // extra copies of every event
	fail     map[Method]int // calls that are still to fail before doing anything
	lost     map[Method]int // calls that are still to do their work and lose the answer
	onBefore map[Method]func(paidaction.Hash)
	onAfter  map[Method]func(paidaction.Hash)
}

func newFaults() faults {
	return faults{
		fail:     make(map[Method]int),
		lost:     make(map[Method]int),
		onBefore: make(map[Method]func(paidaction.Hash)),
		onAfter:  make(map[Method]func(paidaction.Hash)),
	}
}

func (f *faults) before(m Method) error {
	if f.away || f.take(f.fail, m) {
		return ErrUnavailable
	}
	return nil
}

func (f *faults) take(from map[Method]int, m Method) bool {
	if from[m] == 0 {
		return false
	}
	from[m]--
	return true
}

// FailBefore makes the next calls of m fail with ErrUnavailable without doing anything.
func (n *Node) FailBefore(m Method, calls int) { n.set(func(f *faults) { f.fail[m] = calls }) }

// FailAfter makes the next calls of m do their work and then fail with ErrAnswerLost.
func (n *Node) FailAfter(m Method, calls int) { n.set(func(f *faults) { f.lost[m] = calls }) }

// Before runs what in the goroutine of the next call of m, before the node does anything: as if it happened while the
// request is on its way. what may use the node, and even call m.
func (n *Node) Before(m Method, what func(paidaction.Hash)) {
	n.set(func(f *faults) { f.onBefore[m] = what })
}

// After runs what in the goroutine of the next call of m, when the node has done its work but the caller does not know
// yet.
func (n *Node) After(m Method, what func(paidaction.Hash)) {
	n.set(func(f *faults) { f.onAfter[m] = what })
}

// SetAway makes the node unreachable or brings it back. Meanwhile every call fails with ErrUnavailable, payers are
// refused and streams end. The node itself lives on: time and blocks have their effects.
func (n *Node) SetAway(away bool) {
	n.set(func(f *faults) { f.away = away })
	if away {
		n.DropStreams()
	}
}

// SetHung makes the node hang, or go on. While it hangs no call and no stream answers. A call whose context ends
// meanwhile has done nothing.
func (n *Node) SetHung(hung bool) {
	n.mu.Lock()
	defer n.mu.Unlock()
	switch {
	case hung && n.faults.hung == nil:
		n.faults.hung = make(chan struct{})
	case !hung && n.faults.hung != nil:
		close(n.faults.hung)
		n.faults.hung = nil
		n.release(nil)
	}
}

// thaw waits until the node no longer hangs.
func (n *Node) thaw(ctx context.Context) error {
	n.mu.Lock()
	hung := n.faults.hung
	n.mu.Unlock()
	if hung == nil {
		return nil
	}
	select {
	case <-hung:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

// SetSynced makes the node fall behind the chain, so that it sees no new block, or catch up.
func (n *Node) SetSynced(synced bool) {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.faults.unsynced = !synced
	n.catchUp()
}

// SetIsolated makes the node find no route to anybody, or find routes again. Payments in flight go on.
func (n *Node) SetIsolated(isolated bool) { n.set(func(f *faults) { f.isolated = isolated }) }

// SetAhead makes the node's clock run ahead of the network's, or behind it.
func (n *Node) SetAhead(d time.Duration) { n.set(func(f *faults) { f.ahead = d }) }

// RepeatEvents delivers every later event this many times more.
func (n *Node) RepeatEvents(times int) { n.set(func(f *faults) { f.repeat = times }) }

// HoldEvents holds back all events, including those at a stream's start, until ReleaseEvents.
func (n *Node) HoldEvents() { n.set(func(f *faults) { f.holding = true }) }

// ReleaseEvents releases held events. First shuffle changes their order in every stream: Reverse, a seeded
// rand.Shuffle, or nil to keep it.
func (n *Node) ReleaseEvents(shuffle func(n int, swap func(i, j int))) {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.faults.holding = false
	n.release(shuffle)
}

// release wakes the readers of all streams. n.mu is held.
func (n *Node) release(shuffle func(n int, swap func(i, j int))) {
	release(n.invoiceStreams, shuffle)
	release(n.blockStreams, shuffle)
	release(n.paymentStreams, shuffle)
}

// Reverse is a shuffle for ReleaseEvents: the latest event first.
func Reverse(n int, swap func(i, j int)) {
	for i, j := 0, n-1; i < j; i, j = i+1, j-1 {
		swap(i, j)
	}
}

// DropStreams ends every open stream with ErrStreamLost. Events that it has not delivered yet are lost.
func (n *Node) DropStreams() {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.drop()
}

// drop is DropStreams. n.mu is held.
func (n *Node) drop() {
	drop(n.invoiceStreams)
	drop(n.blockStreams)
	drop(n.paymentStreams)
}

func (n *Node) set(change func(*faults)) {
	n.mu.Lock()
	defer n.mu.Unlock()
	change(&n.faults)
}

// hooks takes out the hooks of one call.
func (n *Node) hooks(m Method) (before, after func(paidaction.Hash)) {
	n.mu.Lock()
	defer n.mu.Unlock()
	before, after = n.faults.onBefore[m], n.faults.onAfter[m]
	delete(n.faults.onBefore, m)
	delete(n.faults.onAfter, m)
	return before, after
}

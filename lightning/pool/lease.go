package pool

import (
	"cmp"
	"context"
	"errors"
	"sync/atomic"
	"time"

	"github.com/a-seed-a7aed72f/holdfast/lock"
	"github.com/a-seed-a7aed72f/holdfast/paidaction"
)

// Lease is the right to have one payment in flight at a node. It is safe for concurrent use.
type Lease struct {
	pool   *Pool
	asked  *asking // how it was got; the lock's lease ends with its context
	slot   *slot
	lock   *lock.Lease
	got    time.Time // when the lock was got
	amount paidaction.Msat
	begun  uint64 // in the pool's order
	over   atomic.Bool
	ctx    context.Context
	end    context.CancelCauseFunc
}

// newLease is called with mu held.
func (p *Pool) newLease(k *kept, w *waiter) *Lease {
	ctx, end := context.WithCancelCause(w.ctx)
	context.AfterFunc(k.lock.Context(), func() { end(context.Cause(k.lock.Context())) })
	lease := &Lease{pool: p, asked: k.asked, slot: k.asked.slot, lock: k.lock, got: k.got, amount: w.need.Amount, begun: p.tick(), ctx: ctx, end: end}
	lease.slot.lease = lease
	lease.slot.member.leases[lease] = true
	lease.slot.member.promised += lease.amount
	return lease
}

// Name is the name of the node.
func (s *Lease) Name() string { return s.slot.member.Name }

// Node is the node to pay through.
func (s *Lease) Node() paidaction.SendingNode { return s.slot.member.Node }

// Fence is higher than that of every earlier lease of the same slot in another process, and never lower than that of an
// earlier one in this process: see [lock.Lease.Fence].
func (s *Lease) Fence() int64 { return s.lock.Fence() }

// Context ends with the context of Acquire, and when the lease is over. Its cause is then a [*lock.LostError] if the
// lease was lost, [lock.ErrReleased] if it was released. After a loss another process may use the node; what was sent
// goes on and is tracked.
func (s *Lease) Context() context.Context { return s.ctx }

// Outcome is how a lease ended: [Done], [NodeFault] or [ReceiverFault]. The zero Outcome means that the lease was not
// used after all.
type Outcome struct {
	kind   string
	sent   paidaction.Msat
	reason string
}

const (
	done          = "done"
	nodeFault     = "node_fault"
	receiverFault = "receiver_fault"
	unused        = "unused" // this one and the next are labels alone
	lost          = "lost"
)

// Done is a payment that was made, or is on its way. sent is what it took from the node, fees included; 0 if the caller
// leaves it to the node to say what is left.
func Done(sent paidaction.Msat) Outcome {
	return Outcome{kind: done, sent: sent, reason: "it has just sent"}
}

// NodeFault is a payment that failed because its node is down: every other payment there would fail, too. The reason is
// for operators.
func NodeFault(reason string) Outcome { return Outcome{kind: nodeFault, reason: reason} }

// ReceiverFault is a payment that failed because of its receiver: another one through the same node may succeed at
// once.
func ReceiverFault() Outcome { return Outcome{kind: receiverFault} }

// Release ends the lease. The slot goes to the next one in the line after the node has rested. For a moment it goes
// only to the next one in this process (see keep); Release then does not report a later failure to release the lock. It
// works even when ctx is over, so that it can be deferred, and never ends the lease of another.
//
// Errors: a [*lock.LostError] if the lease was lost before, [lock.ErrNotOwner] if it was released before, and whatever
// kept the database from storing the rest, or the lock from being released, which then ends by its TTL.
func (s *Lease) Release(ctx context.Context, o Outcome) error {
	if s.over.Swap(true) {
		return lock.ErrNotOwner
	}
	p, m := s.pool, s.slot.member
	rest := p.rest(m, o)
	if rest == 0 && p.keep(s, o) {
		s.end(lock.ErrReleased)
		return nil
	}
	now := p.now()
	until := now.Add(rest)
	var unwritten error
	// A node at fault must rest, whoever holds the lease by now. That it has just sent matters only to the next holder;
	// if the lease was lost, there is already one.
	if rest > 0 && (o.kind == nodeFault || s.lock.Err() == nil) {
		// This must be before the lock is released: the next holder reads it.
		unwritten = p.Register.cool(ctx, m.Name, until, p.settings.latestRest(now), o.reason)
	} else {
		rest = 0
	}
	err := s.lock.Release(ctx)
	s.end(context.Cause(s.lock.Context()))
	s.asked.giveUp()
	p.released(s, o, rest, until, err)
	if o.kind == nodeFault {
		p.log.WarnContext(ctx, "a payment failed because of its node, which rests", "node", m.Name, "reason", o.reason, "until", until)
	}
	return errors.Join(err, unwritten)
}

// rest is how long a node rests after a lease.
func (p *Pool) rest(m *member, o Outcome) time.Duration {
	switch {
	case o.kind == nodeFault:
		return p.settings.FailureCooldown
	case o.kind == done && len(m.slots) == 1:
		return p.settings.Cooldown
	}
	return 0
}

// released records the end of a lease and of its lock.
func (p *Pool) released(s *Lease, o Outcome, rest time.Duration, until time.Time, err error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if rest > 0 {
		p.cool(s.slot.member, until, o.reason)
	}
	how := o.kind
	if errors.Is(err, lock.ErrLost) {
		how = lost
	}
	p.ended(s, o, how)
	p.arrange()
}

// ended records the end of a lease. Called with mu held.
func (p *Pool) ended(s *Lease, o Outcome, how string) {
	m := s.slot.member
	delete(m.leases, s)
	if s.slot.lease == s {
		s.slot.lease = nil
	}
	left := o.kind == done && o.sent == 0 // to the node: until it says what the payment took, that may be all of it
	if s.begun > m.asked && !left {
		m.promised += o.sent - s.amount // the node has not said since what is left
	}
	p.metrics.leases.WithLabelValues(m.Name, cmp.Or(how, unused)).Inc()
	token(m.kick)
}

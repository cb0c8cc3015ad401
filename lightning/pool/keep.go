package pool

import (
	"context"
	"time"

	"github.com/a-seed-a7aed72f/holdfast/lock"
)

// To release the lock of a slot and to get it again are two commits that wait for the disk, for each payment. So the lock is kept after a lease for
// the next payment of this process, which then has the lease at once. It is kept for so short a time that others who wait for the slot hardly
// notice: for keptIdle while nobody here wants it, and since it was got for keptFor, whoever wants it. For so long, too, the register is not read
// for a payment: that a node rests because of what another process saw there, or that an operator wants it spared, is known by the next look.
const (
	keptIdle = 20 * time.Millisecond
	keptFor  = 500 * time.Millisecond
)

// kept is the lock of a slot that no lease uses.
type kept struct {
	asked *asking // by which it was got
	lock  *lock.Lease
	got   time.Time
	used  bool // for another lease, or released; guarded by the pool's mu
}

// keep ends a lease whose slot may serve the next payment, and keeps its lock. It returns false where the lock is to be released.
func (p *Pool) keep(s *Lease, o Outcome) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	// Where this process waits in the lock's queue for its own slot, it has been waiting for long: it is the queue's turn.
	if p.closed || o.kind == nodeFault || s.slot.asking != nil || time.Since(s.got) >= p.keptFor || s.lock.Err() != nil {
		return false
	}
	p.ended(s, o, o.kind)
	p.put(&kept{asked: s.asked, lock: s.lock, got: s.got})
	p.arrange()
	return true
}

// put keeps the lock of a slot. Called with mu held.
func (p *Pool) put(k *kept) {
	k.asked.slot.kept = k
	time.AfterFunc(p.keptIdle, func() { p.letGo(k) })
}

// take is a lock that is kept of one of these slots, for a lease; nil where there is none. Called with mu held.
func take(slots []*slot) *kept {
	for _, s := range slots {
		if k := s.kept; k != nil {
			s.kept, k.used = nil, true
			return k
		}
	}
	return nil
}

// letGo releases a lock that is still kept.
func (p *Pool) letGo(k *kept) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if !k.used {
		p.drop(k)
	}
}

// drop releases a lock that is kept, in the background: until that is done nobody here asks for the slot. Called with mu held.
func (p *Pool) drop(k *kept) {
	s := k.asked.slot
	k.used, s.kept, s.asking = true, nil, k.asked
	p.background.Go(func() {
		_ = k.lock.Release(context.WithoutCancel(k.asked.ctx)) // what cannot be given back ends by its TTL
		k.asked.giveUp()
		p.mu.Lock()
		defer p.mu.Unlock()
		s.asking = nil
		p.arrange()
	})
}

package pool

import (
	"context"
	"time"

	"github.com/a-seed-a7aed72f/holdfast/lock"
)

// Releasing the lock of a slot and getting it again costs each payment two commits that wait for the disk. So after a
// lease the lock is kept for the next payment of this process, which then has its lease at once. It is kept so briefly
// that others who wait for the slot hardly notice: keptIdle while nobody here wants it, and in all keptFor after it was
// got, even if somebody does. While it is kept, the register is not read for a payment either: only the next look tells
// that a node rests because of another process, or that an operator drains it.
const (
	keptIdle = 20 * time.Millisecond
	keptFor  = 500 * time.Millisecond
)

// kept is the lock of a slot that no lease uses.
type kept struct {
	asked *asking // how it was got
	lock  *lock.Lease
	got   time.Time
	used  bool // by another lease, or released; guarded by the pool's mu
}

// keep ends a lease whose slot may serve the next payment, and keeps its lock. It returns false if the lock must be
// released.
func (p *Pool) keep(s *Lease, o Outcome) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	// If this process waits in the lock's queue for its own slot, it has waited for long: it is the queue's turn.
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

// take returns a kept lock of one of these slots, for a lease; nil if there is none. Called with mu held.
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

// drop releases a kept lock in the background. Until that is done, nobody here asks for the slot. Called with mu held.
func (p *Pool) drop(k *kept) {
	s := k.asked.slot
	k.used, s.kept, s.asking = true, nil, k.asked
	p.background.Go(func() {
		_ = k.lock.Release(context.WithoutCancel(k.asked.ctx)) // if this fails, the lock ends by its TTL
		k.asked.giveUp()
		p.mu.Lock()
		defer p.mu.Unlock()
		s.asking = nil
		p.arrange()
	})
}

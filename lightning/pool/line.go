package pool

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/a-seed-a7aed72f/holdfast/internal/db"
	"github.com/a-seed-a7aed72f/holdfast/lock"
	"github.com/a-seed-a7aed72f/holdfast/paidaction"
)

// Callers that wait for a node wait in the line of this process. The process asks the lock for all of them: at most once
// for each slot at a time, however many wait and however long. First it tries slots that may be free, without waiting:
// one at a time for each waiter. For slots that are taken, it takes a place in the lock's queue, and is woken when it
// has got one. So the lock decides the order between processes, and a wait costs nothing (spec 05.35).
//
// Slots leased by this process nearly always come back in a moment. So it takes no place in their queues, which it
// would soon leave again, until somebody has waited for ownPatience. For a moment it has such slots without asking: see
// keep.

// ownPatience is by how much those who wait in this process can fall behind those who wait in others.
const ownPatience = 50 * time.Millisecond

// waiter is one caller that waits for a node.
type waiter struct {
	ctx    context.Context
	need   Need
	since  time.Time
	given  chan grant // receives once
	trying bool       // a slot is being tried for it; guarded by the pool's mu
}

// grant is how a wait ends: with a lease or an error.
type grant struct {
	lease *Lease
	err   error
}

// slot is room for one payment in flight at a node: one key of the lock. The pool's mu guards what changes.
type slot struct {
	member *member
	key    string
	lease  *Lease  // of this process
	taken  bool    // by another process, as the lock said when it was tried
	asking *asking // nil: the lock is not being asked for it
	kept   *kept   // nil: its lock is not kept
}

// asking is a request to the lock for one slot.
type asking struct {
	slot   *slot
	by     *waiter // who wants the slot now or not at all; nil: a place in the queue, for all
	ctx    context.Context
	giveUp context.CancelFunc
}

// Key is the lock's key for one slot of a node.
func Key(node string, slot int) string { return fmt.Sprintf("node:%s:%d", node, slot) }

// arrange does whatever the state of the line and of the nodes requires. Called with mu held, whenever either has
// changed.
func (p *Pool) arrange() {
	now := p.now()
	for _, s := range p.slots {
		if s.kept != nil && (p.closed || s.kept.lock.Err() != nil) {
			p.drop(s.kept)
		}
		if !p.wanted(s.member, now) {
			s.taken = false // by the time it is wanted again, this is out of date
			// A try without waiting is answered soon, and the next waiter may use the answer: only a place in the queue
			// is given up.
			if s.asking != nil && (s.asking.by == nil || p.closed) {
				s.asking.giveUp()
			}
		}
	}
	for _, w := range slices.Clone(p.waiting) {
		p.serve(w, now)
	}
	p.wakeLater(now)
	p.show(now)
}

// serve gives a waiter a slot whose lock is kept, or has the lock asked for a slot: for one of those that may be free,
// otherwise for a place in the queue of each that is taken. Called with mu held.
func (p *Pool) serve(w *waiter, now time.Time) {
	free, taken := p.candidates(w, now)
	switch {
	case w.trying:
		// It takes the first lock that comes; the one that it has asked for is then kept.
		for _, of := range free {
			if k := take(of); k != nil {
				p.give(w, k)
				return
			}
		}
	case len(free) > 0:
		of := free[p.random.IntN(len(free))]
		s := of[p.random.IntN(len(of))]
		if k := take(of); k != nil {
			p.give(w, k)
		} else {
			p.ask(&asking{slot: s, by: w})
		}
	default:
		for _, s := range taken {
			p.ask(&asking{slot: s})
		}
	}
}

// wanted reports whether the node could serve somebody who waits.
func (p *Pool) wanted(m *member, now time.Time) bool {
	return slices.ContainsFunc(p.waiting, func(w *waiter) bool { return p.fits(m, w.need, now) })
}

func (p *Pool) fits(m *member, need Need, now time.Time) bool {
	return (need.Only == "" || need.Only == m.Name) && m.refusal(need, &p.settings, now) == ""
}

// candidates returns the slots that could serve a waiter and are not being asked for: those that may be free, by node,
// and those that are taken.
func (p *Pool) candidates(w *waiter, now time.Time) (free [][]*slot, taken []*slot) {
	patient := w.patience() > 0
	for _, m := range p.members {
		if !p.fits(m, w.need, now) {
			continue
		}
		var here []*slot
		for _, s := range m.slots {
			switch {
			case s.asking != nil, s.lease != nil && patient:
			case s.taken || s.lease != nil:
				taken = append(taken, s)
			default:
				here = append(here, s)
			}
		}
		if len(here) > 0 {
			free = append(free, here)
		}
	}
	return free, taken
}

// patience is how much longer it waits for slots of this process without a place in their queues.
func (w *waiter) patience() time.Duration { return ownPatience - time.Since(w.since) }

// ask asks the lock for a slot in the background, and gives it to the first waiter that it can serve. Called with mu
// held.
func (p *Pool) ask(a *asking) {
	a.ctx, a.giveUp = context.WithCancel(context.Background())
	a.slot.asking = a
	if a.by != nil {
		a.by.trying = true
	}
	p.background.Go(func() {
		held, record, err := p.obtain(a)
		if err == nil {
			if p.deliver(&kept{asked: a, lock: held, got: time.Now()}, record) {
				return
			}
			_ = held.Release(a.ctx) // nobody wants it any more; if this fails, it ends by its TTL
		}
		p.mu.Lock()
		defer p.mu.Unlock()
		p.answered(a)
		a.slot.taken = errors.Is(err, lock.ErrBusy)
		if err != nil && !a.slot.taken && a.ctx.Err() == nil {
			p.turnAway(a.slot.member, err)
		}
		a.giveUp()
		p.arrange()
	})
}

// answered records that the lock is no longer being asked for a slot. Called with mu held.
func (p *Pool) answered(a *asking) {
	a.slot.asking, a.slot.taken = nil, false
	if a.by != nil {
		a.by.trying = false
	}
}

// obtain gets the lock of a slot, and then reads the register: the last holder has written there how long the node
// rests, and operators whether it may be used.
func (p *Pool) obtain(a *asking) (*lock.Lease, db.LightningNode, error) {
	acquire := p.locker.Acquire
	if a.by != nil {
		acquire = p.locker.TryAcquire
	}
	// There is no limit on holding the lock: the payment itself limits how long it takes, and a lease that ended
	// earlier would let a second payment in.
	held, err := acquire(a.ctx, a.slot.key, lock.Options{MaxWait: lock.Unlimited, MaxHold: lock.Unlimited})
	if err != nil {
		return nil, db.LightningNode{}, err
	}
	// Read to the end even if nobody wants the slot any more: canceling a query costs the database pool a connection.
	reading, done := context.WithTimeout(context.WithoutCancel(a.ctx), p.settings.ProbeTimeout)
	defer done()
	record, err := p.Register.read(reading, a.slot.member.Name)
	if err != nil {
		return nil, record, errors.Join(err, held.Release(a.ctx))
	}
	return held, record, nil
}

// deliver gives a slot whose lock was got to the first waiter in the line that it can serve. If whoever wanted it has
// another slot by now, it keeps the lock for the next one. It returns false if the lock must be released.
func (p *Pool) deliver(k *kept, record db.LightningNode) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	m, now := k.asked.slot.member, p.now()
	p.remember(m, record)
	if p.closed || k.asked.ctx.Err() != nil {
		return false
	}
	at := slices.IndexFunc(p.waiting, func(w *waiter) bool { return p.fits(m, w.need, now) })
	if at < 0 && k.asked.by == nil {
		return false
	}
	p.answered(k.asked)
	if at < 0 {
		p.put(k)
	} else {
		k.used = true
		p.give(p.waiting[at], k)
	}
	p.arrange()
	return true
}

// give ends a wait with a lease of a slot whose lock is held. Called with mu held.
func (p *Pool) give(w *waiter, k *kept) {
	p.waiting = slices.DeleteFunc(p.waiting, func(other *waiter) bool { return other == w })
	w.given <- grant{lease: p.newLease(k, w)}
}

// turnAway ends the wait of all whom the node could have served: the lock or the register is unavailable, so nobody may
// be let through. Called with mu held.
func (p *Pool) turnAway(m *member, err error) {
	now := p.now()
	p.waiting = slices.DeleteFunc(p.waiting, func(w *waiter) bool {
		if !p.fits(m, w.need, now) {
			return false
		}
		w.given <- grant{err: unavailable(err)}
		return true
	})
}

func unavailable(err error) error {
	return paidaction.Errorf(paidaction.CodeTryAgain, "A part of this service is busy or restarting. Try again in a moment.").Because(err)
}

// leave ends a wait, and returns its result: a lease may arrive at this very moment.
func (p *Pool) leave(w *waiter) grant {
	p.mu.Lock()
	defer p.mu.Unlock()
	select {
	case ended := <-w.given:
		return ended
	default:
	}
	p.waiting = slices.DeleteFunc(p.waiting, func(other *waiter) bool { return other == w })
	p.arrange()
	return grant{err: p.none(w.need)}
}

// wakeLater wakes the line when the next node has rested, or when somebody's patience has ended. Called with mu held.
func (p *Pool) wakeLater(now time.Time) {
	if p.wake != nil {
		p.wake.Stop()
		p.wake = nil
	}
	var next time.Duration
	sooner := func(d time.Duration) {
		if d > 0 && (next == 0 || d < next) {
			next = d
		}
	}
	for _, w := range p.waiting {
		sooner(w.patience())
	}
	if len(p.waiting) > 0 {
		for _, m := range p.members {
			if p.settings.Rests(m.cooling, now) {
				sooner(m.cooling.Sub(now) + cmp.Or(p.jitter(), time.Millisecond))
			}
		}
	}
	if next > 0 {
		p.wake = time.AfterFunc(next, func() {
			p.mu.Lock()
			defer p.mu.Unlock()
			p.arrange()
		})
	}
}

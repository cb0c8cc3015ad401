package lock

import (
	"context"
	"time"
)

// waiter is a ticket whose owner waits for news of it.
type waiter struct {
	Ticket
	unlimited bool // its lease is limited only by its process counting as dead, not by TTL or hold

	news    chan news // receives once
	entered bool      // the store has answered; guarded by the Locker's mu, as are the next two
	served  bool      // it got the lock
	woken   bool      // a wake came before the store's answer
}

// news is how a wait ends: with a lease that lasts at least until until, with an error, or with the place gone.
type news struct {
	fence int64
	since time.Time // the lease began no earlier
	until time.Time
	err   error
	gone  bool
}

// attempt enters and waits for the result. Calls of one process enter a key one after the other, in the order of their
// places: the queue in the store orders processes, and calls of one process could overtake each other on the way there.
// This also keeps a hot key from occupying every connection.
func (l *Locker) attempt(ctx context.Context, p *Place, e Entry) news {
	if err := p.reach(ctx, e.Wait); err != nil {
		p.depart()
		return news{err: err}
	}
	w := &waiter{Ticket: e.Ticket, news: make(chan news, 1), unlimited: min(e.TTL, e.MaxHold) > e.Live}
	l.mu.Lock()
	if l.closed {
		l.mu.Unlock()
		p.depart()
		return news{err: ErrClosed}
	}
	if p.hushed {
		l.mu.Unlock()
		p.depart()
		return news{err: l.failed("enter", errSilent)}
	}
	l.waiters[w.ID] = w
	l.background.Go(func() {
		l.enter(w, e)
		p.depart()
	})
	l.mu.Unlock()

	select {
	case n := <-w.news:
		return n
	case <-ctx.Done():
	}
	// The lease may come at this very moment. Then either the waiter is gone, or the lease lies in the channel; in both
	// cases the ticket is given back.
	l.mu.Lock()
	_, waits := l.waiters[w.ID]
	delete(l.waiters, w.ID)
	entered := w.entered
	l.mu.Unlock()
	if entered || !waits {
		l.leave(w.Ticket)
	} // otherwise enter will find it gone
	return news{err: gaveUp(ctx)}
}

// enter asks the store for the lock or a place. Close waits for it, and for what it gives back.
func (l *Locker) enter(w *waiter, e Entry) {
	ctx, cancel := l.call()
	defer cancel()
	asked := time.Now()
	got, err := l.store.Enter(ctx, e)
	if err != nil {
		if time.Since(asked) > l.settings.Heartbeat {
			l.hush(w.Key)
		}
		l.tell(w.ID, news{err: l.failed("enter", err)})
		l.mu.Lock()
		given := w.served // nobody can be given it from here on
		l.mu.Unlock()
		if !given {
			l.leaveOrWait(w.Ticket) // the store may have entered it all the same
		}
		return
	}
	l.handed(got.Next, asked)
	l.mu.Lock()
	_, waits := l.waiters[w.ID]
	w.entered = true
	given := w.served // it was handed the lock before this answer came
	l.mu.Unlock()
	if !waits && !given {
		l.leaveOrWait(w.Ticket) // its owner has gone meanwhile
		return
	}
	switch got.State {
	case Held:
		l.tell(w.ID, got.news(asked))
	case Busy:
		l.tell(w.ID, news{err: ErrBusy})
	case Full:
		l.tell(w.ID, news{err: ErrQueueFull})
	case TooMany:
		l.tell(w.ID, news{err: ErrTooManyKeys})
	case Queued:
		l.mu.Lock()
		if w.woken {
			l.urgent = append(l.urgent, w.Ticket)
		}
		l.mu.Unlock()
		token(l.pulse)
		token(l.kick)
	}
}

// news is the news of this grant by a call that began at asked.
func (g Grant) news(asked time.Time) news {
	return news{fence: g.Fence, since: asked, until: asked.Add(g.Valid)}
}

// tell ends a wait. News for a ticket without a waiter is dropped: whoever gave up the wait gives the ticket back, and
// a lease can be reported twice.
func (l *Locker) tell(id string, n news) (waits bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	w := l.waiters[id]
	if w == nil {
		return false
	}
	delete(l.waiters, id)
	w.served = n.err == nil && !n.gone
	w.news <- n
	return true
}

// turnAway ends a wait with an error and gives its ticket back.
func (l *Locker) turnAway(t Ticket, err error) {
	if l.tell(t.ID, news{err: err}) {
		l.leave(t)
	}
}

// handed tells the next holder, if it belongs to this process; the store tells others.
func (l *Locker) handed(h Handoff, asked time.Time) {
	l.metrics.dead.Add(float64(h.Dead))
	if h.Process == l.process.ID {
		l.metrics.wakes.Inc()
		l.tell(h.ID, h.news(asked))
	}
}

// leave gives a ticket back in the background. It returns false, and does nothing, once Close has given back all it
// knew of.
func (l *Locker) leave(t Ticket) bool { return l.spawn(func() { l.giveBack(t) }) }

// leaveOrWait is leave for what Close waits for: if Close gives back no more, it gives the ticket back itself, at once.
func (l *Locker) leaveOrWait(t Ticket) {
	if !l.leave(t) {
		l.giveBack(t)
	}
}

// giveBack gives a ticket back. What the store has not taken after a few tries is owed. Close waits for one answer of a
// store that is silent, and not for three: whoever ends the process does not wait so long.
func (l *Locker) giveBack(t Ticket) {
	for try := range 3 {
		ctx, cancel := l.call()
		if l.taken(ctx, t) {
			cancel()
			return
		}
		if silent := ctx.Err() != nil; silent && l.closing() {
			cancel()
			return
		}
		if try < 2 {
			pause(ctx, l.settings.Heartbeat)
		}
		cancel()
	}
	l.owe(t)
}

// taken offers a ticket back, and says whether the store has taken it.
func (l *Locker) taken(ctx context.Context, t Ticket) bool {
	asked := time.Now()
	h, err := l.store.Leave(ctx, t)
	if err != nil {
		l.metrics.errors.WithLabelValues("leave").Inc()
		return false
	}
	l.handed(h, asked)
	return true
}

// pause waits for d, or less if ctx ends.
func pause(ctx context.Context, d time.Duration) {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-ctx.Done():
	case <-timer.C:
	}
}

// token leaves a token, if there is none yet.
func token(to chan struct{}) {
	select {
	case to <- struct{}{}:
	default:
	}
}

package lock

import (
	"context"
	"math/rand/v2"
	"time"
)

// watch looks after all waits of this process at once: it looks at tickets that were woken, and every so often at all,
// since a wake can get lost and a holder can die.
func (l *Locker) watch(ctx context.Context) {
	timer := time.NewTimer(0)
	defer timer.Stop()
	var looked time.Time
	var answered time.Time // when the store last answered; zero while nobody waits
	for {
		select {
		case <-ctx.Done():
			return
		case <-l.kick:
		case <-timer.C:
		}
		urgent, all := l.toLookAt()
		if len(all) == 0 {
			answered = time.Time{}
			timer.Reset(time.Hour) // the next entry wakes this loop
			continue
		}
		if answered.IsZero() {
			answered = time.Now() // the store has just given somebody a place
		}
		every := l.settings.Poll
		if l.listening.Load() {
			every = l.settings.Heartbeat
		}
		if l.missed.Swap(false) || time.Since(looked) >= every {
			urgent, looked = all, time.Now()
		}
		if len(urgent) > 0 {
			answered = l.bear(answered, l.look(ctx, urgent))
		}
		timer.Reset(max(every-time.Since(looked), l.settings.Poll/10))
	}
}

// toLookAt returns the tickets that were woken, and all that wait in the store.
func (l *Locker) toLookAt() (urgent, all []Ticket) {
	all = l.inStore()
	l.mu.Lock()
	defer l.mu.Unlock()
	urgent, l.urgent = l.urgent, nil
	return urgent, all
}

// inStore are the tickets that wait in the store.
func (l *Locker) inStore() (all []Ticket) {
	l.mu.Lock()
	defer l.mu.Unlock()
	for _, w := range l.waiters {
		if w.entered {
			all = append(all, w.Ticket)
		}
	}
	return all
}

// bear returns when the store last answered, after one more question. If it has failed for longer than Patience, those
// who wait are turned away.
func (l *Locker) bear(answered time.Time, err error) time.Time {
	if err == nil {
		return time.Now()
	}
	if time.Since(answered) > l.settings.Patience {
		for _, t := range l.inStore() {
			l.turnAway(t, err)
		}
	}
	return answered
}

// beats sends one heartbeat for all waits of this process, for as long as there are any. Nothing else is done by this
// loop: if it waited for a hand-over, a key that is slow would make the tickets for all others those of a dead process.
func (l *Locker) beats(ctx context.Context) {
	for {
		select {
		case <-ctx.Done():
			return
		case <-l.pulse:
		}
		for answered := time.Now(); ctx.Err() == nil && len(l.inStore()) > 0; {
			answered = l.bear(answered, l.beat(ctx))
			pause(ctx, l.settings.Heartbeat)
		}
	}
}

// woken handles a wake: a ticket has got the lock.
//
// The lease of a ticket that was handed the lock lasts until its process counts as dead. This process knows when that
// is: at least live() after it began to send its last heartbeat but one. The last one may have come between the hand-over
// and the wake, but not two: a look, which comes as often, would have found the lease. So a wake needs no question to the
// store, unless a shorter TTL or hold limits the lease, or little of it is left.
func (l *Locker) woken(id string, fence int64) {
	until := time.Unix(0, 0)
	if before := l.before.Load(); before != nil {
		until = before.Add(l.settings.live())
	}
	sure := time.Until(until) > l.settings.live()/3
	l.mu.Lock()
	w := l.waiters[id]
	if w != nil && sure && w.unlimited {
		l.mu.Unlock()
		l.metrics.wakes.Inc()
		l.tell(id, news{fence: fence, since: time.Now(), until: until})
		return
	}
	if w != nil && w.entered {
		l.urgent = append(l.urgent, w.Ticket)
	} else if w != nil {
		w.woken = true
	}
	l.mu.Unlock()
	if w != nil {
		l.metrics.wakes.Inc()
		token(l.kick)
	}
}

func (l *Locker) beat(ctx context.Context) error {
	call, cancel := context.WithTimeout(ctx, l.settings.Patience)
	defer cancel()
	begun := time.Now()
	if err := l.store.Beat(call, l.process, l.settings.live()); err != nil {
		return l.failed("beat", err)
	}
	l.before.Store(l.beaten.Swap(&begun))
	return nil
}

// look asks how tickets stand, and acts on the answer.
func (l *Locker) look(ctx context.Context, tickets []Ticket) error {
	call, cancel := context.WithTimeout(ctx, l.settings.Patience)
	defer cancel()
	asked := time.Now()
	standings, err := l.store.Look(call, tickets)
	if err != nil {
		return l.failed("look", err)
	}
	stale := map[string]bool{}
	for _, s := range standings {
		switch s.State {
		case Held:
			l.tell(s.ID, s.news(asked))
		case Gone:
			l.tell(s.ID, news{gone: true})
		case Stale:
			stale[s.Key] = true
		}
	}
	if len(stale) > 0 {
		select {
		case l.stale <- stale:
		default: // the next look finds them again
		}
	}
	return nil
}

// advances hands over the keys that looks have found stale. Each hand-over waits for the store's disk: after the death
// of a process with many keys that takes long, and says nothing of whether the store answers.
func (l *Locker) advances(ctx context.Context) {
	for {
		select {
		case <-ctx.Done():
			return
		case keys := <-l.stale:
			for key := range keys {
				l.advance(ctx, key)
			}
		}
	}
}

func (l *Locker) advance(ctx context.Context, key string) {
	call, cancel := context.WithTimeout(ctx, l.settings.Patience)
	defer cancel()
	asked := time.Now()
	h, err := l.store.Advance(call, key, l.process.ID)
	if err != nil {
		_ = l.failed("advance", err) // counted; the next look finds the key again
		return
	}
	l.handed(h, asked)
}

// listen receives wakes by other processes, and starts again whenever it fails.
func (l *Locker) listen(ctx context.Context) {
	up := func(is bool) {
		if l.listening.Swap(is) == is {
			return
		}
		l.metrics.listening.Set(map[bool]float64{true: 1}[is])
		// What was handed over while nobody listened is found by a look only. Without one, a ticket whose wake fell into a
		// short gap, between two polls, would wait for the next heartbeat.
		l.missed.Store(true)
		token(l.kick)
	}
	for wait := l.settings.Poll; ; wait = min(2*wait, l.settings.Patience) {
		begun := time.Now()
		err := l.store.Listen(ctx, l.process, up, l.woken)
		up(false)
		if ctx.Err() != nil {
			return
		}
		if time.Since(begun) > l.settings.Patience {
			wait = l.settings.Poll
		}
		l.metrics.errors.WithLabelValues("listen").Inc()
		l.settings.Log.WarnContext(ctx, "wakes of the lock do not get through: waiters poll", "store", l.store.Name(), "error", err)
		pause(ctx, wait)
	}
}

// sweepEvery is roughly how often a process tidies up.
const sweepEvery = 10 * time.Minute

func (l *Locker) sweep(ctx context.Context) {
	for {
		pause(ctx, sweepEvery/2+rand.N(sweepEvery))
		if ctx.Err() != nil {
			return
		}
		call, cancel := context.WithTimeout(ctx, l.settings.Patience)
		if err := l.store.Sweep(call); err != nil {
			l.metrics.errors.WithLabelValues("sweep").Inc()
		}
		cancel()
	}
}

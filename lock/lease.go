package lock

import (
	"cmp"
	"context"
	"errors"
	"sync"
	"time"
)

// Lease is an acquired lock. It is safe for concurrent use.
type Lease struct {
	locker   *Locker
	ticket   Ticket
	fence    int64
	degraded bool
	begun    time.Time
	last     time.Time // when the longest hold ends
	ctx      context.Context
	cancel   context.CancelCauseFunc
	touching chan struct{} // holds a token while the store is asked to touch it

	mu    sync.Mutex
	ttl   time.Duration
	until time.Time   // it lasts at least until then, by this machine's monotonic clock
	later time.Time   // and at most until then; the difference is what the store took to answer
	end   *time.Timer // fires when it ends
	over  error       // why it has ended
}

func newLease(ctx context.Context, l *Locker, t Ticket, o Options, got news) *Lease {
	lease := &Lease{locker: l, ticket: t, fence: got.fence, begun: time.Now(), ttl: o.TTL, until: got.until, later: got.until,
		touching: make(chan struct{}, 1)}
	lease.last = got.since.Add(bound(o.MaxHold))
	lease.ctx, lease.cancel = context.WithCancelCause(ctx)
	lease.mu.Lock()
	lease.end = time.AfterFunc(time.Until(lease.ends()), lease.ended)
	lease.mu.Unlock()
	l.metrics.active.Inc()
	l.keeper.add(lease, !o.Manual)
	return lease
}

// Key is the normalised key.
func (s *Lease) Key() string { return s.ticket.Key }

// Fence is the number of this lease: higher than that of every earlier lease of the key. A write on the condition that
// no higher fence has written before fails for a holder that does not know yet that it lost the lock. 0 if degraded.
func (s *Lease) Fence() int64 {
	if s.degraded {
		return 0
	}
	return s.fence
}

// Degraded reports that the store was not available, so that this is a lock within this process only
// ([Options.FailOpen]).
func (s *Lease) Degraded() bool { return s.degraded }

// Context ends when the lease does, with the cause: a [*LostError] if it was lost, [ErrReleased], or what ended the
// context of Acquire.
func (s *Lease) Context() context.Context { return s.ctx }

// Err is nil while the lease lasts, a [*LostError] after it was lost, and [ErrNotOwner] after it was released. A
// process that stood still learns here that the lease ended meanwhile, even before its timers do.
func (s *Lease) Err() error {
	s.ended()
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.over
}

// Touch makes the lease last for ttl from now, but never beyond the longest hold; automatic touches use ttl from then
// on. Errors: a [*LostError] if the lease is over, [ErrNotOwner] if it was released, [ErrUnavailable], [ErrBadOptions],
// and the cause of ctx; after the last three the lease goes on, though a shorter ttl may count already.
func (s *Lease) Touch(ctx context.Context, ttl time.Duration) error {
	if err := (Options{TTL: ttl}).check(); err != nil {
		return err
	}
	l := s.locker
	call, cancel := l.call() // begins here: the touch that is under way may be one that the store does not answer
	select {
	case s.touching <- struct{}{}:
	case <-ctx.Done():
		cancel()
		return context.Cause(ctx)
	case <-call.Done():
		cancel()
		return l.failed("touch", call.Err())
	}
	s.mu.Lock()
	s.ttl = ttl
	over := s.over
	s.mu.Unlock()
	done := make(chan error, 1)
	if over != nil || !l.spawn(func() { defer cancel(); done <- l.keeper.touch(call, []*Lease{s}) }) {
		cancel()
		<-s.touching
		return cmp.Or(over, ErrClosed)
	}
	select {
	case err := <-done:
		if err != nil {
			return err
		}
		return s.Err()
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}

// Release ends the lease and gives the lock to the next. It works even if ctx has ended, so it can be deferred, and
// returns when it is done. Errors: a [*LostError] if the lease was lost before, [ErrNotOwner] if it was released
// before, [ErrUnavailable] if the store did not answer; then the lease ends by its TTL.
func (s *Lease) Release(ctx context.Context) error {
	if err := s.finish(ErrNotOwner, ErrReleased); err != nil {
		return err
	}
	return s.giveBack(ctx)
}

// Drop is Release for callers that do not need its result. The lease is over when Drop returns, and the lock goes to
// the next a moment later. If the store cannot be reached, the lease ends by its TTL.
func (s *Lease) Drop() {
	if s.finish(ErrNotOwner, ErrReleased) == nil {
		s.locker.spawn(func() { _ = s.giveBack(context.Background()) }) // counted
	}
}

// giveBack tells the store that a lease is over.
func (s *Lease) giveBack(ctx context.Context) error {
	l := s.locker
	call, cancel := context.WithTimeout(context.WithoutCancel(ctx), l.settings.Patience)
	defer cancel()
	asked := time.Now()
	got, err := l.store.Release(call, s.ticket)
	if err != nil {
		l.leave(s.ticket)
		return l.failed("release", err)
	}
	l.handed(got.Next, asked)
	switch {
	case !got.Owner:
		return s.tooLate(ErrTaken)
	case got.Late:
		return s.tooLate(ErrExpired)
	}
	return nil
}

// tooLate is a loss noticed at the release.
func (s *Lease) tooLate(cause error) error {
	s.locker.metrics.lost.WithLabelValues(label(cause)).Inc()
	lost := &LostError{Key: s.ticket.Key, Fence: s.fence, Cause: cause}
	s.mu.Lock()
	s.over = lost
	s.mu.Unlock()
	return lost
}

// ends is when the lease is over if nothing happens. Call it with mu held.
func (s *Lease) ends() time.Time {
	if s.last.Before(s.until) {
		return s.last
	}
	return s.until
}

// ended loses the lease if its time is over.
func (s *Lease) ended() {
	s.mu.Lock()
	left := time.Until(s.ends())
	// The store limits a touch to the longest hold, and rounds down.
	tooLong := s.last.Sub(s.later) < 20*time.Millisecond
	s.mu.Unlock()
	switch {
	case left > 0: // touched meanwhile, which has set the timer again
	case tooLong:
		s.lose(ErrMaxHold)
	default:
		s.lose(ErrExpired)
	}
}

// ask is the touch to ask the store for now. It may make the lease shorter, and its answer may get lost: so from now on
// the lease is not believed to last longer than it then does.
func (s *Lease) ask(now time.Time) Touch {
	s.mu.Lock()
	defer s.mu.Unlock()
	if until := now.Add(s.ttl); s.over == nil && until.Before(s.until) {
		s.until, s.later = until, until
		s.end.Reset(time.Until(s.ends()))
	}
	return Touch{Ticket: s.ticket, TTL: s.ttl}
}

// touched moves the end of the lease: later, or earlier after a touch with a shorter TTL.
func (s *Lease) touched(until, later time.Time) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.over == nil {
		s.until, s.later = until, later
		s.end.Reset(time.Until(s.ends()))
	}
}

// lose ends the lease because of cause. It tells the store, which may not know yet while the next waiter waits.
func (s *Lease) lose(cause error) {
	lost := &LostError{Key: s.ticket.Key, Fence: s.fence, Cause: cause}
	if s.finish(lost, lost) != nil {
		return
	}
	s.locker.metrics.lost.WithLabelValues(label(cause)).Inc()
	s.locker.settings.Log.Warn("a lease is lost", "key", s.ticket.Key, "fence", s.fence, "cause", cause)
	s.locker.leave(s.ticket)
}

// finish ends the lease here. If it has ended already, it returns why.
func (s *Lease) finish(over, cause error) error {
	s.mu.Lock()
	if s.over != nil {
		defer s.mu.Unlock()
		return s.over
	}
	s.over = over
	s.end.Stop()
	s.mu.Unlock()
	s.cancel(cause)
	s.locker.keeper.remove(s)
	s.locker.metrics.active.Dec()
	s.locker.metrics.hold.Observe(time.Since(s.begun).Seconds())
	return nil
}

func label(cause error) string {
	switch {
	case errors.Is(cause, ErrMaxHold):
		return "max_hold"
	case errors.Is(cause, ErrExpired):
		return "expired"
	case errors.Is(cause, ErrTaken):
		return "taken"
	default:
		return "closed"
	}
}

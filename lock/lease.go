package lock

import (
	"context"
	"errors"
	"sync"
	"time"
)

// Lease is a lock that was got. It is safe for concurrent use.
type Lease struct {
	locker   *Locker
	ticket   Ticket
	fence    int64
	degraded bool
	begun    time.Time
	last     time.Time // when the longest hold ends
	ctx      context.Context
	cancel   context.CancelCauseFunc

	mu    sync.Mutex
	ttl   time.Duration
	until time.Time   // it lasts until then at least, by this machine's monotonic clock
	later time.Time   // and at most until then: between the two lies what the store took to answer
	end   *time.Timer // fires then
	over  error       // why it is over
}

func newLease(ctx context.Context, l *Locker, t Ticket, o Options, got news) *Lease {
	lease := &Lease{locker: l, ticket: t, fence: got.fence, begun: time.Now(), ttl: o.TTL, until: got.until, later: got.until}
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

// Fence is the number of this lease: higher than that of every lease of the key before. A write that says "only if no higher
// fence was here" cannot be made by a holder that does not know yet that it lost the lock. 0 if the lease is degraded.
func (s *Lease) Fence() int64 {
	if s.degraded {
		return 0
	}
	return s.fence
}

// Degraded says that the store was not available and the lock is one of this process alone ([Options.FailOpen]).
func (s *Lease) Degraded() bool { return s.degraded }

// Context ends when the lease does, with the cause: a [*LostError] if it was lost, [ErrReleased], or what ended the context
// of Acquire.
func (s *Lease) Context() context.Context { return s.ctx }

// Err is nil while the lease lasts, a [*LostError] after it was lost, and [ErrNotOwner] after it was released.
func (s *Lease) Err() error {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.over
}

// Touch makes the lease last for ttl from now, and automatic touches do the same from here on; never beyond the longest hold.
// Errors: a [*LostError] if the lease is over, [ErrNotOwner] if it was released, [ErrUnavailable], [ErrBadOptions], and what
// ctx ended with; the lease goes on after the last three.
func (s *Lease) Touch(ctx context.Context, ttl time.Duration) error {
	if err := (Options{TTL: ttl}).check(); err != nil {
		return err
	}
	s.mu.Lock()
	if s.over != nil {
		defer s.mu.Unlock()
		return s.over
	}
	s.ttl = ttl
	s.mu.Unlock()
	done := make(chan error, 1)
	if !s.locker.spawn(func() { done <- s.locker.keeper.touch([]*Lease{s}) }) {
		return ErrClosed
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

// Release ends the lease, and the lock goes to the next. It does so also when ctx is over, so that it can be deferred; it
// returns when it is done. Errors: a [*LostError] if the lease was over before, [ErrNotOwner] if it was released before,
// [ErrUnavailable] if the store did not answer; then it ends by its TTL.
func (s *Lease) Release(ctx context.Context) error {
	if err := s.finish(ErrNotOwner, ErrReleased); err != nil {
		return err
	}
	return s.giveBack(ctx)
}

// Drop is Release for whoever has nothing to do with how it ends: the lease is over when it returns, and the lock goes to the next a
// moment later. What the store cannot be told ends by its TTL.
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

// tooLate is a loss that was noticed at the release.
func (s *Lease) tooLate(cause error) error {
	s.locker.metrics.lost.WithLabelValues(label(cause)).Inc()
	lost := &LostError{Key: s.ticket.Key, Fence: s.fence, Cause: cause}
	s.mu.Lock()
	s.over = lost
	s.mu.Unlock()
	return lost
}

// ends is when the lease is over if nothing happens. Called with mu held.
func (s *Lease) ends() time.Time {
	if s.last.Before(s.until) {
		return s.last
	}
	return s.until
}

// ended is called when the lease may be over.
func (s *Lease) ended() {
	s.mu.Lock()
	left := time.Until(s.ends())
	if s.over == nil && left > 0 {
		s.end.Reset(left) // touched meanwhile
	}
	// The store does not let a touch reach beyond the longest hold, and rounds down.
	tooLong := s.last.Sub(s.later) < 20*time.Millisecond
	s.mu.Unlock()
	switch {
	case left > 0:
	case tooLong:
		s.lose(ErrMaxHold)
	default:
		s.lose(ErrExpired)
	}
}

// touched makes the lease last longer, or, by a touch of a shorter TTL, less long.
func (s *Lease) touched(until, later time.Time) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.over == nil {
		s.until, s.later = until, later
		s.end.Reset(time.Until(s.ends()))
	}
}

// lose ends the lease because of cause. The store is told: it may not know yet, and the next one waits.
func (s *Lease) lose(cause error) {
	lost := &LostError{Key: s.ticket.Key, Fence: s.fence, Cause: cause}
	if s.finish(lost, lost) != nil {
		return
	}
	s.locker.metrics.lost.WithLabelValues(label(cause)).Inc()
	s.locker.settings.Log.Warn("a lease is lost", "key", s.ticket.Key, "fence", s.fence, "cause", cause)
	s.locker.leave(s.ticket)
}

// finish ends the lease here, unless it is over: then it returns why.
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

package lock

import (
	"context"
	"maps"
	"slices"
	"sync"
	"time"
)

// keeper touches the leases of one Locker before they expire, many in one call: thousands of held keys must not mean
// thousands of statements.
type keeper struct {
	locker *Locker

	mu     sync.Mutex
	leases map[*Lease]time.Time // when to touch each; zero: never
	next   time.Time            // when it looks again
	kick   chan struct{}
}

// touchBatch is how many leases one call touches at most: their rows stay locked until the call ends.
const touchBatch = 500

func newKeeper(l *Locker) *keeper {
	return &keeper{locker: l, leases: map[*Lease]time.Time{}, kick: make(chan struct{}, 1)}
}

func (k *keeper) add(s *Lease, touch bool) {
	k.mu.Lock()
	defer k.mu.Unlock()
	s.mu.Lock()
	over, due := s.over != nil, time.Now().Add(time.Until(s.until)/3)
	s.mu.Unlock()
	if over {
		return // its end may have removed it already, and nobody else would
	}
	if !touch {
		due = time.Time{}
	}
	k.leases[s] = due
	if touch && (k.next.IsZero() || due.Before(k.next)) {
		token(k.kick)
	}
}

func (k *keeper) remove(s *Lease) {
	k.mu.Lock()
	defer k.mu.Unlock()
	delete(k.leases, s)
}

func (k *keeper) all() []*Lease {
	k.mu.Lock()
	defer k.mu.Unlock()
	return slices.Collect(maps.Keys(k.leases))
}

// run touches what is due until ctx ends.
func (k *keeper) run(ctx context.Context) {
	timer := time.NewTimer(0)
	defer timer.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-k.kick:
		case <-timer.C:
		}
		for batch := range slices.Chunk(k.due(), touchBatch) {
			ctx, cancel := k.locker.call()
			_ = k.touch(ctx, batch) // counted; the leases are due again soon
			cancel()
		}
		k.mu.Lock()
		k.next = time.Time{}
		for _, due := range k.leases {
			if !due.IsZero() && (k.next.IsZero() || due.Before(k.next)) {
				k.next = due
			}
		}
		wait := time.Hour
		if !k.next.IsZero() {
			wait = time.Until(k.next)
		}
		k.mu.Unlock()
		timer.Reset(wait)
	}
}

// due are the leases to touch now, if any, with those due soon, so that from then on they are touched together. Each
// has its token (see touch).
func (k *keeper) due() []*Lease {
	k.mu.Lock()
	defer k.mu.Unlock()
	now := time.Now()
	late := false
	var soon []*Lease
	for s, due := range k.leases {
		if due.IsZero() {
			continue
		}
		late = late || !due.After(now)
		if due.Before(now.Add(s.interval() / 4)) {
			soon = append(soon, s)
		}
	}
	if !late {
		return nil
	}
	return slices.DeleteFunc(soon, func(s *Lease) bool {
		select {
		case s.touching <- struct{}{}:
			return false
		default: // its holder touches it at the moment
			k.leases[s] = now.Add(s.interval() / 4)
			return true
		}
	})
}

// interval is the time between two touches.
func (s *Lease) interval() time.Duration {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.ttl / 3
}

// touch touches leases now; ctx ends when the store has had its time to answer. The caller has put a token into
// touching of each, and touch takes it out: of two touches at once nobody could say which of their answers holds.
func (k *keeper) touch(ctx context.Context, leases []*Lease) error {
	l := k.locker
	asked := time.Now()
	touches := make([]Touch, len(leases))
	for i, s := range leases {
		touches[i] = s.ask(asked)
		defer func() { <-s.touching }()
	}
	valid, err := l.store.Touch(ctx, touches)
	for i, s := range leases {
		left, ok := valid[s.ticket.ID]
		switch {
		case err != nil:
			// A failure is no loss: the lease lasts until its end, and there is time to try again.
			k.again(s, min(touches[i].TTL/10, time.Second))
		case !ok && !time.Now().Before(s.last): // after the longest hold the store finds nothing to touch
			s.lose(ErrMaxHold)
		case !ok:
			s.lose(ErrTaken)
		default:
			s.touched(asked.Add(left), time.Now().Add(left))
			k.again(s, touches[i].TTL/3)
		}
	}
	if err != nil {
		return l.failed("touch", err)
	}
	return nil
}

// again notes when to touch a lease next, unless it has ended or is touched by hand.
func (k *keeper) again(s *Lease, after time.Duration) {
	k.mu.Lock()
	defer k.mu.Unlock()
	if due, ok := k.leases[s]; ok && !due.IsZero() {
		k.leases[s] = time.Now().Add(after)
		if k.leases[s].Before(k.next) {
			token(k.kick)
		}
	}
}

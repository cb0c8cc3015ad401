package lock

import "context"

// mostOwed is how many tickets a Locker keeps to give back later. While the store is away each entry that fails may be
// one more. Those that came first are the likeliest to have a place in the store.
const mostOwed = 10_000

// owe notes a ticket that the store has not taken back.
func (l *Locker) owe(t Ticket) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.owed.Len() < mostOwed {
		l.owed.PushBack(t)
		token(l.owing)
	}
}

// repay gives back what is owed, one ticket after the other, with longer and longer pauses while the store does not take
// it. The store cannot see to it: a ticket that nobody waits for counts as alive while anybody else waits in this
// process, is handed the lock in its turn, and keeps it from the next until the lease ends.
//
// Once ctx has ended, what is left is offered once more, up to the first that the store does not take: the tickets of a
// process that is no more soon count as dead.
func (l *Locker) repay(ctx context.Context) {
	for wait := l.settings.Heartbeat; ; {
		l.mu.Lock()
		first := l.owed.Front()
		l.mu.Unlock()
		if first == nil {
			select {
			case <-ctx.Done():
				return
			case <-l.owing:
			}
			continue
		}
		call, cancel := l.call()
		taken := l.taken(call, first.Value.(Ticket))
		cancel()
		l.mu.Lock()
		if taken {
			l.owed.Remove(first)
		} else {
			l.owed.MoveToBack(first) // a key that is stuck holds up no other
		}
		l.mu.Unlock()
		switch {
		case taken:
			wait = l.settings.Heartbeat
		case ctx.Err() != nil:
			return
		default:
			pause(ctx, wait)
			wait = min(2*wait, l.settings.Patience)
		}
	}
}

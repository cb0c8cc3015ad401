package pool

import "time"

// Waiting is how many wait in the line.
func (p *Pool) Waiting() int {
	p.mu.Lock()
	defer p.mu.Unlock()
	return len(p.waiting)
}

// KeepLocks has the locks of slots kept, however long nobody wants them: whether a slot is just being given back is then no matter of time.
func (p *Pool) KeepLocks() { p.KeepLocksFor(time.Hour) }

// KeepLocksFor has the locks of slots kept, however long nobody wants them, unless they were got so long ago.
func (p *Pool) KeepLocksFor(most time.Duration) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.keptIdle, p.keptFor = time.Hour, most
}

// Settled returns when the pool has shown what it has last done: who gets a lease has it a moment before.
func (p *Pool) Settled() {
	p.mu.Lock()
	defer p.mu.Unlock()
}

// QueuedFor is of how many slots of a node, known to be taken, the process waits for the lock.
func (p *Pool) QueuedFor(node string) (n int) {
	p.mu.Lock()
	defer p.mu.Unlock()
	for _, s := range p.slots {
		if s.member.Name == node && s.asking != nil && (s.taken || s.lease != nil) {
			n++
		}
	}
	return n
}

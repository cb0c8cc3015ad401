package pool

import "time"

// Jitter is a random pause under these settings.
func Jitter(s Settings) time.Duration { return (&Pool{settings: s}).jitter() }

// Waiting is how many callers wait in the line.
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

// Settled returns once the pool has shown in its metrics what it did last: a caller gets its lease a moment earlier.
func (p *Pool) Settled() {
	p.mu.Lock()
	defer p.mu.Unlock()
}

// QueuedFor is for how many slots of a node, known to be taken, the process waits in the lock's queue.
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

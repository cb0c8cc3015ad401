package pool

// Waiting is how many wait in the line.
func (p *Pool) Waiting() int {
	p.mu.Lock()
	defer p.mu.Unlock()
	return len(p.waiting)
}

// Queued is of how many slots, known to be taken, the process waits for the lock.
func (p *Pool) Queued() (n int) {
	p.mu.Lock()
	defer p.mu.Unlock()
	for _, s := range p.slots {
		if s.asking != nil && (s.taken || s.lease != nil) {
			n++
		}
	}
	return n
}

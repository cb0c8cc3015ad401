package pool

// Waiting is how many wait in the line.
func (p *Pool) Waiting() int {
	p.mu.Lock()
	defer p.mu.Unlock()
	return len(p.waiting)
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

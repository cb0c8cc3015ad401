package lock

import (
	"maps"
	"time"
)

// Waiting is how many wait for a key.
func (m *Memory) Waiting(key string) int {
	m.mu.Lock()
	defer m.mu.Unlock()
	if k := m.keys[key]; k != nil {
		return len(k.queue)
	}
	return 0
}

// Keys are the keys that are held.
func (m *Memory) Keys() map[string]*memoryKey {
	m.mu.Lock()
	defer m.mu.Unlock()
	return maps.Clone(m.keys)
}

// Drained says whether nothing more is begun in the background, for the Locker is being closed.
func (l *Locker) Drained() bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.drained
}

// MostOwed is how many tickets are kept to be given back later.
const MostOwed = mostOwed

// Owed is how many tickets are kept to be given back later.
func (l *Locker) Owed() int {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.owed.Len()
}

// Lines is for how many keys somebody has a place.
func (l *Locker) Lines() int {
	l.mu.Lock()
	defer l.mu.Unlock()
	return len(l.lines)
}

// Holder is the ticket of who holds a key.
func (m *Memory) Holder(key string) Ticket {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.keys[key].holder.Ticket
}

// Ends is when the lease of a key ends if nobody touches it.
func (m *Memory) Ends(key string) time.Time {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.keys[key].until
}

// Expire ends the lease of a key, which nobody has noticed yet.
func (m *Memory) Expire(key string) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.keys[key].until = time.Now()
}

// Until is when the lease ends if nobody touches it.
func (s *Lease) Until() time.Time {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.ends()
}

// Forget loses the places of all who wait for a key, as the crash of a server may.
func (m *Memory) Forget(key string) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.keys[key].queue = nil
}

package lock

import (
	"context"
	"sync"
	"time"
)

// Memory keeps queues and leases in this process. It is for a single instance: of two, each with its own memory, both
// would hold the lock (lock/postgres has a guard against a second one). A key exists as long as it is held or waited
// for, and is never evicted.
type Memory struct {
	maxKeys int

	mu        sync.Mutex
	fence     int64
	keys      map[string]*memoryKey
	listeners map[string]func(id string, fence int64) // by process
}

type memoryKey struct {
	holder       Entry // the zero entry while the key is new
	fence        int64
	until, limit time.Time
	queue        []Entry // first in, first out
}

// NewMemory makes a store that keeps at most maxKeys keys; 0 is 100,000.
func NewMemory(maxKeys int) *Memory {
	if maxKeys == 0 {
		maxKeys = 100_000
	}
	// Fences begin at the clock, above those of the process before.
	return &Memory{maxKeys: maxKeys, fence: time.Now().UnixMicro(), keys: map[string]*memoryKey{}, listeners: map[string]func(string, int64){}}
}

// Name implements [Store].
func (m *Memory) Name() string { return "memory" }

// grant gives the key to e. Call it with mu held, like handOver and waits.
func (m *Memory) grant(k *memoryKey, e Entry, now time.Time) Grant {
	m.fence++
	k.holder, k.fence, k.limit = e, m.fence, now.Add(e.MaxHold)
	valid := min(e.TTL, e.MaxHold)
	k.until = now.Add(valid)
	return Grant{Fence: k.fence, Valid: valid}
}

// handOver gives the key to the next in the queue, or removes it.
func (m *Memory) handOver(key string, k *memoryKey, by string, now time.Time) Handoff {
	if len(k.queue) == 0 {
		delete(m.keys, key)
		return Handoff{}
	}
	next := k.queue[0]
	k.queue[0] = Entry{}
	k.queue = k.queue[1:]
	h := Handoff{Ticket: next.Ticket, Grant: m.grant(k, next, now)}
	if woken := m.listeners[h.Process]; woken != nil && h.Process != by {
		go woken(h.ID, h.Fence) // not with mu held
	}
	return h
}

func (k *memoryKey) waits(id string) int {
	for i, e := range k.queue {
		if e.ID == id {
			return i
		}
	}
	return -1
}

// Enter implements [Store].
func (m *Memory) Enter(_ context.Context, e Entry) (got Entered, _ error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	now := time.Now()
	k := m.keys[e.Key]
	if k != nil && !now.Before(k.until) && k.holder.ID != e.ID {
		got.Next = m.handOver(e.Key, k, e.Process, now)
		k = m.keys[e.Key]
	}
	switch {
	case k == nil && len(m.keys) >= m.maxKeys:
		got.State = TooMany
	case k == nil:
		k = &memoryKey{}
		m.keys[e.Key] = k
		got.State, got.Grant = Held, m.grant(k, e, now)
	case k.holder.ID == e.ID:
		got.State, got.Grant = Held, Grant{k.fence, k.until.Sub(now)}
	case k.waits(e.ID) >= 0:
		got.State = Queued
	case !e.Wait:
		got.State = Busy
	case len(k.queue) >= e.MaxQueue:
		got.State = Full
	default:
		k.queue = append(k.queue, e)
		got.State = Queued
	}
	return got, nil
}

// Beat implements [Store]. Here no process dies alone.
func (m *Memory) Beat(context.Context, Process, time.Duration) error { return nil }

// Look implements [Store].
func (m *Memory) Look(_ context.Context, tickets []Ticket) ([]Standing, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	now := time.Now()
	all := make([]Standing, len(tickets))
	places := map[string]map[string]bool{} // the waiters, by key
	for i, t := range tickets {
		all[i] = Standing{Ticket: t, State: Gone}
		k := m.keys[t.Key]
		if k == nil {
			continue
		}
		if places[t.Key] == nil {
			places[t.Key] = make(map[string]bool, len(k.queue))
			for _, e := range k.queue {
				places[t.Key][e.ID] = true
			}
		}
		holds, waits, over := k.holder.ID == t.ID, places[t.Key][t.ID], !now.Before(k.until)
		switch {
		case over && (holds || waits):
			all[i].State = Stale
		case holds:
			all[i].State, all[i].Grant = Held, Grant{k.fence, k.until.Sub(now)}
		case waits:
			all[i].State = Queued
		}
	}
	return all, nil
}

// Advance implements [Store].
func (m *Memory) Advance(_ context.Context, key, process string) (Handoff, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	now := time.Now()
	if k := m.keys[key]; k != nil && !now.Before(k.until) {
		return m.handOver(key, k, process, now), nil
	}
	return Handoff{}, nil
}

// Touch implements [Store].
func (m *Memory) Touch(_ context.Context, touches []Touch) (map[string]time.Duration, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	now := time.Now()
	valid := make(map[string]time.Duration, len(touches))
	for _, t := range touches {
		if k := m.keys[t.Key]; k != nil && k.holder.ID == t.ID && now.Before(k.until) {
			valid[t.ID] = min(t.TTL, k.limit.Sub(now))
			k.until = now.Add(valid[t.ID])
		}
	}
	return valid, nil
}

// Release implements [Store].
func (m *Memory) Release(_ context.Context, t Ticket) (Released, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	now := time.Now()
	k := m.keys[t.Key]
	if k == nil || k.holder.ID != t.ID {
		return Released{}, nil
	}
	late := !now.Before(k.until)
	return Released{Owner: true, Late: late, Next: m.handOver(t.Key, k, t.Process, now)}, nil
}

// Leave implements [Store].
func (m *Memory) Leave(_ context.Context, t Ticket) (Handoff, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	k := m.keys[t.Key]
	if k == nil {
		return Handoff{}, nil
	}
	if k.holder.ID == t.ID {
		return m.handOver(t.Key, k, t.Process, time.Now()), nil
	}
	if at := k.waits(t.ID); at >= 0 {
		k.queue = append(k.queue[:at], k.queue[at+1:]...)
	}
	return Handoff{}, nil
}

// Listen implements [Store].
func (m *Memory) Listen(ctx context.Context, p Process, up func(bool), woken func(string, int64)) error {
	m.mu.Lock()
	m.listeners[p.ID] = woken
	m.mu.Unlock()
	up(true)
	<-ctx.Done()
	m.mu.Lock()
	delete(m.listeners, p.ID)
	m.mu.Unlock()
	return ctx.Err()
}

// Sweep implements [Store]. Only keys whose holder and waiters are all gone can remain, and the next entry removes
// those.
func (m *Memory) Sweep(context.Context) error { return nil }

// Close implements [Store].
func (m *Memory) Close() error { return nil }

package worker

import (
	"sync"

	"github.com/a-seed-a7aed72f/holdfast/paidaction"
)

// position is how far a node's stream of invoices has been processed.
type position struct{ add, settle uint64 }

// cursor keeps the position from which a stream resumes: the highest index below which nothing is missing, not the
// highest seen (spec 01 §1.6). Events may come twice, out of order, or not at all. It is safe for concurrent use.
type cursor struct {
	mu          sync.Mutex
	add, settle run
}

func newCursor(from position) *cursor {
	return &cursor{add: run{end: from.add, highest: from.add}, settle: run{end: from.settle, highest: from.settle}}
}

// see notes events as processed.
func (c *cursor) see(events []paidaction.InvoiceEvent) {
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, e := range events {
		c.add.see(e.AddIndex)
		c.settle.see(e.SettleIndex)
	}
}

// position is where a stream resumes.
func (c *cursor) position() position {
	c.mu.Lock()
	defer c.mu.Unlock()
	return position{c.add.end, c.settle.end}
}

// highest returns the highest indices seen.
func (c *cursor) highest() position {
	c.mu.Lock()
	defer c.mu.Unlock()
	return position{c.add.highest, c.settle.highest}
}

// stuck reports whether the cursor still waits for the number that it waited for when stuck was last called.
func (c *cursor) stuck() bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	add, settle := c.add.stuck(), c.settle.stuck()
	return add || settle
}

// skip gives up waiting for what is missing up to and including to, and returns the position after it.
func (c *cursor) skip(to position) position {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.add.skip(to.add)
	c.settle.skip(to.settle)
	return position{c.add.end, c.settle.end}
}

// run is a sequence of numbers without a gap, and the numbers seen beyond its end.
type run struct {
	end, highest uint64
	beyond       map[uint64]struct{}
	missing      uint64 // the first missing number when stuck was last called; 0: none
}

// see adds a number; 0 means none.
func (r *run) see(n uint64) {
	r.highest = max(r.highest, n)
	if n <= r.end {
		return
	}
	if r.beyond == nil {
		r.beyond = map[uint64]struct{}{}
	}
	r.beyond[n] = struct{}{}
	r.extend()
}

func (r *run) stuck() bool {
	before := r.missing
	r.missing = 0
	if len(r.beyond) > 0 {
		r.missing = r.end + 1
	}
	return r.missing != 0 && r.missing == before
}

func (r *run) skip(to uint64) {
	for n := range r.beyond {
		if n <= to {
			delete(r.beyond, n)
		}
	}
	r.end = max(r.end, to)
	r.extend()
}

func (r *run) extend() {
	for {
		if _, ok := r.beyond[r.end+1]; !ok {
			return
		}
		r.end++
		delete(r.beyond, r.end)
	}
}

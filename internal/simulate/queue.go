package simulate

import (
	"container/heap"
	"time"
)

// event is something that happens at a moment of the simulated time.
type event struct {
	at    time.Duration // since the beginning
	order int           // among events at the same moment
	do    func()
}

// queue holds the coming events, the next one first.
type queue struct {
	events []event
	added  int
}

func (q *queue) Len() int { return len(q.events) }
func (q *queue) Less(i, j int) bool {
	a, b := q.events[i], q.events[j]
	return a.at < b.at || a.at == b.at && a.order < b.order
}
func (q *queue) Swap(i, j int) { q.events[i], q.events[j] = q.events[j], q.events[i] }
func (q *queue) Push(e any)    { q.events = append(q.events, e.(event)) }
func (q *queue) Pop() any {
	last := len(q.events) - 1
	e := q.events[last]
	q.events = q.events[:last]
	return e
}

func (q *queue) add(at time.Duration, do func()) {
	q.added++
	heap.Push(q, event{at, q.added, do})
}

func (q *queue) next() (event, bool) {
	if len(q.events) == 0 {
		return event{}, false
	}
	return heap.Pop(q).(event), true
}

// free reports whether no event comes before a moment.
func (q *queue) free(until time.Duration) bool { return len(q.events) == 0 || q.events[0].at > until }

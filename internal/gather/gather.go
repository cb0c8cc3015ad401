// Package gather has done together what waits at the same time.
package gather

import (
	"context"
	"slices"
	"sync"
	"time"
)

// Group does things of one kind, several at once. Where nothing is under way nobody waits for more to come: who comes then is a group of one.
// While a group is under way those who come wait for its end, and are the next one; before that, in another place, they begin only once they
// are half as many as a group can be, or one of them has waited for Patience. What each group costs, however many are in it, is then paid
// seldom. The first of each group, or the one who makes it large enough, does it, in its own goroutine, for all of them.
type Group[T any] struct {
	// Patience, if it is above zero, is for how long somebody waits for the group before: one that is stuck, at a row that somebody else has
	// locked say, does not hold up all others. It is set before the first Do.
	Patience time.Duration

	// Wait, if there is one, is called before somebody waits, for as long as they have to or until ctx ends: for a simulation, which
	// decides itself who goes on. It is set before the first Do.
	Wait func(ctx context.Context, still func() bool)

	places int
	most   int // in a group
	enough int // of those who wait, to begin beside another group
	do     func(ctx context.Context, items []T)

	mu      sync.Mutex
	waiting []*waiter[T]
	busy    int         // places taken; while there is none nobody waits
	relief  *time.Timer // runs out when the first of those who wait has waited for Patience; nil while none of them is timed
}

// New makes a Group that has so many places, for groups of so many at most. Those who came first are done first. What becomes of each item do
// notes in the item; where do panics the others find theirs as it was. The context of a group of several does not end with that of one
// caller, and has no deadline.
func New[T any](places, most int, do func(ctx context.Context, items []T)) *Group[T] {
	return &Group[T]{places: places, most: most, enough: (most + 1) / 2, do: do}
}

type waiter[T any] struct {
	item T
	lead chan []*waiter[T] // gets the group that this one is to do
	done chan struct{}
}

// Do returns once the item was done. An error means that ctx ended before it was begun.
func (g *Group[T]) Do(ctx context.Context, item T) error {
	group, err := g.join(ctx, &waiter[T]{item: item, lead: make(chan []*waiter[T], 1), done: make(chan struct{})})
	if group == nil {
		return err
	}
	defer g.leave()
	items := make([]T, len(group))
	for i, w := range group {
		items[i] = w.item
		defer close(w.done)
	}
	if len(group) > 1 {
		ctx = context.WithoutCancel(ctx)
	}
	g.do(ctx, items)
	return nil
}

// Waiting is how many wait for a place.
func (g *Group[T]) Waiting() int {
	g.mu.Lock()
	defer g.mu.Unlock()
	return len(g.waiting)
}

// join returns the group that this one is to do, nil where another one has done so for it.
func (g *Group[T]) join(ctx context.Context, w *waiter[T]) ([]*waiter[T], error) {
	g.mu.Lock()
	g.waiting = append(g.waiting, w)
	if g.busy == 0 || g.busy < g.places && len(g.waiting) >= g.enough {
		group := g.begin()
		g.mu.Unlock()
		return group, nil
	}
	g.time()
	g.mu.Unlock()
	g.pause(ctx, w)
	select {
	case group := <-w.lead:
		return group, nil
	case <-w.done:
		return nil, nil
	case <-ctx.Done():
	}
	if g.forget(w) {
		return nil, ctx.Err()
	}
	g.pause(context.WithoutCancel(ctx), w) // it is in a group already
	select {
	case group := <-w.lead:
		return group, nil
	case <-w.done:
		return nil, nil
	}
}

// begin takes a place for the first of those who wait. While there is a place those who wait are fewer than enough: whoever makes them enough is
// the last of the group.
func (g *Group[T]) begin() []*waiter[T] {
	n := min(len(g.waiting), g.most)
	group := slices.Clone(g.waiting[:n])
	g.waiting = slices.Delete(g.waiting, 0, n)
	g.busy++
	if g.relief != nil {
		g.relief.Stop() // one that is just running out begins the next group early, which harms nobody
		g.relief = nil
	}
	g.time()
	return group
}

// time has those relieved who wait too long, if there is a place for them.
func (g *Group[T]) time() {
	if g.relief == nil && g.Patience > 0 && g.busy < g.places && len(g.waiting) > 0 {
		g.relief = time.AfterFunc(g.Patience, g.relieve)
	}
}

// relieve lets those begin who have waited too long.
func (g *Group[T]) relieve() {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.relief = nil
	if g.busy < g.places && len(g.waiting) > 0 {
		group := g.begin()
		group[0].lead <- group
	}
}

func (g *Group[T]) pause(ctx context.Context, w *waiter[T]) {
	if g.Wait != nil {
		g.Wait(ctx, w.undecided)
	}
}

// undecided says whether one still waits to do a group, or for another one to have done it.
func (w *waiter[T]) undecided() bool {
	select {
	case <-w.done:
		return false
	default:
		return len(w.lead) == 0
	}
}

// forget takes one away who waits no longer, and says whether it still waited.
func (g *Group[T]) forget(w *waiter[T]) bool {
	g.mu.Lock()
	defer g.mu.Unlock()
	i := slices.Index(g.waiting, w)
	if i >= 0 {
		g.waiting = slices.Delete(g.waiting, i, i+1)
	}
	return i >= 0
}

// leave gives a place to those who wait, unless others are under way whose end they can wait for.
func (g *Group[T]) leave() {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.busy--
	if len(g.waiting) > 0 && (g.busy == 0 || len(g.waiting) >= g.enough) {
		group := g.begin()
		group[0].lead <- group
		return
	}
	g.time()
}

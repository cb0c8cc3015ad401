// Package gather has done together what waits at the same time.
package gather

import (
	"context"
	"slices"
	"sync"
)

// Group does things of one kind, several at once. Nobody waits for more to come: a group is those who wait when a place becomes free, and
// whoever finds a free place is a group of one. The first of each group does it, in its own goroutine, for all of them.
type Group[T any] struct {
	// Wait, if there is one, is called before somebody waits, for as long as they have to or until ctx ends: for a simulation, which
	// decides itself who goes on. It is set before the first Do.
	Wait func(ctx context.Context, still func() bool)

	places, most int
	do           func(ctx context.Context, items []T)

	mu      sync.Mutex
	waiting []*waiter[T]
	busy    int // places taken; while one is free nobody waits
}

// New makes a Group that has so many places, for groups of so many at most. Those who came first are done first. What becomes of each item do
// notes in the item; where do panics the others find theirs as it was. The context of a group of several does not end with that of one
// caller, and has no deadline.
func New[T any](places, most int, do func(ctx context.Context, items []T)) *Group[T] {
	return &Group[T]{places: places, most: most, do: do}
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
	if g.busy < g.places {
		g.busy++
		g.mu.Unlock()
		return []*waiter[T]{w}, nil
	}
	g.waiting = append(g.waiting, w)
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

// leave gives a place to those who wait.
func (g *Group[T]) leave() {
	g.mu.Lock()
	defer g.mu.Unlock()
	n := min(len(g.waiting), g.most)
	if n == 0 {
		g.busy--
		return
	}
	group := slices.Clone(g.waiting[:n])
	g.waiting = slices.Delete(g.waiting, 0, n)
	group[0].lead <- group
}

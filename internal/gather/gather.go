// Package gather does together, as a group, what waits at the same time: what each group costs, such as a transaction,
// is then paid once for many. Who comes while nothing is under way does not wait.
package gather

import (
	"context"
	"slices"
	"sync"
	"time"
)

// Group does things of one kind, several at once, so that a cost per group is paid seldom. While nothing is under way,
// nobody waits: a newcomer is a group of one. While a group is under way, newcomers wait for its end and then
// form the next group. If another place is free, they begin earlier: once they number half of a full group, or once one
// of them has waited for Patience. The first of a group, or the one who makes it large enough, does the work for all of
// them, in its own goroutine.
type Group[T any] struct {
	// Patience, if above zero, is how long somebody waits for the group before theirs. So a group that is stuck, for
	// example at a row that somebody else has locked, does not hold up all others. Set it before the first Do.
	Patience time.Duration

	// Wait, if not nil, is called before somebody waits. It returns once still is false or ctx has ended. A simulation
	// uses it to decide itself who goes on. Set it before the first Do.
	Wait func(ctx context.Context, still func() bool)

	places int
	most   int // in a group
	enough int // so many who wait begin beside another group
	do     func(ctx context.Context, items []T)

	mu      sync.Mutex
	waiting []*waiter[T]
	busy    int         // places taken; while it is 0 nobody waits
	relief  *time.Timer // fires when the first of those who wait has waited for Patience; nil while no one is timed
}

// New makes a Group with so many places, for groups of at most so many. First come, first done. do notes the outcome of
// each item in the item; if it panics, the others find their items unchanged. The context of a group of several does
// not end with that of one caller, and has no deadline.
func New[T any](places, most int, do func(ctx context.Context, items []T)) *Group[T] {
	return &Group[T]{places: places, most: most, enough: (most + 1) / 2, do: do}
}

type waiter[T any] struct {
	item T
	lead chan []*waiter[T] // gets the group that this one is to do
	done chan struct{}
}

// Do returns once the item was done. An error means that ctx ended before the item was begun.
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

// join returns the group that the caller is to do, or nil if another caller has done its item.
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

// begin takes a place for those who have waited longest. As long as a place is free, fewer than enough wait: so the one
// who makes them enough is the last of the group.
func (g *Group[T]) begin() []*waiter[T] {
	n := min(len(g.waiting), g.most)
	group := slices.Clone(g.waiting[:n])
	g.waiting = slices.Delete(g.waiting, 0, n)
	g.busy++
	if g.relief != nil {
		g.relief.Stop() // if it is firing right now, the next group begins early, which harms nobody
		g.relief = nil
	}
	g.time()
	return group
}

// time starts the timer of those who wait, if there is a place for them.
func (g *Group[T]) time() {
	if g.relief == nil && g.Patience > 0 && g.busy < g.places && len(g.waiting) > 0 {
		g.relief = time.AfterFunc(g.Patience, g.relieve)
	}
}

// relieve begins a group of those who have waited too long.
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

// undecided reports whether this one still waits to do a group, or for another one to have done its item.
func (w *waiter[T]) undecided() bool {
	select {
	case <-w.done:
		return false
	default:
		return len(w.lead) == 0
	}
}

// forget removes one who no longer waits, and reports whether it was still waiting.
func (g *Group[T]) forget(w *waiter[T]) bool {
	g.mu.Lock()
	defer g.mu.Unlock()
	i := slices.Index(g.waiting, w)
	if i >= 0 {
		g.waiting = slices.Delete(g.waiting, i, i+1)
	}
	return i >= 0
}

// leave gives the place to those who wait, unless too few wait and another group is under way whose end they can await.
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

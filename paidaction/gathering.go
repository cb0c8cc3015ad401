package paidaction

import (
	"context"
	"errors"
	"slices"
	"sync"
)

// groupsAtOnce is how many groups of one kind and method are under way in this process: while one waits for the disk, another is at work.
const groupsAtOnce = 2

// gathering is where attempts wait that can be paid together. Nobody waits for more to come: a group is those who wait when a
// place becomes free, and whoever finds a free place is a group of one. The first of each group sees it through.
type gathering struct {
	mu      sync.Mutex
	waiting []*member
	busy    int // places taken; while one is free nobody waits
}

// join returns the group that this member is to see through, nil where another one has done so for it. An error means that it was never begun.
func (g *gathering) join(ctx context.Context, m *member) ([]*member, error) {
	g.mu.Lock()
	if g.busy < groupsAtOnce {
		g.busy++
		g.mu.Unlock()
		return []*member{m}, nil
	}
	g.waiting = append(g.waiting, m)
	g.mu.Unlock()
	select {
	case group := <-m.lead:
		return group, nil
	case <-m.done:
		return nil, nil
	case <-ctx.Done():
	}
	if g.forget(m) {
		return nil, ctx.Err()
	}
	select { // it is in a group already
	case group := <-m.lead:
		return group, nil
	case <-m.done:
		return nil, nil
	}
}

// forget takes one away who waits no longer, and says whether it still waited.
func (g *gathering) forget(m *member) bool {
	g.mu.Lock()
	defer g.mu.Unlock()
	i := slices.Index(g.waiting, m)
	if i >= 0 {
		g.waiting = slices.Delete(g.waiting, i, i+1)
	}
	return i >= 0
}

// leave gives a place to those who wait, to so many at most.
func (g *gathering) leave(most int) {
	g.mu.Lock()
	defer g.mu.Unlock()
	n := min(len(g.waiting), most)
	if n == 0 {
		g.busy--
		return
	}
	group := slices.Clone(g.waiting[:n])
	g.waiting = slices.Delete(g.waiting, 0, n)
	group[0].lead <- group
}

// together pays for an attempt from a balance, with those that wait at the same time. What comes in the way of others is none of its business.
func (e *Engine) together(ctx context.Context, a *attempt, method Method) (*PaidAction, error) {
	m := &member{attempt: a, lead: make(chan []*member, 1), done: make(chan struct{})}
	m.err = errApart
	if e.Settings.MaxGroup > 1 {
		g := e.gatherings[gatheringKey{a.def.Spec().Kind, method}]
		group, err := g.join(ctx, m)
		if err != nil {
			return nil, err
		}
		if group != nil {
			e.seeThrough(ctx, g, method, group)
		}
	}
	if errors.Is(m.err, errApart) {
		if err := e.beginTogether(ctx, a.def, method, []*member{m}); err != nil {
			m.err = err
		}
	}
	if errors.Is(m.err, errApart) {
		return e.begin(ctx, a, method, plan{})
	}
	return e.became(ctx, a, m.tx, m.result, m.err)
}

// seeThrough does a group, tells each member what became of it, and lets the next group begin.
func (e *Engine) seeThrough(ctx context.Context, g *gathering, method Method, group []*member) {
	defer g.leave(e.Settings.MaxGroup)
	alone := len(group) == 1
	if !alone {
		// That one caller goes away is nothing to the others.
		var cancel context.CancelFunc
		ctx, cancel = context.WithTimeout(context.WithoutCancel(ctx), e.Settings.CallTimeout)
		defer cancel()
	}
	err := e.beginTogether(ctx, group[0].def, method, group)
	for _, m := range group {
		switch {
		case err != nil && (alone || errors.Is(err, errUnknownCommit)):
			m.err = err
		case err != nil:
			m.err = errApart // whose fault it was shows where each is done by itself
		}
		close(m.done)
	}
}

// groupable says whether an attempt can be paid together with others.
func (a *attempt) groupable(m Method) bool {
	return a.previous == 0 && a.payer != nil && m.Flow() == FlowBalance && source(m, a.payer).Owner() != 0 && a.def.grouped()
}

// gatheringKey names a gathering.
type gatheringKey struct {
	kind   string
	method Method
}

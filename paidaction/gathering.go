package paidaction

import (
	"context"
	"errors"
	"time"

	"github.com/a-seed-a7aed72f/holdfast/internal/gather"
)

const (
	// groupsAtOnce is how many groups of one kind and method run in this process at most: one, unless many wait.
	groupsAtOnce = 3
	// groupPatience is how long one group waits for another to end. Groups take a few milliseconds, unless an account
	// is locked.
	groupPatience = 25 * time.Millisecond
)

// gatheringKey names those who can be paid together: attempts at one kind of action by one method, or actions of one
// kind that take the same step.
type gatheringKey struct {
	kind   string
	method Method // of attempts
	step   Step   // of actions
}

// gatherings sets up where actions of a kind wait that can be paid together.
func (e *Engine) gatherings(def Definition) {
	wait := func(key gatheringKey, do func(ctx context.Context, group []*member) error) {
		e.gathered[key] = gathering(e, groupsAtOnce, groupPatience, func(ctx context.Context, group []*member) { e.seeThrough(ctx, group, do) })
	}
	kind := def.Spec().Kind
	for _, m := range def.Spec().Methods {
		wait(gatheringKey{kind: kind, method: m}, func(ctx context.Context, group []*member) error { return e.beginTogether(ctx, def, m, group) })
	}
	for _, step := range Machine {
		if step.inStride() {
			wait(gatheringKey{kind: kind, step: step}, func(ctx context.Context, group []*member) error { return e.moveTogether(ctx, def, step, group) })
		}
	}
}

// gathering collects members for do. At most atOnce groups run at once, and one waits for another to end no longer than
// patience.
func gathering[T any](e *Engine, atOnce int, patience time.Duration, do func(ctx context.Context, group []T)) *gather.Group[T] {
	g := gather.New(atOnce, e.Settings.MaxGroup, do)
	if g.Wait = e.Hooks.Wait; g.Wait == nil { // a simulation has its own time
		g.Patience = patience
	}
	return g
}

// groupable reports whether an attempt can be paid together with others.
func (a *attempt) groupable(m Method) bool {
	return a.previous == 0 && a.payer != nil && m.Flow() == FlowBalance && m.source(a.payer).Owner() != 0 && a.def.grouped()
}

// together pays for an attempt from a balance, along with those that wait at the same time. An obstacle of theirs does
// not affect it.
func (e *Engine) together(ctx context.Context, a *attempt, method Method) (*PaidAction, error) {
	m := &member{attempt: a, err: errApart}
	if e.Settings.MaxGroup > 1 {
		if err := e.gathered[gatheringKey{kind: a.def.Spec().Kind, method: method}].Do(ctx, m); err != nil {
			return nil, err
		}
	}
	if errors.Is(m.err, errApart) {
		if err := e.apart(ctx, method, m); err != nil {
			m.err = err
		}
	}
	if errors.Is(m.err, errApart) {
		return e.begin(ctx, a, method, plan{})
	}
	return e.became(ctx, a, m.tx, m.result, m.err)
}

// apart pays for one that waits with no others. A group that failed leaves many of these at once, perhaps all of one
// payer.
func (e *Engine) apart(ctx context.Context, method Method, m *member) error {
	leave, err := e.place(ctx, m.attempt, method)
	if err != nil {
		return err
	}
	defer leave()
	return e.beginTogether(ctx, m.def, method, []*member{m})
}

// seeThrough runs a group, and notes in each member what became of it. If the whole group fails, each member is to be
// done by itself: that shows whose fault it was.
func (e *Engine) seeThrough(ctx context.Context, group []*member, do func(ctx context.Context, group []*member) error) {
	ctx, cancel := context.WithTimeout(ctx, callTimeout)
	defer cancel()
	err := do(ctx, group)
	for _, m := range group {
		switch {
		case err == nil:
		case len(group) == 1 || errors.Is(err, errUnknownCommit):
			m.err = err
		default:
			m.err = errApart
		}
	}
}

package paidaction

import "context"

// actionKey is where a context keeps the action that is worked on.
type actionKey struct{}

// About is ctx for work on one action. Whoever writes a log or a trace further down, at the node's edge say, can tell whose it is. The
// engine puts it into every context that it hands on.
func About(ctx context.Context, action int64) context.Context {
	return context.WithValue(ctx, actionKey{}, action)
}

// ActionOf is the action that is worked on; ok is false where it is none in particular.
func ActionOf(ctx context.Context) (action int64, ok bool) {
	action, ok = ctx.Value(actionKey{}).(int64)
	return action, ok
}

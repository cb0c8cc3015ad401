package paidaction

import "context"

// actionKey is the context key of the action that is being worked on.
type actionKey struct{}

// About returns ctx marked as work on one action, so that logs and traces written further down, for instance at the
// edge to the node, can name it. The engine marks every context that it hands on.
func About(ctx context.Context, action int64) context.Context {
	return context.WithValue(ctx, actionKey{}, action)
}

// ActionOf returns the action that is being worked on; ok is false where ctx belongs to no action.
func ActionOf(ctx context.Context) (action int64, ok bool) {
	action, ok = ctx.Value(actionKey{}).(int64)
	return action, ok
}

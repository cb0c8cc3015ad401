package graph

import (
	"context"
	"time"

	"github.com/99designs/gqlgen/graphql/handler/transport"

	"github.com/a-seed-a7aed72f/holdfast/graph/internal/schema"
	"github.com/a-seed-a7aed72f/holdfast/paidaction"
)

// PaidActionUpdated follows an action until it has ended.
func (s subscriptions) PaidActionUpdated(ctx context.Context, id int64, secret *string) (<-chan schema.PaidAction, error) {
	// Subscribe before reading, so that no change in between is missed.
	woken := s.Updates.Subscribe(ctx, id)
	pa, err := s.Engine.Get(ctx, caller(ctx, secret), id)
	if err != nil {
		return nil, err
	}
	// A slow reader holds up only this goroutine; changes meanwhile come as one.
	out := make(chan schema.PaidAction)
	go func() {
		defer close(out)
		// Nobody else recovers here, and a panic must not end the process.
		defer func() {
			if p := recover(); p != nil {
				s.endWith(ctx, s.recovered(ctx, p))
			}
		}()
		if err := s.follow(ctx, pa, caller(ctx, secret), woken, out); err != nil && ctx.Err() == nil {
			s.endWith(ctx, err)
		}
	}()
	return out, nil
}

// face is what a reader can see change.
type face struct {
	state   paidaction.State
	changed time.Time
	issued  bool
}

func faceOf(pa *paidaction.PaidAction) face {
	f := face{state: pa.State, changed: pa.ChangedAt}
	if pa.Invoice != nil {
		f.issued = pa.Invoice.Bolt11 != ""
	}
	return f
}

func (s subscriptions) follow(ctx context.Context, pa *paidaction.PaidAction, c paidaction.Caller, woken <-chan struct{}, out chan<- schema.PaidAction) error {
	var last face
	for {
		if now := faceOf(pa); now != last {
			node, err := s.show(pa, nil)
			if err != nil {
				return err
			}
			select {
			case out <- node:
				last = now
			case <-ctx.Done():
				return nil
			}
		}
		if pa.State.Terminal() && !s.Engine.WillRetry(pa) {
			return nil // otherwise the next attempt will soon be known
		}
		select {
		case _, open := <-woken:
			if !open {
				return nil
			}
		case <-ctx.Done():
			return nil
		}
		next, err := s.again(ctx, c, pa.ID)
		switch refusal, refused := paidaction.AsRefusal(err); {
		case refused && refusal.Code != paidaction.CodeTryAgain:
			return err
		case err != nil:
			// The database is unavailable for a moment; we are woken again, as everybody is every few seconds.
			s.Log.WarnContext(ctx, "a subscription could not look", "action", pa.ID, "error", err)
		default:
			pa = next
		}
	}
}

// again reads the action once more, if the key is still good.
func (s subscriptions) again(ctx context.Context, c paidaction.Caller, id int64) (*paidaction.PaidAction, error) {
	if err := s.recheck(ctx, sessionOf(ctx), s.RecheckKeys); err != nil {
		return nil, err
	}
	return s.Engine.Get(ctx, c, id)
}

// endWith tells why a subscription ends. Only websockets have a message for that. Server-sent events are cut off, and a
// client that asks again is told.
func (s subscriptions) endWith(ctx context.Context, err error) {
	switch asker := sessionOf(ctx); {
	case asker.slots != nil:
		transport.AddSubscriptionError(ctx, s.present(ctx, err))
	case asker.line.cut != nil:
		asker.line.cut()
	}
}

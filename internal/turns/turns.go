// Package turns puts the engine's requests in order, by one lock for each payer.
package turns

import (
	"context"
	"errors"
	"fmt"

	"github.com/a-seed-a7aed72f/holdfast/lock"
	"github.com/a-seed-a7aed72f/holdfast/paidaction"
)

// New makes turns from locks.
func New(locker *lock.Locker) paidaction.Turns { return turns{locker} }

type turns struct{ locker *lock.Locker }

// Key is the key of a payer's lock.
func Key(payer int64) string { return fmt.Sprintf("payer:%d", payer) }

// Queue implements [paidaction.Turns].
func (t turns) Queue(payer int64) paidaction.Turn {
	return &turn{place: t.locker.Queue(Key(payer))}
}

// turn is the turn of one request. It is for one goroutine.
type turn struct {
	place *lock.Place
	lease *lock.Lease // nil while it waits
}

// Wait implements [paidaction.Turn]. A lease that was lost counts as the turn, since acquiring it again would be out of
// order. A turn decides order and nothing else, so a crash of the database may forget whose it was.
func (t *turn) Wait(ctx context.Context, open bool) (err error) {
	if t.lease == nil {
		t.lease, err = t.place.Acquire(ctx, lock.Options{FailOpen: open, Fleeting: true})
	}
	return refusal(err)
}

// Leave implements [paidaction.Turn]. A caller that has its invoice does not wait until the next one may begin.
func (t *turn) Leave() {
	if t.lease == nil {
		t.place.Leave()
		return
	}
	t.lease.Drop()
	t.lease = nil
}

// refusal is what users are told of an error of the lock; operators find the error itself in the cause.
func refusal(err error) error {
	switch {
	case errors.Is(err, lock.ErrQueueFull), errors.Is(err, lock.ErrTooManyKeys):
		return paidaction.Errorf(paidaction.CodeTryAgain, "Too many requests are waiting. Let some of them finish, then try again.").Because(err)
	case errors.Is(err, lock.ErrTimeout):
		return paidaction.Errorf(paidaction.CodeTryAgain, "Your earlier requests are still running. Try again when they are done.").Because(err)
	case errors.Is(err, lock.ErrUnavailable), errors.Is(err, lock.ErrClosed):
		return paidaction.Errorf(paidaction.CodeTryAgain, "A part of this service is busy or restarting. Try again in a moment.").Because(err)
	}
	return err
}

package lock

import (
	"errors"
	"fmt"
)

// What can go wrong. Tell the errors apart with errors.Is; their text may change.
var (
	// ErrTimeout: the lock was not acquired within the longest wait, or before the deadline of the caller's context. That
	// one's cause is wrapped.
	ErrTimeout = errors.New("the lock was not free in time")
	// ErrBusy: TryAcquire found the lock held.
	ErrBusy = errors.New("the lock is held")
	// ErrQueueFull: as many wait for the key as are allowed.
	ErrQueueFull = errors.New("too many wait for the lock")
	// ErrTooManyKeys: the store in memory is full. It never drops a key that is held or waited for.
	ErrTooManyKeys = errors.New("too many keys are locked")
	// ErrUnavailable: the database or Redis did not answer, so nobody knows who holds the lock. The cause is wrapped.
	ErrUnavailable = errors.New("the lock's store is not available")
	// ErrLost: the lease ended without being released. [LostError] has the cause.
	ErrLost = errors.New("the lease is lost")
	// ErrNotOwner: the lease was released before, or belongs to somebody else.
	ErrNotOwner = errors.New("the lease is not the caller's")
	// ErrBadKey: the key is empty, too long, or not text.
	ErrBadKey = errors.New("not a key of a lock")
	// ErrBadOptions: a duration or a length makes no sense.
	ErrBadOptions = errors.New("options of a lock that cannot be met")
	// ErrClosed: the Locker was closed.
	ErrClosed = errors.New("the lock is closed")

	// ErrMaxHold, ErrExpired and ErrTaken are causes of a loss: the longest hold was reached; no touch arrived in time;
	// the store says that the lease belongs to another, or has forgotten it.
	ErrMaxHold = errors.New("held for longer than allowed")
	ErrExpired = errors.New("not touched in time")
	ErrTaken   = errors.New("no longer the holder in the store")

	// ErrReleased is the cause with which the context of a released lease ends. It is not a loss.
	ErrReleased = errors.New("the lease was released")
)

// LostError is the loss of a lease. errors.Is finds both ErrLost and its cause.
type LostError struct {
	Key   string
	Fence int64
	Cause error
}

func (e *LostError) Error() string {
	return fmt.Sprintf("the lease %d of %s is lost: %v", e.Fence, e.Key, e.Cause)
}

// Unwrap makes errors.Is find ErrLost and the cause.
func (e *LostError) Unwrap() []error { return []error{ErrLost, e.Cause} }

package lock

import (
	"context"
	"time"
)

// Store is where queues and leases are kept: the one thing in which the strategies differ. Each method is atomic, safe for
// concurrent use and may be repeated after an error. An error means that the outcome is not known; what a method finds is told
// in its result.
//
// The store gives a lease either when it is asked to enter, or when the lease before it ends: then it hands over to the first
// in the queue that is alive. It tells the caller to whom ([Handoff]), and, if that is another process, that one as well.
type Store interface {
	// Enter takes the lock if it is free and nobody waits for it, else a place at the end of the queue.
	Enter(ctx context.Context, e Entry) (Entered, error)
	// Beat says that the process lives for another while. A ticket of a process that does not is skipped.
	Beat(ctx context.Context, p Process, live time.Duration) error
	// Look tells how tickets stand, in any order.
	Look(ctx context.Context, tickets []Ticket) ([]Standing, error)
	// Advance hands the key over if its lease has run out. process is the caller's id.
	Advance(ctx context.Context, key, process string) (Handoff, error)
	// Touch makes leases last for a while from now, but not beyond their longest hold. Those it does not answer for are lost.
	Touch(ctx context.Context, touches []Touch) (map[string]time.Duration, error)
	// Release ends the lease of its owner and hands over. Of a ticket that is not the owner it
	// ends nothing; a lease that ran out may be handed over by it.
	Release(ctx context.Context, t Ticket) (Released, error)
	// Leave gives the ticket up, whether it waits, holds or is unknown.
	Leave(ctx context.Context, t Ticket) (Handoff, error)
	// Listen hears until ctx ends when another process hands over to a ticket of this one. It calls up whenever it begins or
	// ceases to be sure that it hears, and woken with the id and the fence of the ticket that has got the lock. Neither
	// blocks. It is a help, no more: what it should have heard may get lost.
	Listen(ctx context.Context, p Process, up func(bool), woken func(id string, fence int64)) error
	// Sweep removes what says nothing any more.
	Sweep(ctx context.Context) error
	// Close gives up connections. The Locker calls it last.
	Close() error
	// Name is that of the strategy.
	Name() string
}

// Process is one Locker, for others.
type Process struct {
	ID   string
	Name string // for people
}

// Ticket is one acquisition: its place in the queue, then its lease. The id is known to its owner alone, and proves
// it; Process is the id of the owner's process.
type Ticket struct{ Key, ID, Process string }

// Entry is a wish to have the lock.
type Entry struct {
	Ticket
	Name     string        // of the process, for people
	Live     time.Duration // how long the process counts as alive
	TTL      time.Duration
	MaxHold  time.Duration
	MaxQueue int
	Wait     bool // false: the lock now, or nothing
	Fleeting bool // a crash of the store may forget the lease
}

// Grant is a lease. Valid counts from the moment at which the store was asked, so that whoever counts from before the question
// never counts too long.
type Grant struct {
	Fence int64
	Valid time.Duration
}

// State is how a ticket stands.
type State string

// States.
const (
	Held    State = "held"
	Queued  State = "queued"
	Stale   State = "stale" // the key's lease has run out, and nobody has handed over
	Gone    State = "gone"  // neither waiting nor holding
	Busy    State = "busy"  // held, and no wait was wanted
	Full    State = "full"  // no place in the queue
	TooMany State = "keys"  // no place for another key
)

// Entered is the answer to an entry. A lease that had run out may have been handed over on the way.
type Entered struct {
	State State // Held, Queued, Busy, Full or TooMany
	Grant
	Next Handoff
}

// Standing is the answer to a look: Held, Queued, Stale or Gone.
type Standing struct {
	Ticket
	State State
	Grant
}

// Touch is a wish to keep a lease.
type Touch struct {
	Ticket
	TTL time.Duration
}

// Released is the answer to a release. Owner is false for a ticket that is not the owner, Late is true for one whose lease had
// run out before.
type Released struct {
	Owner, Late bool
	Next        Handoff
}

// Handoff is the lease that followed another. With an empty ticket there is none.
type Handoff struct {
	Ticket
	Grant
	Dead int // tickets of dead processes that were removed
}

package lock

import (
	"context"
	"time"
)

// Store is where queues and leases are kept: the only thing in which the strategies differ. Each method is atomic, safe
// for concurrent use and may be repeated after an error. An error means that the outcome is unknown; a method's
// findings are in its result.
//
// The store grants a lease either on entry, or when the previous lease ends: then it hands over to the first live
// ticket in the queue. It tells the caller about this ([Handoff]) and, if the ticket is another process's, that process
// too.
type Store interface {
	// Enter takes the lock if it is free and nobody waits for it, otherwise a place at the end of the queue.
	Enter(ctx context.Context, e Entry) (Entered, error)
	// Beat reports that the process is alive for another while. Tickets of processes without a recent beat are skipped.
	Beat(ctx context.Context, p Process, live time.Duration) error
	// Look tells how tickets stand, in any order.
	Look(ctx context.Context, tickets []Ticket) ([]Standing, error)
	// Advance hands the key over if its lease has expired. process is the caller's id.
	Advance(ctx context.Context, key, process string) (Handoff, error)
	// Touch extends leases, but not beyond their longest hold. Leases missing in the answer are lost.
	Touch(ctx context.Context, touches []Touch) (map[string]time.Duration, error)
	// Release ends the lease if the ticket owns it, and hands over. For any other ticket it ends nothing, but may hand
	// over a lease that has expired.
	Release(ctx context.Context, t Ticket) (Released, error)
	// Leave gives the ticket up, whether it waits, holds or is unknown.
	Leave(ctx context.Context, t Ticket) (Handoff, error)
	// Listen reports, until ctx ends, when another process hands over to a ticket of this one. It calls up when it
	// begins or ceases to be sure that it hears, and woken with the id and the fence of the ticket that got the lock.
	// Neither blocks. It is only a help: messages may get lost.
	Listen(ctx context.Context, p Process, up func(bool), woken func(id string, fence int64)) error
	// Sweep removes what is of no use any more.
	Sweep(ctx context.Context) error
	// Close gives up connections. The Locker calls it last.
	Close() error
	// Name is the name of the strategy.
	Name() string
}

// Process is one Locker, as others see it.
type Process struct {
	ID   string
	Name string // for people
}

// Ticket is one acquisition: its place in the queue, then its lease. Only its owner knows the id, which proves
// ownership; Process is the id of the owner's process.
type Ticket struct{ Key, ID, Process string }

// Entry is a request for the lock.
type Entry struct {
	Ticket
	Name     string        // the process's, for people
	Live     time.Duration // how long the process counts as alive
	TTL      time.Duration
	MaxHold  time.Duration
	MaxQueue int
	Wait     bool // false: get the lock now, or nothing
	Fleeting bool // a crash of the store may forget the lease
}

// Grant is a lease. Valid counts from when the store handled the call, so a caller who counts from before the call
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
	Stale   State = "stale" // the key's lease has expired, and nobody has handed over
	Gone    State = "gone"  // neither waiting nor holding
	Busy    State = "busy"  // held, and no wait was wanted
	Full    State = "full"  // no place in the queue
	TooMany State = "keys"  // no place for another key
)

// Entered is the answer to an entry. If a lease had expired, it may have been handed over on the way (Next).
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

// Touch is a request to extend a lease.
type Touch struct {
	Ticket
	TTL time.Duration
}

// Released is the answer to a release. Owner says whether the ticket owned the lease; Late is true if that had expired
// before.
type Released struct {
	Owner, Late bool
	Next        Handoff
}

// Handoff is the lease that followed another. An empty ticket means none.
type Handoff struct {
	Ticket
	Grant
	Dead int // tickets of dead processes that were removed
}

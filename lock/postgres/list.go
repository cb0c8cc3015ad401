package postgres

import (
	"context"
	"time"

	"github.com/a-seed-a7aed72f/holdfast/lock/internal/lockdb"
)

// Held is a key that is held, with those who wait for it in their order.
type Held struct {
	Key     string
	Fence   int64
	Process string // host and process number of the holder
	For     time.Duration
	Left    time.Duration // until the lease runs out without a touch; negative: it has
	Waiting int64         // of all, also of those not listed
	Waiters []Waiter
}

// Waiter is one who waits.
type Waiter struct {
	Process string
	For     time.Duration
	Alive   bool // false: its process sends no heartbeats, so it will be skipped
}

// List reads at most keys held keys, those held for the longest first, and at most waiters of those who wait for them. A
// key whose lease has run out is held no more, and is listed only if somebody waits for it.
func List(ctx context.Context, db lockdb.DBTX, keys, waiters int32) ([]Held, error) {
	q := lockdb.New(db)
	holders, err := q.Holders(ctx, keys)
	if err != nil {
		return nil, err
	}
	all := make([]Held, len(holders))
	at, names := map[string]int{}, make([]string, len(holders))
	for i, h := range holders {
		all[i] = Held{
			Key: h.Key, Fence: h.Fence, Process: h.Name, Waiting: h.Waiting, Waiters: []Waiter{},
			For: time.Duration(h.HeldMs) * time.Millisecond, Left: time.Duration(h.LeftMs) * time.Millisecond,
		}
		at[h.Key], names[i] = i, h.Key
	}
	rows, err := q.Waiters(ctx, lockdb.WaitersParams{Keys: names, Page: waiters})
	if err != nil {
		return nil, err
	}
	for _, w := range rows {
		held := &all[at[w.Key]]
		held.Waiters = append(held.Waiters, Waiter{Process: w.Process, For: time.Duration(w.WaitedMs) * time.Millisecond, Alive: w.Alive})
	}
	return all, nil
}

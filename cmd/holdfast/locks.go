package main

import (
	"context"
	"time"

	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/a-seed-a7aed72f/holdfast/internal/db"
	"github.com/a-seed-a7aed72f/holdfast/lock/postgres"
)

type locksCommand struct {
	Limit   int32 `help:"How many keys at most." default:"50"`
	Waiters int32 `help:"How many waiters at most, of all keys together." default:"500"`
}

// heldLock is a row of the list.
type heldLock struct {
	Key         string       `json:"key"`
	Fence       int64        `json:"fence"`
	Holder      string       `json:"holder"`
	HeldSeconds float64      `json:"held_seconds"`
	LeftSeconds float64      `json:"left_seconds"` // negative: the lease ran out, and nobody has asked for the key since
	Waiting     int64        `json:"waiting"`
	Waiters     []lockWaiter `json:"waiters"`
}

type lockWaiter struct {
	Process       string  `json:"process"`
	WaitedSeconds float64 `json:"waited_seconds"`
	Alive         bool    `json:"alive"`
}

func (c locksCommand) Run(ctx context.Context, e *environment) error {
	return withDatabase(ctx, e, func(pool *pgxpool.Pool, _ *db.Queries) error {
		held, err := postgres.List(ctx, pool, c.Limit, c.Waiters)
		if err != nil {
			return err
		}
		list := make([]heldLock, len(held))
		for i, h := range held {
			list[i] = heldLock{
				Key: h.Key, Fence: h.Fence, Holder: h.Process, HeldSeconds: h.For.Seconds(), LeftSeconds: h.Left.Seconds(),
				Waiting: h.Waiting, Waiters: make([]lockWaiter, len(h.Waiters)),
			}
			for j, w := range h.Waiters {
				list[i].Waiters[j] = lockWaiter{Process: w.Process, WaitedSeconds: w.For.Seconds(), Alive: w.Alive}
			}
		}
		return e.print(list, func(t *table) {
			t.row("KEY", "WHO", "FOR", "STATE")
			for _, h := range held {
				t.row(h.Key, h.Process, h.For.Round(time.Millisecond), leaseState(h))
				for _, w := range h.Waiters {
					state := "waits"
					if !w.Alive {
						state = "waits, dead: will be skipped"
					}
					t.row("", w.Process, w.For.Round(time.Millisecond), state)
				}
			}
		})
	})
}

func leaseState(h postgres.Held) string {
	if h.Left <= 0 {
		return "ran out: the next to ask gets it"
	}
	return "holds, " + h.Left.Round(time.Millisecond).String() + " left without a touch"
}

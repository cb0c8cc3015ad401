package main

import (
	"context"
	"fmt"
	"time"

	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/a-seed-a7aed72f/holdfast/internal/db"
	"github.com/a-seed-a7aed72f/holdfast/lock/postgres"
)

type locksCommand struct {
	Limit   int32 `help:"How many keys to list at most." default:"50"`
	Waiters int32 `help:"How many waiters to list at most, over all keys." default:"500"`
}

// heldLock is a row of the list.
type heldLock struct {
	Key         string       `json:"key"`
	Fence       int64        `json:"fence"`
	Holder      string       `json:"holder"`
	HeldSeconds float64      `json:"held_seconds"`
	LeftSeconds float64      `json:"left_seconds"` // negative: the lease has run out, and those who wait have not noticed yet
	Waiting     int64        `json:"waiting"`
	Waiters     []lockWaiter `json:"waiters"`
}

type lockWaiter struct {
	Process       string  `json:"process"`
	WaitedSeconds float64 `json:"waited_seconds"`
	Alive         bool    `json:"alive"`
}

func (c locksCommand) Run(ctx context.Context, e *environment) error {
	if err := atLeastOne(c.Limit); err != nil {
		return err
	}
	if c.Waiters < 0 {
		return fmt.Errorf("%w: --waiters must not be below 0", errArguments)
	}
	if kept := e.config.Lock.Strategy; kept != "postgres" {
		// An empty list would claim that nobody waits for anybody.
		return fmt.Errorf("%w: the locks are not in the database but in %s (HOLDFAST_LOCK_STRATEGY); each process's /metrics says how many are held and waited for, as holdfast_lock_…", errArguments, kept)
	}
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
		return printLocks(e, list)
	})
}

func printLocks(e *environment, list []heldLock) error {
	return e.print(list, func(t *table) {
		t.row("KEY", "WHO", "FOR", "STATE")
		for _, h := range list {
			t.row(h.Key, h.Holder, seconds(h.HeldSeconds), leaseState(h))
			for _, w := range h.Waiters {
				state := "waits"
				if !w.Alive {
					state = "waits, dead: will be skipped"
				}
				t.row("", w.Process, seconds(w.WaitedSeconds), state)
			}
		}
	})
}

func leaseState(h heldLock) string {
	if h.LeftSeconds <= 0 {
		return "ran out: the next to ask gets it"
	}
	return "holds, " + seconds(h.LeftSeconds).String() + " left without a touch"
}

func seconds(s float64) time.Duration {
	return time.Duration(s * float64(time.Second)).Round(time.Millisecond)
}

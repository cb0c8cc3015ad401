package paidaction_test

import (
	"context"
	"errors"
	"runtime"
	"sync"
	"testing"
	"time"

	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/a-seed-a7aed72f/holdfast/community"
	"github.com/a-seed-a7aed72f/holdfast/internal/enginetest"
	"github.com/a-seed-a7aed72f/holdfast/paidaction"
)

// The job that stands by for several: whoever of them still owes a call gets a job that makes it, and none of the others does.
func TestOneJobStandsByForSeveral(t *testing.T) {
	t.Parallel()
	w := enginetest.New(t, paidaction.Settings{})
	item := w.Post(w.User("somebody", 1000*sat, 0), "popular")
	_, actions := paidZaps(w, item, paidaction.Pessimistic, 10*sat, 10*sat, 10*sat)
	_, _, wrapped, _ := heldZaps(w, 1, 0)
	open := w.Pay(w.User("late", 0, 0), community.KindZap, community.ZapArgs{Item: item, Sats: 10}, paidaction.Pessimistic)
	for _, id := range actions[:2] {
		w.Advance(id) // and then whoever did so died
		w.WantState(id, paidaction.Held)
	}
	if _, err := w.Engine.Drive(w.Ctx, actions[2]); err != nil {
		t.Fatal(err)
	}
	w.WantState(actions[2], paidaction.Paid)
	w.Advance(wrapped[0])
	w.WantState(wrapped[0], paidaction.Forwarding)

	all := append(actions, wrapped[0], open.ID)
	standBy := func(ids []int64, missing bool, want ...int64) {
		t.Helper()
		if _, err := w.Pool.Exec(w.Ctx, `DELETE FROM test_job`); err != nil {
			t.Fatal(err)
		}
		if err := w.Engine.StandBy(w.Ctx, ids...); errors.Is(err, paidaction.ErrNoAction) != missing || (err != nil) != missing {
			t.Errorf("%v", err)
		}
		if n := w.Count(`SELECT count(*) FROM test_job WHERE kind = 'advance' AND at <= $1 AND action = ANY($2)`, w.Clock.Now(), want); n != int64(len(want)) {
			t.Errorf("%d of %d get a job at once", n, want)
		}
		if n := w.Count(`SELECT count(*) FROM test_job`); n != int64(len(want)) {
			t.Errorf("%d jobs, want them for %d alone", n, want)
		}
	}
	standBy(all, false, actions[0], actions[1])
	standBy(append(all, 999), true, actions[0], actions[1])
	w.Drain()
	w.WantState(actions[0], paidaction.Paid)
	w.WantState(actions[1], paidaction.Paid)
	standBy(all, false)
	w.Clock.Advance(15 * time.Minute) // the relay had its time
	standBy(all, false, wrapped[0])
	w.WantConserved()
}

// Actions that are looked at at the same time are read by one statement; each gets its own, and a missing one takes no other with it.
func TestActionsAreReadTogether(t *testing.T) {
	t.Parallel()
	w := enginetest.New(t, paidaction.Settings{})
	item := w.Post(w.User("author", 1000*sat, 0), "popular")
	_, actions := paidZaps(w, item, paidaction.Optimistic, 10*sat, 10*sat, 10*sat, 10*sat, 10*sat)
	pa := w.Look(actions[0])
	if _, err := w.Engine.Drive(w.Ctx, actions[0]); err != nil {
		t.Fatal(err)
	}
	config := w.Engine.Config
	config.Hooks.Wait = func(context.Context, func() bool) {} // patience never ends
	settings := w.Pool.Config()
	settings.MaxConns = 1
	var err error
	if config.Pool, err = pgxpool.NewWithConfig(w.Ctx, settings); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(config.Pool.Close)
	engine, err := paidaction.New(config)
	if err != nil {
		t.Fatal(err)
	}
	held, err := config.Pool.Acquire(w.Ctx) // nobody is answered before all have asked
	if err != nil {
		t.Fatal(err)
	}
	ids := append(actions, 999, actions[1])
	progress, errs := make([]paidaction.Progress, len(ids)), make([]error, len(ids))
	var all sync.WaitGroup
	for i, id := range ids {
		all.Go(func() { progress[i], errs[i] = engine.Advance(w.Ctx, id) })
		if i == 0 {
			for config.Pool.Stat().EmptyAcquireCount() == 0 {
				runtime.Gosched()
			}
		}
	}
	for engine.Reading() < len(ids)-1 {
		runtime.Gosched()
	}
	held.Release()
	all.Wait()
	for i, id := range ids {
		switch {
		case id == 999:
			if !errors.Is(errs[i], paidaction.ErrNoAction) {
				t.Errorf("a missing one: %v", errs[i])
			}
		case errs[i] != nil:
			t.Errorf("%d: %v", id, errs[i])
		case id == actions[0] && progress[i] != paidaction.Done:
			t.Errorf("what was paid before is %v", progress[i])
		}
	}
	for _, id := range actions {
		w.WantState(id, paidaction.Paid)
	}
	if again := w.Look(actions[0]); again.Invoice.Hash != pa.Invoice.Hash || again.Cost != pa.Cost {
		t.Errorf("read as %+v", again)
	}
	w.WantConserved()
}

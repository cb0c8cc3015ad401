package main

import (
	"encoding/json"
	"strings"
	"testing"

	"github.com/a-seed-a7aed72f/holdfast/internal/pgtest"
	"github.com/a-seed-a7aed72f/holdfast/lock"
	"github.com/a-seed-a7aed72f/holdfast/lock/postgres"
)

func TestLocks(t *testing.T) {
	t.Parallel()
	pool := pgtest.New(t)
	env := settings(pool)
	if code, out, _ := command(t, env, "locks"); code != exitOK || out != "[]\n" {
		t.Errorf("nothing is held: exit code %d, %s", code, out)
	}
	store, err := postgres.Open(t.Context(), postgres.Options{DSN: pool.Config().ConnString()})
	if err != nil {
		t.Fatal(err)
	}
	locker, err := lock.New(store, lock.Settings{Name: "here:1"})
	if err != nil {
		t.Fatal(err)
	}
	defer locker.Close()
	lease, err := locker.Acquire(t.Context(), "payer:1", lock.Options{})
	if err != nil {
		t.Fatal(err)
	}
	code, out, said := command(t, env, "locks")
	var held []heldLock
	if err := json.Unmarshal([]byte(out), &held); err != nil || code != exitOK || len(held) != 1 || held[0].Key != "payer:1" ||
		held[0].Holder != "here:1" || held[0].Fence != lease.Fence() || held[0].LeftSeconds <= 0 || held[0].Waiters == nil {
		t.Errorf("exit code %d, %v\n%s%s", code, err, out, said)
	}

	// The holder has died: nobody holds the key, and it is told only of those who should have got it.
	for _, died := range []struct{ waiting, listed int }{{0, 0}, {1, 1}} {
		if _, err := pool.Exec(t.Context(), `UPDATE lock_key SET expires_at = now() - interval '1 minute', hold_until = now() - interval '1 minute', waiting = $1`, died.waiting); err != nil {
			t.Fatal(err)
		}
		code, out, said = command(t, env, "locks")
		if err := json.Unmarshal([]byte(out), &held); err != nil || code != exitOK || len(held) != died.listed {
			t.Errorf("%d wait: exit code %d, %v\n%s%s", died.waiting, code, err, out, said)
		}
	}

	var table strings.Builder
	e := environment{out: &table}
	if err := printLocks(&e, []heldLock{
		{Key: "payer:1", Holder: "here:1", HeldSeconds: 1.5, LeftSeconds: 8, Waiters: []lockWaiter{{Process: "there:2", WaitedSeconds: 1, Alive: false}}},
		{Key: "payer:2", Holder: "here:1", LeftSeconds: -1},
	}); err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{"payer:1  here:1   1.5s  holds, 8s left", "there:2  1s    waits, dead", "ran out"} {
		if !strings.Contains(table.String(), want) {
			t.Errorf("%q is missing in\n%s", want, table.String())
		}
	}
}

// If the locks are kept elsewhere, no empty list of those in the database is shown.
func TestLocksThatAreNotInTheDatabase(t *testing.T) {
	t.Parallel()
	for strategy, env := range map[string][]string{
		"redis":  {"HOLDFAST_LOCK_STRATEGY=redis", "HOLDFAST_LOCK_REDIS_URL=redis://localhost"},
		"memory": {"HOLDFAST_LOCK_STRATEGY=memory"},
	} {
		if code, out, said := command(t, env, "locks"); code != exitUsage || out != "" || !strings.Contains(said, "in "+strategy) {
			t.Errorf("%s: exit code %d, %s%s", strategy, code, out, said)
		}
	}
}

package webhook_test

import (
	"sync"
	"testing"
	"time"
)

// The last place is given once, however many ask for it at the same moment.
func TestTheLastPlaceIsGivenOnce(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	alice, s := w.User("alice", 1_000_000, 0), newServer(t)
	for range 9 {
		w.Tell(&alice, s.URL)
	}
	tx, err := w.Pool.Begin(w.Ctx)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := tx.Exec(w.Ctx, `SELECT FROM usr ORDER BY id FOR UPDATE`); err != nil {
		t.Fatal(err)
	}
	refusals := make(chan error, 2)
	for range 2 {
		go func() {
			_, _, err := w.Create(w.Ctx, &alice, s.URL, nil, nil)
			refusals <- err
		}()
	}
	w.AwaitBlocked(2)
	if err := tx.Commit(w.Ctx); err != nil {
		t.Fatal(err)
	}
	if first, second := <-refusals, <-refusals; (first == nil) == (second == nil) || w.Count(`SELECT count(*) FROM webhook`) != 10 {
		t.Errorf("%v, %v", first, second)
	}
}

// A message does not wait for a place for ever: after as long as messages are kept, its webhook is disabled, and its
// owner is told. Else one with slow servers would keep ever more messages, and every later action from being archived.
func TestAWebhookThatTakesLessThanThereIsToTell(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	alice := w.User("alice", 0, 0)
	s, called, letGo := hanging(t)
	slow, _ := w.Tell(&alice, s.URL)
	var underWay sync.WaitGroup
	defer underWay.Wait()
	defer letGo()
	for range 16 {
		message := w.test(&alice, slow)
		underWay.Go(func() { _, _ = w.Webhooks.Deliver(w.Ctx, message) })
		awaitCall(t, called, "a delivery below the share")
	}
	waits := w.test(&alice, slow)
	deliver := func() (again time.Duration) {
		t.Helper()
		again, err := w.Webhooks.Deliver(w.Ctx, waits)
		if err != nil {
			t.Fatal(err)
		}
		return again
	}
	told := func() int64 {
		return w.Count(`SELECT count(*) FROM notification WHERE user_id = $1 AND kind = 'WEBHOOK_DISABLED'`, alice)
	}
	w.Clock.Advance(31 * 24 * time.Hour) // what waits while no process runs is not late by its owner's doing
	if _, err := w.Queue(w.Ctx); err != nil {
		t.Fatal(err)
	}
	for range 2 {
		if again := deliver(); again < time.Second || w.log(slow)[0].EndedAt != nil || told() != 0 {
			t.Fatalf("it is tried again after %s: %+v", again, w.log(slow)[0])
		}
		w.Clock.Advance(15*24*time.Hour - time.Second)
	}
	w.byAClock(2*time.Second, func() {
		if again := deliver(); again < time.Second || told() != 0 {
			t.Fatal("by a clock that is ahead it has waited for too long")
		}
	})
	w.Clock.Advance(2 * time.Second)
	for range 2 {
		if again := deliver(); again != 0 || told() != 1 {
			t.Fatalf("it is tried again after %s, its owner was told %d times", again, told())
		}
		if m := w.log(slow)[0]; m.ID != waits || m.EndedAt == nil || m.Delivered || len(m.Attempts) != 0 {
			t.Errorf("what is told of it: %+v", m)
		}
	}
	if list, err := w.List(w.Ctx, &alice); err != nil || list[0].DisabledAt == nil {
		t.Errorf("%+v, %v", list, err)
	}
}

// What an owner has delivered again and again has ever more attempts. Of each message the newest are shown: a page of
// messages with all of them could be more than a process can hold.
func TestTheNewestAttemptsAreShown(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	alice, s := w.User("alice", 0, 0), newServer(t)
	id, _ := w.Tell(&alice, s.URL)
	many, one := w.test(&alice, id), w.test(&alice, id)
	_, err := w.Pool.Exec(w.Ctx, `INSERT INTO webhook_attempt (message_id, at, ms, code)
		SELECT $1::bigint, now(), n, 'TIMEOUT' FROM generate_series(1, 200) AS n UNION ALL SELECT $2, now(), 7, 'TIMEOUT'`, many, one)
	if err != nil {
		t.Fatal(err)
	}
	list := w.log(id)
	if a := list[1].Attempts; list[1].ID != many || len(a) != 50 || a[0].MS != 151 || a[49].MS != 200 {
		t.Errorf("of 200 attempts %d are shown", len(a))
	}
	if a := list[0].Attempts; len(a) != 1 || a[0].MS != 7 {
		t.Errorf("of a single attempt: %+v", a)
	}
}

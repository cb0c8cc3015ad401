package webhook_test

import (
	"context"
	"errors"
	"fmt"
	"testing"

	"github.com/a-seed-a7aed72f/holdfast/community"
	"github.com/a-seed-a7aed72f/holdfast/internal/db"
	"github.com/a-seed-a7aed72f/holdfast/lightning/simnode"
	"github.com/a-seed-a7aed72f/holdfast/paidaction"
)

// While the messages of a webhook are being deleted, nothing is written for it any more: no payer waits for the end of
// it.
func TestWhoPaysDoesNotWaitForARemoval(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	alice := w.User("alice", 1_000_000, 1_000_000)
	id, _ := w.Tell(nil, newServer(t).URL)
	w.Post(alice, "a post")
	other, err := w.Pool.Begin(w.Ctx)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = other.Rollback(context.WithoutCancel(w.Ctx)) }()
	if _, err := other.Exec(w.Ctx, `SELECT FROM webhook_message LIMIT 1 FOR NO KEY UPDATE`); err != nil {
		t.Fatal(err)
	}
	removed := make(chan error, 1)
	go func() { removed <- w.Remove(w.Ctx, nil, id, nil) }()
	w.AwaitBlocked(1)
	if n := w.Count(`SELECT count(*) FROM webhook WHERE disabled_at IS NULL`); n != 0 {
		t.Fatal("who pays would write to it, and wait")
	}
	w.Post(alice, "another post")
	if err := other.Commit(w.Ctx); err != nil {
		t.Fatal(err)
	}
	if err := <-removed; err != nil || w.Count(`SELECT count(*) FROM webhook`)+w.Count(`SELECT count(*) FROM webhook_message`) != 0 {
		t.Errorf("something is left, %v", err)
	}
}

// A step sees the webhooks that there were when it began. One that is removed before the step writes to it is told
// nothing; the foreign key would have the action refused, and what was held for it go back.
func TestARemovalRefusesNoPayment(t *testing.T) {
	t.Parallel()
	for name, before := range map[string]func(w *world, alice int64) (step func() (action int64)){
		"from a balance": func(w *world, alice int64) func() int64 {
			return func() int64 {
				return w.Pay(alice, community.KindDonate, community.DonateArgs{Sats: 5}, paidaction.RewardSats).ID
			}
		},
		"that is held": func(w *world, alice int64) func() int64 {
			pa := w.Pay(alice, community.KindDonate, community.DonateArgs{Sats: 5}, paidaction.Pessimistic)
			if err := w.Node.PayBolt11(pa.Invoice.Bolt11, simnode.Payment{}); err != nil {
				w.Fatal(err)
			}
			return func() int64 {
				w.Advance(pa.ID)
				w.Drain()
				return pa.ID
			}
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := newWorld(t)
			alice := w.User("alice", 1_000_000, 1_000_000)
			step := before(w, alice)
			id, _ := w.Tell(nil, newServer(t).URL)
			const gate = 4711
			if _, err := w.Pool.Exec(w.Ctx, fmt.Sprintf(`CREATE FUNCTION wait() RETURNS trigger LANGUAGE plpgsql AS $$
				BEGIN PERFORM pg_advisory_xact_lock_shared(%d); RETURN NEW; END$$;
				CREATE TRIGGER wait BEFORE INSERT ON action_history FOR EACH ROW EXECUTE FUNCTION wait()`, gate)); err != nil {
				t.Fatal(err)
			}
			shut, err := w.Pool.Begin(w.Ctx)
			if err != nil {
				t.Fatal(err)
			}
			defer func() { _ = shut.Rollback(context.WithoutCancel(w.Ctx)) }()
			if _, err := shut.Exec(w.Ctx, `SELECT pg_advisory_xact_lock($1)`, gate); err != nil {
				t.Fatal(err)
			}
			done := make(chan int64)
			go func() { defer close(done); done <- step() }()
			w.AwaitBlocked(1)
			if err := w.Remove(w.Ctx, nil, id, nil); err != nil {
				t.Error(err)
			}
			if err := shut.Commit(w.Ctx); err != nil {
				t.Fatal(err)
			}
			w.WantState(<-done, paidaction.Paid)
		})
	}
}

func TestARemovedWebhookIsNotTested(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	id, _ := w.Tell(nil, newServer(t).URL)
	tx, err := w.Pool.Begin(w.Ctx)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = tx.Rollback(context.WithoutCancel(w.Ctx)) }()
	if err := db.New(tx).DeleteWebhook(w.Ctx, db.DeleteWebhookParams{ID: id}); err != nil {
		t.Fatal(err)
	}
	tested := make(chan error)
	go func() {
		_, err := w.Test(w.Ctx, nil, id)
		tested <- err
	}()
	w.AwaitBlocked(1)
	if err := tx.Commit(w.Ctx); err != nil {
		t.Fatal(err)
	}
	if err := <-tested; !errors.Is(err, paidaction.Refused(paidaction.CodeNotFound)) {
		t.Errorf("%v", err)
	}
}

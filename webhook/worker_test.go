package webhook_test

import (
	"context"
	"log/slog"
	"net/http"
	"testing"
	"time"

	"github.com/a-seed-a7aed72f/holdfast/webhook"
	"github.com/a-seed-a7aed72f/holdfast/worker"
)

// Nothing about a committed step is lost: not if no worker runs then, not if the worker dies in the middle of a
// delivery, and not if the server fails. With River, in real time.
func TestNoMessageOfACommittedStepIsLost(t *testing.T) {
	t.Parallel()
	log := slog.New(slog.DiscardHandler)
	queue, err := worker.NewQueue(log)
	if err != nil {
		t.Fatal(err)
	}
	w := newWorld(t, func(c *webhook.Config) { c.Jobs = queue })
	w.Clock.Live()
	alice, s := w.User("alice", 1_000_000, 0), newServer(t)
	id, secret := w.Tell(&alice, s.URL)
	called := make(chan struct{}, 10)
	answers := func(answer http.HandlerFunc) {
		s.Answers(func(rw http.ResponseWriter, r *http.Request) { called <- struct{}{}; answer(rw, r) })
	}
	await := func() {
		t.Helper()
		limit := time.NewTimer(40 * time.Second)
		defer limit.Stop()
		select {
		case <-called:
		case <-limit.C:
			t.Fatal("nobody is told")
		}
	}
	run := func() (stop func()) {
		one, err := worker.New(worker.Config{Pool: w.Pool, Engine: w.Engine, Jobs: queue, Log: log, Deliver: w.Webhooks.Deliver,
			Chores: []worker.Chore{{Name: "webhooks", Every: 20 * time.Millisecond, Do: func(ctx context.Context) error { _, err := w.Queue(ctx); return err }}}})
		if err != nil {
			t.Fatal(err)
		}
		ctx, cancel := context.WithCancel(w.Ctx)
		ended := make(chan error, 1)
		go func() { ended <- one.Run(ctx) }()
		return func() {
			t.Helper()
			cancel()
			if err := <-ended; err != nil {
				t.Error(err)
			}
		}
	}

	w.Post(alice, "a post") // committed, while no worker runs
	answers(func(_ http.ResponseWriter, r *http.Request) { <-r.Context().Done() })
	stop := run()
	await()
	stop() // in the middle of the call
	if m := w.log(id)[0]; m.EndedAt != nil || len(m.Attempts) != 0 {
		t.Errorf("it counts against the server that we have stopped: %+v", m)
	}
	answers(func(rw http.ResponseWriter, _ *http.Request) { rw.WriteHeader(http.StatusInternalServerError) })
	stop = run()
	await()
	answers(func(http.ResponseWriter, *http.Request) {})
	await()
	stop()
	m := w.log(id)[0]
	if !m.Delivered || len(m.Attempts) != 2 || m.Attempts[0].Code != webhook.CodeRefused || m.Attempts[1].Code != webhook.CodeDelivered {
		t.Errorf("the log: %+v", m)
	}
	got := s.Got()
	if len(got) != 3 {
		t.Fatalf("%d calls", len(got))
	}
	for _, c := range got {
		if err := verify(secret, c, time.Now()); err != nil || c.Header.Get("webhook-id") != got[0].Header.Get("webhook-id") || string(c.Text) != string(got[0].Text) {
			t.Errorf("%v %s, %v", c.Header, c.Text, err)
		}
	}
}

package webhook_test

import (
	"context"
	"log/slog"
	"net/http"
	"sync"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/a-seed-a7aed72f/holdfast/webhook"
	"github.com/a-seed-a7aed72f/holdfast/worker"
)

// hanging is a server that answers nobody until it is let go. It reports each call.
func hanging(t *testing.T) (s *server, called <-chan struct{}, letGo func()) {
	t.Helper()
	s = newServer(t)
	calls, gone := make(chan struct{}, 1000), make(chan struct{})
	s.Answers(func(_ http.ResponseWriter, r *http.Request) {
		calls <- struct{}{}
		select {
		case <-gone:
		case <-r.Context().Done():
		}
	})
	letGo = sync.OnceFunc(func() { close(gone) })
	t.Cleanup(letGo)
	return s, calls, letGo
}

// soon is how long a test waits for what must not wait for a hanging server, where each call takes 20 s.
const soon = 15 * time.Second

func awaitCall(t *testing.T, called <-chan struct{}, what string) {
	t.Helper()
	limit := time.NewTimer(soon)
	defer limit.Stop()
	select {
	case <-called:
	case <-limit.C:
		t.Fatalf("%s waits for servers that hang", what)
	}
}

// At most sixteen deliveries of one owner are under way, and two to a webhook that fails. Any beyond that are put off,
// which counts as no attempt.
func TestAnOwnersShare(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	bob, alice := w.User("bob", 0, 0), w.User("alice", 0, 0)
	s, called, letGo := hanging(t)
	message := func(owner webhook.Owner, hook int64) int64 {
		t.Helper()
		m, err := w.Test(w.Ctx, owner, hook)
		if err != nil {
			t.Fatal(err)
		}
		return m.ID
	}
	deliver := func(id int64) (again time.Duration) {
		t.Helper()
		again, err := w.Webhooks.Deliver(w.Ctx, id)
		if err != nil {
			t.Fatal(err)
		}
		return again
	}
	var underWay sync.WaitGroup
	begin := func(owner webhook.Owner, hook int64) {
		id := message(owner, hook)
		underWay.Go(func() { _, _ = w.Webhooks.Deliver(w.Ctx, id) })
		awaitCall(t, called, "a delivery below the share")
	}
	hooks := make([]int64, 2)
	for i := range hooks {
		hooks[i], _ = w.Tell(&bob, s.URL)
	}
	for i := range 16 {
		begin(&bob, hooks[i%2])
	}
	above := message(&bob, hooks[0])
	if again := deliver(above); again < time.Second || again > 2*time.Second {
		t.Errorf("what is above the share is tried again after %s", again)
	}
	if m := w.log(hooks[0])[0]; m.ID != above || m.EndedAt != nil || len(m.Attempts) != 0 {
		t.Errorf("what was put off: %+v", m)
	}
	healthy := newServer(t)
	hers, _ := w.Tell(&alice, healthy.URL)
	if again := deliver(message(&alice, hers)); again != 0 || len(healthy.Got()) != 1 {
		t.Errorf("somebody else is put off for %s", again)
	}
	letGo()
	underWay.Wait()
	if again := deliver(above); again != 0 || !w.log(hooks[0])[0].Delivered {
		t.Errorf("what was put off is tried again after %s", again)
	}

	// A failing webhook of an owner who has another one.
	s, called, letGo = hanging(t)
	broken, _ := w.Tell(&bob, s.URL)
	if _, err := w.Pool.Exec(w.Ctx, `UPDATE webhook SET failing_since = $2 WHERE id = $1`, broken, w.Clock.Now()); err != nil {
		t.Fatal(err)
	}
	begin(&bob, broken)
	begin(&bob, broken)
	if again := deliver(message(&bob, broken)); again < 20*time.Second || again > 30*time.Second {
		t.Errorf("a third one to a webhook that fails is tried after %s", again)
	}
	his, _ := w.Tell(&bob, healthy.URL)
	if again := deliver(message(&bob, his)); again != 0 || len(healthy.Got()) != 1 {
		t.Errorf("the owner's other webhook is put off for %s", again)
	}
	letGo()
	underWay.Wait()
}

// However many messages a user has, their jobs are due one after the other, and so are those that find the share taken.
// Others' messages are due at once, the operator's too.
func TestManyMessagesOfOneOwnerAreSetApart(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	bob, alice := w.User("bob", 0, 0), w.User("alice", 0, 0)
	s, called, letGo := hanging(t)
	defer letGo()
	his, _ := w.Tell(&bob, s.URL)
	operators, _ := w.Tell(nil, s.URL)
	hers, _ := w.Tell(&alice, s.URL)
	for hook, n := range map[int64]int{his: 164, operators: 164, hers: 1} {
		_, err := w.Pool.Exec(w.Ctx, `INSERT INTO webhook_message (webhook_id, type, created_at) SELECT $1::bigint, 'webhook.test', now() FROM generate_series(1, $2::int)`, hook, n)
		if err != nil {
			t.Fatal(err)
		}
	}
	if _, err := w.Queue(w.Ctx); err != nil {
		t.Fatal(err)
	}
	due := func(hook int64) (n int) {
		t.Helper()
		return int(w.Count(`SELECT count(*) FROM test_delivery d JOIN webhook_message m ON m.id = d.message WHERE m.webhook_id = $1 AND d.due < $2`, hook, w.Clock.Now()))
	}
	if his, operators, hers := due(his), due(operators), due(hers); his != 64 || operators != 164 || hers != 1 {
		t.Errorf("at once are due %d of the many, %d of the operator's, %d of somebody else's", his, operators, hers)
	}
	w.Clock.Advance(time.Second)
	if n := due(his); n != 64+39 {
		t.Errorf("a second later %d are due", n) // the fortieth is due at this moment
	}

	rows, err := w.Pool.Query(w.Ctx, `SELECT id FROM webhook_message WHERE webhook_id = $1 ORDER BY id`, his)
	if err != nil {
		t.Fatal(err)
	}
	messages, err := pgx.CollectRows(rows, pgx.RowTo[int64])
	if err != nil {
		t.Fatal(err)
	}
	var underWay sync.WaitGroup
	for _, id := range messages[:16] {
		underWay.Go(func() { _, _ = w.Webhooks.Deliver(w.Ctx, id) })
		awaitCall(t, called, "a delivery below the share")
	}
	var again time.Duration
	for _, id := range messages[16:] {
		if again, err = w.Webhooks.Deliver(w.Ctx, id); err != nil {
			t.Fatal(err)
		}
	}
	if again < 3*time.Second {
		t.Errorf("the last of 148 that find the share taken is tried again after %s, with all others", again)
	}
	letGo()
	underWay.Wait()
}

// With River, in real time: one owner's server hangs, with more messages than there are workers. Another owner's is
// told at once.
func TestHangingServersDelayNobodyElse(t *testing.T) {
	t.Parallel()
	log := slog.New(slog.DiscardHandler)
	queue, err := worker.NewQueue(log)
	if err != nil {
		t.Fatal(err)
	}
	w := newWorld(t, func(c *webhook.Config) { c.Jobs = queue })
	w.Clock.Live()
	bob, alice := w.User("bob", 0, 0), w.User("alice", 0, 0)
	s, called, letGo := hanging(t)
	his, _ := w.Tell(&bob, s.URL)
	for range 100 {
		if _, err := w.Test(w.Ctx, &bob, his); err != nil {
			t.Fatal(err)
		}
	}
	one, err := worker.New(worker.Config{Pool: w.Pool, Engine: w.Engine, Jobs: queue, Log: log, Deliver: w.Webhooks.Deliver,
		Chores: []worker.Chore{{Name: "webhooks", Every: 20 * time.Millisecond, Do: func(ctx context.Context) error { _, err := w.Queue(ctx); return err }}}})
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(w.Ctx)
	ended := make(chan error, 1)
	go func() { ended <- one.Run(ctx) }()
	for range 16 {
		awaitCall(t, called, "a delivery below the share")
	}
	healthy := newServer(t)
	told := make(chan struct{}, 1)
	healthy.Answers(func(http.ResponseWriter, *http.Request) { told <- struct{}{} })
	hers, _ := w.Tell(&alice, healthy.URL)
	if _, err := w.Test(w.Ctx, &alice, hers); err != nil {
		t.Fatal(err)
	}
	awaitCall(t, told, "another owner's message")
	if n := len(s.Got()); n != 16 {
		t.Errorf("%d deliveries of one owner are under way", n)
	}
	letGo()
	cancel()
	if err := <-ended; err != nil {
		t.Error(err)
	}
}

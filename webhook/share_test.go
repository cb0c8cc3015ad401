package webhook_test

import (
	"context"
	"fmt"
	"log/slog"
	"net/http"
	"slices"
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
		id := w.test(owner, hook)
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
	above := w.test(&bob, hooks[0])
	if again := deliver(above); again < time.Second || again > 2*time.Second {
		t.Errorf("what is above the share is tried again after %s", again)
	}
	if m := w.log(hooks[0])[0]; m.ID != above || m.EndedAt != nil || len(m.Attempts) != 0 {
		t.Errorf("what was put off: %+v", m)
	}
	healthy := newServer(t)
	hers, _ := w.Tell(&alice, healthy.URL)
	if again := deliver(w.test(&alice, hers)); again != 0 || len(healthy.Got()) != 1 {
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
	if again := deliver(w.test(&bob, broken)); again < 20*time.Second || again > 30*time.Second {
		t.Errorf("a third one to a webhook that fails is tried after %s", again)
	}
	his, _ := w.Tell(&bob, healthy.URL)
	if again := deliver(w.test(&bob, his)); again != 0 || len(healthy.Got()) != 1 {
		t.Errorf("the owner's other webhook is put off for %s", again)
	}
	letGo()
	underWay.Wait()
}

// The fewer places are free, the fewer an owner may have, down to one. So several owners whose servers hang leave places
// to all others.
func TestOwnersTogetherLeavePlacesToOthers(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	s, called, letGo := hanging(t)
	var underWay sync.WaitGroup
	begin := func(message int64) (again time.Duration) {
		t.Helper()
		ended := make(chan time.Duration, 1)
		underWay.Go(func() {
			again, err := w.Webhooks.Deliver(w.Ctx, message)
			if err != nil {
				t.Error(err)
			}
			ended <- again
		})
		select {
		case again = <-ended:
		case <-called:
		}
		return again
	}
	var got []int
	for i := range 8 {
		owner := w.User(fmt.Sprintf("hangs%d", i), 0, 0)
		hook, _ := w.Tell(&owner, s.URL)
		n := 0
		for begin(w.test(&owner, hook)) == 0 {
			n++
		}
		got = append(got, n)
	}
	if want := []int{16, 11, 7, 5, 3, 2, 2, 1}; !slices.Equal(got, want) {
		t.Errorf("one after the other, owners have %v deliveries under way, want %v", got, want)
	}
	for i := range 17 {
		owner := w.User(fmt.Sprintf("another%d", i), 0, 0)
		hook, _ := w.Tell(&owner, s.URL)
		if again := begin(w.test(&owner, hook)); again != 0 {
			t.Fatalf("the first delivery of owner %d beside them is put off for %s", i, again)
		}
		if again := begin(w.test(&owner, hook)); again < time.Second || again > 2*time.Second {
			t.Fatalf("their second is put off for %s", again)
		}
	}
	letGo()
	underWay.Wait()
	owner := w.User("later", 0, 0)
	s, called, letGo = hanging(t)
	hook, _ := w.Tell(&owner, s.URL)
	n := 0
	for begin(w.test(&owner, hook)) == 0 {
		n++
	}
	if n != 16 {
		t.Errorf("once all are over, an owner has %d", n)
	}
	letGo()
	underWay.Wait()
}

// A server that is down may be that of many owners: webhooks whose last attempt failed have at most half of the places.
func TestFailingWebhooksTogetherLeaveHalf(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	s, called, letGo := hanging(t)
	var underWay sync.WaitGroup
	var above int64
	for i := range 33 {
		owner := w.User(fmt.Sprintf("fails%d", i), 0, 0)
		hook, _ := w.Tell(&owner, s.URL)
		if _, err := w.Pool.Exec(w.Ctx, `UPDATE webhook SET failing_since = $2 WHERE id = $1`, hook, w.Clock.Now()); err != nil {
			t.Fatal(err)
		}
		message := w.test(&owner, hook)
		if above = message; i < 32 {
			underWay.Go(func() { _, _ = w.Webhooks.Deliver(w.Ctx, message) })
			awaitCall(t, called, "a delivery below the share")
		}
	}
	if again, err := w.Webhooks.Deliver(w.Ctx, above); err != nil || again < 20*time.Second || again > 30*time.Second {
		t.Errorf("one more is tried after %s, %v", again, err)
	}
	alice, healthy := w.User("alice", 0, 0), newServer(t)
	hers, _ := w.Tell(&alice, healthy.URL)
	if again, err := w.Webhooks.Deliver(w.Ctx, w.test(&alice, hers)); err != nil || again != 0 || len(healthy.Got()) != 1 {
		t.Errorf("one that does not fail is put off for %s, %v", again, err)
	}
	letGo()
	underWay.Wait()
	if again, err := w.Webhooks.Deliver(w.Ctx, above); err != nil || again != 0 {
		t.Errorf("once they are over, it is put off for %s, %v", again, err)
	}
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
	rename := func(from, to string) {
		t.Helper()
		if _, err := w.Pool.Exec(w.Ctx, `ALTER TABLE `+from+` RENAME TO `+to); err != nil {
			t.Fatal(err)
		}
	}
	rename("test_delivery", "away")
	for range 3 { // what does not come about sets nothing apart
		if _, err := w.Queue(w.Ctx); err == nil {
			t.Error("jobs were made without a table for them")
		}
	}
	rename("away", "test_delivery")
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

// A clock that was ahead and is right again leaves nobody waiting for what it said: what comes now is due at once.
func TestAClockThatIsSetBackHoldsUpNoMessage(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	alice, s := w.User("alice", 0, 0), newServer(t)
	id, _ := w.Tell(&alice, s.URL)
	for _, by := range []time.Duration{24 * time.Hour, -24 * time.Hour, time.Second} {
		w.Clock.Advance(by)
		w.test(&alice, id)
		if _, err := w.Queue(w.Ctx); err != nil {
			t.Fatal(err)
		}
		if n := w.Count(`SELECT count(*) FROM test_delivery WHERE due > $1`, w.Clock.Now()); n != 0 {
			t.Errorf("the clock moved by %s: %d messages are due later", by, n)
		}
	}
}

// With River, in real time: several owners' servers hang, with more messages for each than there are workers. Another
// owner's is told at once.
func TestHangingServersDelayNobodyElse(t *testing.T) {
	t.Parallel()
	log := slog.New(slog.DiscardHandler)
	queue, err := worker.NewQueue(log)
	if err != nil {
		t.Fatal(err)
	}
	w := newWorld(t, func(c *webhook.Config) { c.Jobs = queue })
	w.Clock.Live()
	alice := w.User("alice", 0, 0)
	s, called, letGo := hanging(t)
	for i := range 8 {
		owner := w.User(fmt.Sprintf("hangs%d", i), 0, 0)
		hook, _ := w.Tell(&owner, s.URL)
		for range 65 {
			w.test(&owner, hook)
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
	for range 40 { // five of each
		awaitCall(t, called, "a delivery below the share")
	}
	healthy := newServer(t)
	told := make(chan struct{}, 1)
	healthy.Answers(func(http.ResponseWriter, *http.Request) { told <- struct{}{} })
	hers, _ := w.Tell(&alice, healthy.URL)
	w.test(&alice, hers)
	awaitCall(t, told, "another owner's message")
	letGo()
	cancel()
	if err := <-ended; err != nil {
		t.Error(err)
	}
}

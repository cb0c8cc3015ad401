package webhook_test

import (
	"net/http"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/a-seed-a7aed72f/holdfast/webhook"
)

// together does these jobs at the same moment: the server answers none of them before it was called by all.
func (w *world) together(s *server, status int, messages ...int64) {
	w.Helper()
	var called atomic.Int64
	all := make(chan struct{})
	s.Answers(func(rw http.ResponseWriter, r *http.Request) {
		if int(called.Add(1)) == len(messages) {
			close(all)
		}
		select {
		case <-all:
		case <-r.Context().Done():
		}
		rw.WriteHeader(status)
	})
	var jobs sync.WaitGroup
	for _, m := range messages {
		jobs.Go(func() {
			if _, err := w.Webhooks.Deliver(w.Ctx, m); err != nil {
				w.Error(err)
			}
		})
	}
	jobs.Wait()
}

// test writes a message that reports nothing.
func (w *world) test(owner webhook.Owner, id int64) int64 {
	w.Helper()
	m, err := w.Test(w.Ctx, owner, id)
	if err != nil {
		w.Fatal(err)
	}
	return m.ID
}

// Two jobs may try one message at the same moment, for example where the queue takes one of them for dead. That counts
// as one attempt: what remains of the three days is not used up by it.
func TestTwoJobsOfAMessageAreOneAttempt(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	alice, s := w.User("alice", 0, 0), newServer(t)
	id, _ := w.Tell(&alice, s.URL)
	m := w.test(&alice, id)
	w.together(s, http.StatusInternalServerError, m, m)
	if n := len(s.Got()); n != 2 {
		t.Fatalf("the server was called %d times", n)
	}
	if m := w.log(id)[0]; len(m.Attempts) != 1 || m.NextAttemptAt.Sub(w.Clock.Now()) > 6*time.Second {
		t.Errorf("the log: %+v", m)
	}
	if n := w.Count(`SELECT attempts FROM webhook_message WHERE id = $1`, m); n != 1 {
		t.Errorf("%d attempts are counted", n)
	}
}

// A job that runs once more after its message has ended calls nobody, whether it was delivered or given up.
func TestWhatHasEndedIsNotSentAgain(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	alice, s := w.User("alice", 0, 0), newServer(t)
	id, _ := w.Tell(&alice, s.URL)
	delivered := w.test(&alice, id)
	w.Deliver()
	givenUp := w.test(&alice, id)
	if _, err := w.Enable(w.Ctx, &alice, id, false, nil); err != nil {
		t.Fatal(err)
	}
	w.Deliver()
	if _, err := w.Enable(w.Ctx, &alice, id, true, nil); err != nil {
		t.Fatal(err)
	}
	if n := len(s.Got()); n != 1 {
		t.Fatalf("the server was called %d times", n)
	}
	for _, m := range []int64{delivered, givenUp} {
		if again, err := w.Webhooks.Deliver(w.Ctx, m); again != 0 || err != nil {
			t.Errorf("message %d is tried again after %s, %v", m, again, err)
		}
	}
	if n := len(s.Got()); n != 0 {
		t.Errorf("what has ended was sent %d times more", n)
	}
}

// A webhook whose server wants no more is disabled once, however many messages were under way: a user is told of theirs
// once, and of the operator's nobody but the log.
func TestWhoeverIsDisabledIsToldOnce(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	alice, s := w.User("alice", 0, 0), newServer(t)
	for _, owner := range []webhook.Owner{&alice, nil} {
		id, _ := w.Tell(owner, s.URL)
		w.together(s, http.StatusGone, w.test(owner, id), w.test(owner, id))
		if list, err := w.List(w.Ctx, owner); err != nil || len(list) != 1 || list[0].DisabledAt == nil {
			t.Errorf("%+v, %v", list, err)
		}
		if n := w.Count(`SELECT count(*) FROM notification`); n != 1 {
			t.Errorf("%d notifications", n)
		}
	}
	if n := w.Count(`SELECT count(*) FROM notification WHERE user_id = $1 AND kind = 'WEBHOOK_DISABLED'`, alice); n != 1 {
		t.Errorf("she was told %d times", n)
	}
	if log := w.Out.String(); strings.Count(log, "level=WARN") != 1 { // else she could fill the log
		t.Errorf("the operator is to be warned of their own webhook alone:\n%s", log)
	}
}

// Who sends a message once more gets all attempts anew: it does not end with the first that fails.
func TestWhatIsSentOnceMoreHasAllItsAttempts(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	alice, s := w.User("alice", 0, 0), newServer(t)
	id, _ := w.Tell(&alice, s.URL)
	s.Status(http.StatusInternalServerError)
	m := w.test(&alice, id)
	tried := func() (times int) {
		t.Helper()
		for w.log(id)[0].EndedAt == nil {
			if _, err := w.Enable(w.Ctx, &alice, id, true, nil); err != nil { // it is not to end because its webhook does
				t.Fatal(err)
			}
			again, err := w.Webhooks.Deliver(w.Ctx, m)
			if err != nil {
				t.Fatal(err)
			}
			times += len(s.Got())
			w.Clock.Advance(again)
		}
		return times
	}
	first := tried()
	if _, err := w.Redeliver(w.Ctx, &alice, m); err != nil {
		t.Fatal(err)
	}
	if again := tried(); again != first || first < 2 {
		t.Errorf("tried %d times, and once more %d times", first, again)
	}
}

// What was told to one webhook is not read with what was told to another, whoever's it is, and whichever was there first.
func TestALogIsOfOneWebhook(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	alice, bob, s := w.User("alice", 0, 0), w.User("bob", 0, 0), newServer(t)
	operators, _ := w.Tell(nil, s.URL)
	first, _ := w.Tell(&alice, s.URL)
	w.test(nil, operators)
	w.test(&alice, first)
	w.test(&alice, first)
	second, _ := w.Tell(&bob, s.URL)
	m := w.test(&bob, second)
	if told := w.log(second); len(told) != 1 || told[0].ID != m {
		t.Errorf("bob's webhook was told %+v", told)
	}
	if before, err := w.Messages(w.Ctx, second, m, 10); err != nil || len(before) != 0 {
		t.Errorf("before its only message it was told %+v, %v", before, err)
	}
	if n, of := len(w.log(first)), len(w.log(operators)); n != 2 || of != 1 {
		t.Errorf("alice's was told %d times, the operator's %d times", n, of)
	}
}

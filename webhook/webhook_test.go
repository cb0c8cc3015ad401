package webhook_test

import (
	"bytes"
	"errors"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/a-seed-a7aed72f/holdfast/community"
	"github.com/a-seed-a7aed72f/holdfast/internal/db"
	"github.com/a-seed-a7aed72f/holdfast/internal/enginetest"
	"github.com/a-seed-a7aed72f/holdfast/internal/outside"
	"github.com/a-seed-a7aed72f/holdfast/lightning/simnode"
	"github.com/a-seed-a7aed72f/holdfast/paidaction"
	"github.com/a-seed-a7aed72f/holdfast/webhook"
)

// everyWay takes actions of a user and of the anonymous payer through paying, failing, retrying, cancelling and
// withdrawing.
func (w *world) everyWay(user int64) (paid *paidaction.PaidAction) {
	w.Helper()
	post := func(title string, payer int64, m paidaction.Method) *paidaction.PaidAction {
		w.Clock.Advance(11 * time.Minute)
		return w.Pay(payer, community.KindItemCreate, community.ItemCreateArgs{Title: title}, m)
	}
	paid = post("a title of hers", user, paidaction.Optimistic)
	if err := w.Node.PayBolt11(paid.Invoice.Bolt11, simnode.Payment{}); err != nil {
		w.Fatal(err)
	}
	w.Advance(paid.ID)
	post("from credits", user, paidaction.FeeCredit)
	held := post("by the anonymous", 0, paidaction.Pessimistic)
	if err := w.Node.PayBolt11(held.Invoice.Bolt11, simnode.Payment{}); err != nil {
		w.Fatal(err)
	}
	w.Drain()
	given := post("given up", user, paidaction.Optimistic)
	if _, err := w.Engine.Cancel(w.Ctx, enginetest.Caller(user), given.ID); err != nil {
		w.Fatal(err)
	}
	w.Drain()
	if _, err := w.Engine.Retry(w.Ctx, enginetest.Caller(user), given.ID, "", paidaction.Terms{}, nil); err != nil {
		w.Fatal(err)
	}
	carol := w.Network.AddReceiver("carol")
	stop := w.Run(w.Relay)
	out := w.Pay(user, community.KindWithdraw, community.WithdrawArgs{To: carol.Issue(simnode.Ask{Amount: 50_000}).Bolt11, MaxFeeSats: 5}, paidaction.Outgoing)
	w.Await(out.ID, paidaction.Paid)
	stop()
	w.Drain()
	return paid
}

// Each step of every action is told once, just as the database has it: all of them to the operator, to a user their
// own.
func TestEveryStepIsTold(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	alice, bob := w.User("alice", 1_000_000, 1_000_000), w.User("bob", 1_000_000, 1_000_000)
	all, hers, his := newServer(t), newServer(t), newServer(t)
	_, secret := w.Tell(nil, all.URL)
	_, hersSecret := w.Tell(&alice, hers.URL)
	w.Tell(&bob, his.URL)
	paid := w.everyWay(alice)
	// Zaps may share a transaction with others that wait.
	w.Pay(alice, community.KindZap, community.ZapArgs{Item: w.Post(w.User("carol", 1_000_000, 0), "carol writes"), Sats: 1}, paidaction.FeeCredit)
	w.Deliver()
	told, toldHer := all.Got(), hers.Got()
	if n := w.Count(`SELECT count(*) FROM action_history`); int64(len(told)) != n || n < 12 {
		t.Errorf("of %d steps %d were told: %s", n, len(told), types(told))
	}
	if n := w.Count(`SELECT count(*) FROM action_history h JOIN paid_action a ON a.id = h.action_id WHERE a.payer_id = $1`, alice); int64(len(toldHer)) != n {
		t.Errorf("of %d steps of hers %d were told: %s", n, len(toldHer), types(toldHer))
	}
	if got := his.Got(); len(got) > 0 {
		t.Errorf("he was told of others: %s", types(got))
	}
	if n := w.Count(`SELECT count(*) FROM webhook_message m JOIN action_history h ON h.id = m.step_id JOIN paid_action a ON a.id = h.action_id
		WHERE m.type <> webhook_type(a.flow::text, h.to_state::text) OR m.created_at <> h.at`); n != 0 {
		t.Errorf("%d messages say something else than their step", n)
	}
	for _, want := range []string{">action.pending ", "PENDING>action.paid ", ">action.paid ", "PENDING_HELD>action.held ", "HELD>action.paid ", "PENDING>action.canceling ",
		"CANCELING>action.failed ", "FAILED>action.retrying", ">payout.forwarding ", "FORWARDING>payout.forwarded ", "FORWARDED>payout.paid"} {
		if !strings.Contains(" "+types(told)+" ", want) {
			t.Errorf("%s was not told: %s", want, types(told))
		}
	}
	ids := map[string]bool{} // a server drops a message whose id it knows
	for i, calls := range [][]call{told, toldHer} {
		for _, c := range calls {
			if id := c.Header.Get("webhook-id"); ids[id] {
				t.Errorf("two messages have the id %s", id)
			} else {
				ids[id] = true
			}
			if err := verify([]string{secret, hersSecret}[i], c, w.Clock.Now()); err != nil {
				t.Errorf("%s: %v", c.Text, err)
			}
			if verify([]string{hersSecret, secret}[i], c, w.Clock.Now()) == nil {
				t.Error("it is signed with the secret of another webhook")
			}
			if (c.Body.Data.PayerID != "") != (i == 0 && w.Look(number(t, c.Body.Data.ID)).Payer != nil) || c.Body.Data.CostMsat == "" || c.Header.Get("Content-Type") != "application/json" {
				t.Errorf("%s", c.Text)
			}
			for _, secret := range []string{"lnbc", "preimage", "bolt11", "a title of hers", paid.Invoice.Hash.String()} {
				if bytes.Contains(bytes.ToLower(c.Text), []byte(secret)) {
					t.Errorf("%s is told in %s", secret, c.Text)
				}
			}
			if (c.Body.Data.Failure != nil) != (c.Body.Data.State == "FAILED") {
				t.Errorf("%s", c.Text)
			}
		}
	}
	if w.Deliver(); len(all.Got()) > 0 {
		t.Error("what was delivered came again")
	}
}

// The types are those of the machine, and the same in the database.
func TestEvents(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	for _, step := range paidaction.Machine {
		if n := w.Count(`SELECT count(*) FROM unnest($1::text[]) e WHERE e = webhook_type($2, $3)`, webhook.Events, string(step.Flow), string(step.To)); n != 1 {
			t.Errorf("%s to %s is no event", step.Flow, step.To)
		}
	}
	alice, s := w.User("alice", 1_000_000, 0), newServer(t)
	w.Tell(&alice, s.URL, "action.failed", "payout.paid")
	w.Post(alice, "paid at once")
	if w.Deliver(); len(s.Got()) > 0 {
		t.Error("told of what was not asked for")
	}
	for _, events := range [][]string{{"action.paid", "nonsense"}, {""}, {"webhook.test"}} {
		_, _, err := w.Create(w.Ctx, &alice, s.URL, events, nil)
		w.WantRefusal(err, paidaction.CodeInvalidInput)
	}
}

// What is rolled back is not told: the message commits with the step, or not at all.
func TestWhatDidNotHappenIsNotTold(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	poor, s := w.User("poor", 0, 0), newServer(t)
	w.Tell(&poor, s.URL)
	_, err := w.Try(poor, community.KindItemCreate, community.ItemCreateArgs{Title: "too dear"}, paidaction.FeeCredit, "")
	w.WantRefusal(err, paidaction.CodeInsufficientFunds)
	if n := w.Count(`SELECT count(*) FROM webhook_message`); n != 0 {
		t.Errorf("%d messages of what did not happen", n)
	}
}

// A server that fails is tried again and again, at growing intervals, under the same id. After three days of nothing
// but failures, its webhook is disabled, and its owner is told.
func TestAServerIsTriedUntilItHasFailedForThreeDays(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	alice, s := w.User("alice", 1_000_000, 0), newServer(t)
	id, secret := w.Tell(&alice, s.URL, "action.paid")
	s.Status(http.StatusInternalServerError)
	w.Post(alice, "a post")
	begun, ids := w.Clock.Now(), map[string]bool{}
	var first []byte
	var at []time.Duration
	for range 100 {
		w.Deliver()
		for _, c := range s.Got() {
			if err := verify(secret, c, w.Clock.Now()); err != nil {
				t.Error(err)
			}
			if first == nil {
				first = c.Text
			}
			if !bytes.Equal(first, c.Text) {
				t.Errorf("%s became %s", first, c.Text)
			}
			ids[c.Header.Get("webhook-id")] = true
			at = append(at, w.Clock.Now().Sub(begun))
		}
		m := w.log(id)[0]
		if m.EndedAt != nil {
			break
		}
		w.Clock.Advance(m.NextAttemptAt.Sub(w.Clock.Now()) - time.Second)
		if w.Deliver(); len(s.Got()) > 0 {
			t.Error("tried too soon")
		}
		w.Clock.Advance(time.Second)
	}
	total := 75*time.Hour + 35*time.Minute + 5*time.Second
	if len(at) != 10 || len(ids) != 1 || at[9] < total || at[9] > total+total/10 || at[1] < 5*time.Second || at[2] < 5*time.Minute {
		t.Errorf("tried at %v, as %v", at, ids)
	}
	m := w.log(id)[0]
	if m.Delivered || len(m.Attempts) != 10 || m.Attempts[9].Code != webhook.CodeRefused || *m.Attempts[9].Status != 500 {
		t.Errorf("the log: %+v", m)
	}
	list, err := w.List(w.Ctx, &alice)
	if err != nil || list[0].DisabledAt == nil || list[0].FailingSince == nil {
		t.Errorf("%+v, %v", list, err)
	}
	if n := w.Count(`SELECT count(*) FROM notification WHERE user_id = $1 AND kind = 'WEBHOOK_DISABLED'`, alice); n != 1 {
		t.Errorf("she was told %d times", n)
	}
	w.Post(alice, "another post")
	if len(w.log(id)) != 1 {
		t.Error("a webhook that is disabled gets messages")
	}
	_, err = w.Test(w.Ctx, &alice, id)
	w.WantRefusal(err, paidaction.CodeInvalidInput)
	if len(w.log(id)) != 1 {
		t.Error("a test of a webhook that is disabled is stored, and given up at once")
	}
	// Once it works again, it is told again, and messages that were given up can be sent once more.
	s.Answers(nil)
	if _, err := w.Enable(w.Ctx, &alice, id, true, nil); err != nil {
		t.Fatal(err)
	}
	if _, err := w.Redeliver(w.Ctx, &alice, m.ID); err != nil {
		t.Fatal(err)
	}
	w.Deliver()
	if got := s.Got(); len(got) != 1 || !ids[got[0].Header.Get("webhook-id")] || !bytes.Equal(got[0].Text, first) {
		t.Errorf("again came %s", types(got))
	}
	if m := w.log(id)[0]; !m.Delivered || len(m.Attempts) != 11 {
		t.Errorf("the log: %+v", m)
	}
}

// Who switches a webhook on again gives its server another three days: what failed before counts no more.
func TestWhatIsSwitchedOnAgainBeginsAnew(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	alice, s := w.User("alice", 1_000_000, 0), newServer(t)
	id, _ := w.Tell(&alice, s.URL)
	s.Status(http.StatusInternalServerError)
	for day := 0; day < 6; day += 3 {
		if _, err := w.Enable(w.Ctx, &alice, id, true, nil); err != nil {
			t.Fatal(err)
		}
		if _, err := w.Test(w.Ctx, &alice, id); err != nil {
			t.Fatal(err)
		}
		w.Deliver()
		list, err := w.List(w.Ctx, &alice)
		if err != nil || list[0].DisabledAt != nil || list[0].FailingSince == nil || !list[0].FailingSince.Equal(w.Clock.Now()) {
			t.Errorf("failed once, on day %d: %+v, %v", day, list, err)
		}
		w.Clock.Advance(72 * time.Hour)
	}
}

// Days on which nobody tries are none on which it fails: neither those in which no process runs, nor those in which there
// is nothing to tell. A pause that a server may ask for is none of these.
func TestWhileNobodyTriesNothingFails(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	alice, s := w.User("alice", 1_000_000, 0), newServer(t)
	id, _ := w.Tell(&alice, s.URL, "action.paid")
	shown := func() webhook.Webhook {
		t.Helper()
		list, err := w.List(w.Ctx, &alice)
		if err != nil {
			t.Fatal(err)
		}
		return list[0]
	}
	s.Status(http.StatusInternalServerError)
	w.Post(alice, "a post")
	w.Deliver()
	w.Clock.Advance(73 * time.Hour)
	w.Post(alice, "another post")
	w.Deliver()
	if is := shown(); is.DisabledAt != nil || !is.FailingSince.Equal(w.Clock.Now()) {
		t.Errorf("after two failures, and three days without a process: %+v", is)
	}
	for _, m := range w.log(id) {
		if m.EndedAt != nil {
			t.Errorf("given up: %+v", m)
		}
	}
	since := w.Clock.Now()
	for range 2 {
		w.Clock.Advance(26*time.Hour + 24*time.Minute) // a day, jittered
		w.Deliver()
	}
	if is := shown(); is.DisabledAt != nil || !is.FailingSince.Equal(since) {
		t.Errorf("tried each day, failing since %s: %+v", since, is)
	}
	w.Clock.Advance(20 * time.Hour)
	if w.Deliver(); shown().DisabledAt == nil {
		t.Error("after three days of trying it is not disabled")
	}
}

// A server that refuses and says for how long is left alone for that long: at most a day, and never less than it would
// be anyway.
func TestRetryAfter(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	alice, s := w.User("alice", 0, 0), newServer(t)
	id, _ := w.Tell(&alice, s.URL)
	in := func(d time.Duration) string { return w.Clock.Now().Add(d).UTC().Format(http.TimeFormat) }
	for _, c := range []struct {
		status int
		said   string
		want   time.Duration
	}{
		{http.StatusTooManyRequests, "3600", time.Hour},
		{http.StatusServiceUnavailable, in(2 * time.Hour), 2 * time.Hour},
		{http.StatusServiceUnavailable, "1", 5 * time.Second},
		{http.StatusServiceUnavailable, in(-time.Hour), 5 * time.Second},
		{http.StatusTooManyRequests, "999999999", 24 * time.Hour},
		{http.StatusTooManyRequests, "18446744073709551615", 24 * time.Hour},
		{http.StatusTooManyRequests, in(1000 * time.Hour), 24 * time.Hour},
		{http.StatusTooManyRequests, "-5", 5 * time.Second},
		{http.StatusTooManyRequests, "soon", 5 * time.Second},
		{http.StatusTooManyRequests, "", 5 * time.Second},
		{http.StatusInternalServerError, "3600", 5 * time.Second}, // RFC 9110 has it only for temporary refusals
	} {
		s.Answers(func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("Retry-After", c.said)
			w.WriteHeader(c.status)
		})
		if _, err := w.Enable(w.Ctx, &alice, id, true, nil); err != nil { // its server is left alone no more
			t.Fatal(err)
		}
		m, err := w.Test(w.Ctx, &alice, id)
		if err != nil {
			t.Fatal(err)
		}
		if _, err := w.Webhooks.Deliver(w.Ctx, m.ID); err != nil {
			t.Fatal(err)
		}
		// Dates have whole seconds; up to a tenth is added to each pause.
		if got := w.log(id)[0].NextAttemptAt.Sub(w.Clock.Now()); got < c.want-time.Second || got > c.want+c.want/10 {
			t.Errorf("%d with %q: tried again after %s, want %s", c.status, c.said, got, c.want)
		}
	}
}

// Whoever asks to be left alone is, with every message: none is sent before, and none has a try less for it. An owner
// who enables their webhook has the next one sent at once.
func TestWhoeverAsksToBeLeftAloneGetsNoOtherMessageEither(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	alice, s, other := w.User("alice", 0, 0), newServer(t), newServer(t)
	id, _ := w.Tell(&alice, s.URL)
	refused := w.test(&alice, id)
	refuses := func() {
		t.Helper()
		s.Answers(func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("Retry-After", "3600")
			w.WriteHeader(http.StatusTooManyRequests)
		})
		w.Deliver()
		if n := len(s.Got()); n != 1 {
			t.Fatalf("%d calls", n)
		}
		s.Answers(nil)
	}
	refuses()
	waits := w.test(&alice, id)
	w.Clock.Advance(time.Hour - time.Second)
	for range 2 { // one that is taken up again waits on
		w.Deliver()
		if again, err := w.Webhooks.Deliver(w.Ctx, waits); err != nil || again < time.Second || again > 1100*time.Millisecond || len(s.Got()) != 0 {
			t.Errorf("a second before the hour is over, another message is put off by %s, %v", again, err)
		}
	}
	if m := w.log(id)[0]; m.ID != waits || len(m.Attempts) != 0 || m.EndedAt != nil {
		t.Errorf("what waits: %+v", m)
	}
	another, _ := w.Tell(&alice, other.URL)
	w.test(&alice, another)
	if w.Deliver(); len(other.Got()) != 1 {
		t.Error("another server is left alone, too")
	}
	w.Clock.Advance(time.Second)
	if w.Deliver(); len(s.Got()) != 1 || !w.log(id)[0].Delivered {
		t.Errorf("after an hour: %+v", w.log(id)[0])
	}

	w.Clock.Advance(10 * time.Minute)
	if w.Deliver(); len(s.Got()) != 1 || w.log(id)[1].ID != refused || !w.log(id)[1].Delivered {
		t.Errorf("what was refused: %+v", w.log(id)[1])
	}
	w.test(&alice, id)
	refuses()
	if _, err := w.Enable(w.Ctx, &alice, id, true, nil); err != nil {
		t.Fatal(err)
	}
	w.test(&alice, id)
	if w.Deliver(); len(s.Got()) != 1 {
		t.Error("who is enabled is left alone")
	}
}

// A webhook that fails now and then is never disabled.
func TestFailingNowAndThen(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	alice, s := w.User("alice", 1_000_000_000, 0), newServer(t)
	id, _ := w.Tell(&alice, s.URL, "action.paid")
	for range 5 {
		s.Status(http.StatusBadGateway)
		w.Post(alice, "a post "+w.Clock.Now().String())
		w.Deliver()
		w.Clock.Advance(6 * time.Second)
		s.Answers(nil)
		w.Deliver()
		w.Clock.Advance(25 * time.Hour)
	}
	if list, err := w.List(w.Ctx, &alice); err != nil || list[0].DisabledAt != nil || list[0].FailingSince != nil {
		t.Errorf("%+v, %v", list, err)
	}
	if n := len(w.log(id)); n != 5 {
		t.Errorf("%d messages", n)
	}
}

func TestGone(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	alice, s := w.User("alice", 1_000_000_000, 0), newServer(t)
	id, _ := w.Tell(&alice, s.URL, "action.paid")
	s.Status(http.StatusGone)
	w.Post(alice, "one")
	w.Post(alice, "two")
	w.Deliver()
	w.Clock.Advance(time.Hour)
	w.Deliver()
	if list, err := w.List(w.Ctx, &alice); err != nil || list[0].DisabledAt == nil || len(s.Got()) != 1 {
		t.Errorf("%+v, %v", list, err)
	}
	for _, m := range w.log(id) {
		if m.EndedAt == nil || m.Delivered {
			t.Errorf("%+v", m)
		}
	}
}

// Of an answer only the status counts, not what comes after it: neither how much, nor whether all of it does.
func TestOnlyTheStatusOfAnAnswerCounts(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	alice, s := w.User("alice", 0, 0), newServer(t)
	id, _ := w.Tell(&alice, s.URL)
	for what, rest := range map[string]http.HandlerFunc{
		"a large body": func(w http.ResponseWriter, _ *http.Request) { _, _ = w.Write(make([]byte, 1<<20)) },
		"a body that is cut off": func(w http.ResponseWriter, _ *http.Request) {
			w.(http.Flusher).Flush()
			panic(http.ErrAbortHandler)
		},
	} {
		for status, code := range map[int]string{http.StatusOK: webhook.CodeDelivered, http.StatusBadGateway: webhook.CodeRefused} {
			s.Answers(func(w http.ResponseWriter, r *http.Request) {
				w.WriteHeader(status)
				rest(w, r)
			})
			if _, err := w.Webhooks.Deliver(w.Ctx, w.test(&alice, id)); err != nil {
				t.Fatal(err)
			}
			if a := w.log(id)[0].Attempts; len(a) != 1 || a[0].Code != code || a[0].Status == nil || *a[0].Status != status {
				t.Errorf("%d with %s: %+v", status, what, a)
			}
		}
	}
}

// A redirect is a failure, and is not followed.
func TestRedirectsAreNotFollowed(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	alice, s, other := w.User("alice", 1_000_000, 0), newServer(t), newServer(t)
	id, _ := w.Tell(&alice, s.URL)
	for _, status := range []int{http.StatusMovedPermanently, http.StatusFound, http.StatusTemporaryRedirect, http.StatusPermanentRedirect} {
		for _, to := range []string{other.URL, s.URL + "/elsewhere"} {
			s.Answers(func(w http.ResponseWriter, r *http.Request) { http.Redirect(w, r, to, status) })
			if _, err := w.Test(w.Ctx, &alice, id); err != nil {
				t.Fatal(err)
			}
			w.Deliver()
			if a := w.log(id)[0].Attempts; len(a) != 1 || a[0].Code != webhook.CodeRefused || *a[0].Status != status {
				t.Errorf("%d: %+v", status, a)
			}
			if len(s.Got()) != 1 || len(other.Got()) != 0 {
				t.Errorf("%d to %s was followed", status, to)
			}
		}
	}
}

// In production nobody can make us call a machine of our own network.
func TestPrivateAddressesAreNotCalled(t *testing.T) {
	t.Parallel()
	w := newWorld(t, func(c *webhook.Config) { c.Outside = outside.New(outside.Config{}) })
	alice, s := w.User("alice", 1_000_000, 0), newServer(t)
	for _, url := range []string{s.URL, "http://example.org", "https://user:password@example.org", "ftp://example.org", "wss://example.org", "", "https://", "https://example.org/" + strings.Repeat("x", 2000)} {
		_, _, err := w.Create(w.Ctx, &alice, url, nil, nil)
		w.WantRefusal(err, paidaction.CodeInvalidInput)
	}
	for _, host := range []string{"127.0.0.1", "localhost", "[::1]", "169.254.169.254", "10.0.0.1"} {
		id, _ := w.Tell(&alice, strings.Replace(strings.Replace(s.URL, "http:", "https:", 1), "127.0.0.1", host, 1))
		if _, err := w.Test(w.Ctx, &alice, id); err != nil {
			t.Fatal(err)
		}
		w.Deliver()
		if a := w.log(id)[0].Attempts; len(a) != 1 || a[0].Code != webhook.CodeForbidden || a[0].Status != nil {
			t.Errorf("%s: %+v", host, a)
		}
	}
	if len(s.Got()) != 0 {
		t.Error("a private server was called")
	}
}

// An owner has at most ten, and so has the operator. Removing a webhook forgets everything that it was told.
func TestBoundsAndRemoval(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	alice, s := w.User("alice", 1_000_000, 0), newServer(t)
	for _, owner := range []webhook.Owner{&alice, nil} {
		var id int64
		for range 10 {
			id, _ = w.Tell(owner, s.URL)
		}
		_, _, err := w.Create(w.Ctx, owner, s.URL, nil, nil)
		w.WantRefusal(err, paidaction.CodeInvalidInput)
		m, err := w.Test(w.Ctx, owner, id)
		if err != nil {
			t.Fatal(err)
		}
		_, err = w.Redeliver(w.Ctx, owner, m.ID)
		w.WantRefusal(err, paidaction.CodeDuplicate)
		if err := w.Remove(w.Ctx, owner, id, nil); err != nil {
			t.Fatal(err)
		}
		if again, err := w.Webhooks.Deliver(w.Ctx, m.ID); again != 0 || err != nil {
			t.Errorf("a message of a webhook that was removed: %v, %v", again, err)
		}
	}
}

// A webhook of a user, and of the operator, is nobody else's: whoever names it is told that there is none, and nothing
// about it changes.
func TestWebhooksAreTheirOwners(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	alice, mallory, s := w.User("alice", 1_000_000, 0), w.User("mallory", 0, 0), newServer(t)
	for whose, c := range map[string]struct{ owner, other webhook.Owner }{
		"a user's, to another": {&alice, &mallory}, "a user's, to the operator": {&alice, nil}, "the operator's, to a user": {nil, &mallory}} {
		id, secret := w.Tell(c.owner, s.URL)
		m, err := w.Test(w.Ctx, c.owner, id)
		if err != nil {
			t.Fatal(err)
		}
		w.Deliver()
		s.Got()
		state := func() string {
			var text string
			err := w.Pool.QueryRow(w.Ctx, `SELECT row_to_json(w)::text || coalesce((SELECT string_agg(row_to_json(m)::text, ' ' ORDER BY m.id)
				FROM webhook_message m WHERE m.webhook_id = w.id), '') FROM webhook w WHERE w.id = $1`, id).Scan(&text)
			if err != nil {
				t.Fatal(err)
			}
			return text
		}
		before := state()
		for what, do := range map[string]func() error{
			"enabled":    func() error { _, err := w.Enable(w.Ctx, c.other, id, true, nil); return err },
			"disabled":   func() error { _, err := w.Enable(w.Ctx, c.other, id, false, nil); return err },
			"rotated":    func() error { _, _, err := w.Rotate(w.Ctx, c.other, id, nil); return err },
			"tested":     func() error { _, err := w.Test(w.Ctx, c.other, id); return err },
			"sent again": func() error { _, err := w.Redeliver(w.Ctx, c.other, m.ID); return err },
			"removed":    func() error { return w.Remove(w.Ctx, c.other, id, nil) },
		} {
			w.WantRefusal(do(), paidaction.CodeNotFound)
			if after := state(); after != before {
				t.Errorf("%s, %s: %s became %s", whose, what, before, after)
			}
		}
		if list, err := w.List(w.Ctx, c.other); err != nil || slices.ContainsFunc(list, func(x webhook.Webhook) bool { return x.ID == id }) {
			t.Errorf("%s, listed: %v, %v", whose, list, err)
		}
		if _, err := w.Test(w.Ctx, c.owner, id); err != nil {
			t.Fatal(err)
		}
		w.Deliver()
		if got := s.Got(); len(got) != 1 || verify(secret, got[0], w.Clock.Now()) != nil {
			t.Errorf("%s: its owner is told %d times, or with another secret", whose, len(got))
		}
	}
}

// What has ended is kept for a month.
func TestOldMessagesAreForgotten(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	alice, s := w.User("alice", 1_000_000, 0), newServer(t)
	id, _ := w.Tell(&alice, s.URL)
	w.Post(alice, "a post")
	w.Deliver()
	w.Clock.Advance(29 * 24 * time.Hour)
	w.sweep()
	if len(w.log(id)) != 1 {
		t.Error("forgotten too soon")
	}
	w.Clock.Advance(2 * 24 * time.Hour)
	w.sweep()
	if len(w.log(id)) != 0 {
		t.Error("kept too long")
	}
}

// A message that was written long ago is not delivered again: an action with a message is never archived, nor is what
// came after it.
func TestAnOldMessageIsNotKeptByDeliveringItAgain(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	alice, s := w.User("alice", 1_000_000, 0), newServer(t)
	id, _ := w.Tell(&alice, s.URL)
	w.Post(alice, "a post")
	w.Deliver()
	message := w.log(id)[0].ID
	w.Clock.Advance(30*24*time.Hour - time.Second)
	if _, err := w.Redeliver(w.Ctx, &alice, message); err != nil {
		t.Fatal(err)
	}
	w.Deliver()
	w.Clock.Advance(time.Second)
	if _, err := w.Redeliver(w.Ctx, &alice, message); !errors.Is(err, paidaction.Refused(paidaction.CodeInvalidInput)) {
		t.Errorf("after thirty days: %v", err)
	}
	w.Clock.Advance(30 * 24 * time.Hour)
	w.sweep()
	if len(w.log(id)) != 0 {
		t.Error("kept, though nothing more comes of it")
	}
}

func (w *world) sweep() {
	w.Helper()
	if _, err := webhook.Sweep(w.Ctx, db.New(w.Pool), w.Clock.Now()); err != nil {
		w.Fatal(err)
	}
}

func number(t testing.TB, text string) int64 {
	t.Helper()
	n, err := strconv.ParseInt(text, 10, 64)
	if err != nil {
		t.Fatal(err)
	}
	return n
}

package graph_test

import (
	"fmt"
	"testing"
	"time"

	"github.com/a-seed-a7aed72f/holdfast/ledger"
	"github.com/a-seed-a7aed72f/holdfast/lightning/simnode"
)

const news = `{ notifications { nodes { id kind item { id } retryUntil action { id kind state failure { code } } } } me { unseenNotifications } }`

// news returns somebody's notifications, newest first.
func (a *api) news(as person) []map[string]any {
	a.Helper()
	a.Drain()
	var all []map[string]any
	for _, n := range a.Want(as, news, nil).at("notifications", "nodes").([]any) {
		all = append(all, n.(map[string]any))
	}
	return all
}

// Payers are told once of a payment that failed, and for as long as it can be retried, with what that takes.
func TestFailedPaymentsAreTold(t *testing.T) {
	t.Parallel()
	a := serve(t)
	author, payer := a.Person("author", 100, 0), a.Person("payer", 0, 0)
	post := a.PostBy(author, "zapped in vain")
	const zap = `mutation($p: ID!, $m: PaymentMethod) { zap(item: $p, sats: 10, paymentMethod: $m) { id } }`
	for _, method := range []string{"OPTIMISTIC", "PESSIMISTIC"} {
		id := a.Want(payer, zap, vars{"p": post, "m": method}).text("zap", "id")
		a.Clock.Advance(10 * time.Minute)
		a.Drain()
		for range 2 { // a job may run again
			if err := a.Engine.AfterFailed(a.Ctx, number(t, id)); err != nil {
				t.Fatal(err)
			}
		}
		told := a.news(payer)
		n := told[0]
		action, _ := n["action"].(map[string]any)
		if n["kind"] != "PAYMENT_FAILED" || action["id"] != id || action["state"] != "FAILED" || action["failure"].(map[string]any)["code"] != "EXPIRED" {
			t.Fatalf("%s: %v", method, told)
		}
		if item, _ := n["item"].(map[string]any); item["id"] != post {
			t.Errorf("%s: of which item? %v", method, n)
		}
		until, _ := time.Parse(time.RFC3339, n["retryUntil"].(string))
		a.Clock.Advance(until.Sub(a.Clock.Now()))
		if a.news(payer)[0]["retryUntil"] == nil {
			t.Errorf("%s: it can still be tried again, and that is not said", method)
		}
		a.Clock.Advance(time.Microsecond)
		if a.news(payer)[0]["retryUntil"] != nil {
			t.Errorf("%s: it is said to be retryable after its window", method)
		}
		if r := a.Do(payer, `mutation($id: ID!) { retryPaidAction(id: $id) { id } }`, vars{"id": id}); r.code() != "NOT_RETRYABLE" {
			t.Errorf("%s: %s", method, r.Raw)
		}
	}
	if told := a.news(payer); len(told) != 2 {
		t.Errorf("%d notifications of two failures: %v", len(told), told)
	}
	if told := a.news(author); len(told) != 0 {
		t.Errorf("the author is told what others failed to pay: %v", told)
	}

	// Once it is retried, it cannot be retried again; and what is paid in the end is no failure.
	id := a.Want(payer, zap, vars{"p": post, "m": "OPTIMISTIC"}).text("zap", "id")
	a.Clock.Advance(10 * time.Minute)
	a.Drain()
	r := a.Want(payer, `mutation($id: ID!) { retryPaidAction(id: $id) { id invoice { bolt11 } } }`, vars{"id": id})
	a.PayInvoice(r.text("retryPaidAction", "invoice", "bolt11"))
	a.Advance(number(t, r.text("retryPaidAction", "id")))
	told := a.news(payer)
	if len(told) != 3 || told[0]["retryUntil"] != nil || told[0]["action"].(map[string]any)["state"] != "RETRYING" {
		t.Errorf("%v", told)
	}
	if told := a.news(author); len(told) != 1 || told[0]["kind"] != "ZAP" || told[0]["action"] != nil || told[0]["retryUntil"] != nil {
		t.Errorf("the author sees more than the zap: %v", told)
	}
}

// Nobody is told while the next attempt is prepared by itself. Once there will be none, the payer is told.
func TestOnlyTheLastAttemptIsTold(t *testing.T) {
	t.Parallel()
	a := serve(t)
	author, payer := a.Person("author", 100, 0), a.Person("payer", 0, 0)
	for range 3 {
		a.Wallets.Add(author.ID).Ask.Act = simnode.Refuses
	}
	post := a.PostBy(author, "cannot be reached")
	id := a.Want(payer, `mutation($p: ID!) { zap(item: $p, sats: 100, paymentMethod: P2P) { id } }`, vars{"p": post}).text("zap", "id")
	a.Run(a.Relay)
	const action = `query($id: ID!) { paidAction(id: $id) { state attempt successorId paymentMethod invoice { bolt11 } } }`
	for attempt := 1; ; attempt++ {
		r := a.Want(payer, action, vars{"id": id})
		if got := r.text("paidAction", "paymentMethod"); got != "P2P" || r.at("paidAction", "attempt") != float64(attempt) {
			t.Fatalf("attempt %d: %s", attempt, r.Raw)
		}
		s := a.Socket(payer)
		s.Subscribe("1", follow, vars{"id": id})
		a.PayInvoice(r.text("paidAction", "invoice", "bolt11"))
		a.Advance(number(t, id))
		for state := ""; state != "FAILED"; {
			state = s.next("1").text("paidActionUpdated", "state")
		}
		told := a.news(payer)
		successor := a.Want(payer, action, vars{"id": id}).text("paidAction", "successorId")
		if successor != "" {
			if len(told) != 0 {
				t.Fatalf("told after attempt %d, which is followed by %s: %v", attempt, successor, told)
			}
			id = successor
			continue
		}
		if len(told) != 1 || told[0]["kind"] != "PAYMENT_FAILED" || told[0]["action"].(map[string]any)["id"] != id || attempt < 2 {
			t.Errorf("after the last attempt (%d): %v", attempt, told)
		}
		return
	}
}

// If the next attempt turns out to be impossible, the payer is told of the one before.
func TestAnAttemptThatCannotBePreparedIsTold(t *testing.T) {
	t.Parallel()
	a := serve(t)
	author, payer := a.Person("author", 100, 0), a.Person("payer", 0, 0)
	a.Wallets.Add(author.ID).Ask.Act = simnode.Refuses
	post := a.PostBy(author, "deleted meanwhile")
	r := a.Want(payer, `mutation($p: ID!) { zap(item: $p, sats: 100, paymentMethod: P2P) { id invoice { bolt11 } } }`, vars{"p": post})
	id := r.text("zap", "id")
	s := a.Socket(payer)
	s.Subscribe("1", follow, vars{"id": id})
	a.PayInvoice(r.text("zap", "invoice", "bolt11"))
	a.Advance(number(t, id))
	a.Run(a.Relay)
	for state := ""; state != "FAILED"; {
		state = s.next("1").text("paidActionUpdated", "state")
	}
	if _, err := a.Pool.Exec(a.Ctx, `UPDATE item SET deleted_at = $1`, a.Clock.Now()); err != nil {
		t.Fatal(err)
	}
	if told := a.news(payer); len(told) != 1 || told[0]["kind"] != "PAYMENT_FAILED" || told[0]["action"].(map[string]any)["id"] != id || told[0]["item"] != nil {
		t.Errorf("%v", told)
	}
}

// A failed withdrawal is told, but cannot be retried. An anonymous payer cannot be told of a failure.
func TestFailuresThatCannotBeTriedAgain(t *testing.T) {
	t.Parallel()
	a := serve(t)
	payer := a.Person("payer", 0, 100)
	inv := a.Network.AddReceiver("carol").Issue(simnode.Ask{Amount: 50_000, Act: simnode.Refuses})
	id := a.Want(payer, withdrawTo, vars{"to": inv.Bolt11, "fee": 10}).text("withdraw", "id")
	s := a.Socket(payer)
	s.Subscribe("1", follow, vars{"id": id})
	a.Run(a.Relay)
	for state := ""; state != "FAILED"; {
		if state = s.next("1").text("paidActionUpdated", "state"); state == "FAILED_FORWARD" {
			a.Drain()
		}
	}
	a.WantBalance(ledger.UserSats(payer.ID), 100_000)
	if told := a.news(payer); len(told) != 1 || told[0]["kind"] != "PAYMENT_FAILED" || told[0]["retryUntil"] != nil || told[0]["item"] != nil {
		t.Errorf("%v", told)
	}
	a.holdPost(nobody, "of nobody")
	a.Clock.Advance(10 * time.Minute)
	a.Drain()
	if n := a.Count(`SELECT count(*) FROM notification`); n != 1 {
		t.Errorf("%d notifications", n)
	}
}

// What was seen is no longer counted; what comes later is.
func TestNotificationsAreSeen(t *testing.T) {
	t.Parallel()
	a := serve(t)
	author, payer := a.Person("author", 100, 0), a.Person("payer", 1000, 0)
	post := a.PostBy(author, "often zapped")
	unseen := func() any {
		return a.Want(author, `{ me { unseenNotifications } }`, nil).at("me", "unseenNotifications")
	}
	zap := func() {
		a.Want(payer, `mutation($p: ID!) { zap(item: $p, sats: 1) { id } }`, vars{"p": post})
		a.Drain()
	}
	const seen = `mutation($n: ID!) { notificationsSeen(upTo: $n) { unseenNotifications } }`
	for range 3 {
		zap()
	}
	a.Want(author, `mutation($p: ID!) { zap(item: $p, sats: 1) { id } }`, vars{"p": a.PostBy(payer, "zapped once")})
	a.Drain()
	if got := unseen(); got != 3.0 {
		t.Errorf("%v are unseen of 3", got)
	}
	all := a.news(author)
	for _, step := range []struct { // in any order: nothing becomes unseen again
		upTo any
		left float64
	}{{all[1]["id"], 1}, {all[2]["id"], 1}, {"9223372036854775807", 0}} {
		if r := a.Want(author, seen, vars{"n": step.upTo}); r.at("notificationsSeen", "unseenNotifications") != step.left {
			t.Errorf("up to %v: %s, want %v left", step.upTo, r.Raw, step.left)
		}
	}
	if r := a.Want(payer, `{ me { unseenNotifications } }`, nil); r.at("me", "unseenNotifications") != 1.0 {
		t.Errorf("who has seen all of theirs has seen another's: %s", r.Raw)
	}
	zap()
	if got := unseen(); got != 1.0 {
		t.Errorf("%v are unseen after one more: those to come were seen before", got)
	}
	a.Want(payer, seen, vars{"n": all[0]["id"]})
	if got := unseen(); got != 1.0 {
		t.Errorf("somebody else has seen them: %v", got)
	}
	if r := a.Do(nobody, seen, vars{"n": fmt.Sprint(all[0]["id"])}); r.code() != "UNAUTHENTICATED" {
		t.Errorf("%s", r.Raw)
	}
	for range 100 {
		zap()
	}
	if got := unseen(); got != 100.0 {
		t.Errorf("%v are counted, want no more than 100", got)
	}
}

package graph_test

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/a-seed-a7aed72f/holdfast/ledger"
	"github.com/a-seed-a7aed72f/holdfast/lightning/simnode"
	"github.com/a-seed-a7aed72f/holdfast/paidaction"
)

const withdrawTo = `mutation($to: String!, $sats: Sats, $fee: Sats!, $key: String) {
	withdraw(to: $to, sats: $sats, maxFeeSats: $fee, idempotencyKey: $key) {
		id state paymentMethod costMsat invoice { bolt11 } result { msat maxFeeMsat } receipt { feeMsat } } }`

const followWithdrawal = `subscription($id: ID!) { paidActionUpdated(id: $id) {
	id state ... on WithdrawAction { receipt { bolt11 preimage feeMsat } } } }`

// A withdrawal leaves. Its state can be followed live, up to the proof that it was paid, and what routing did not cost
// comes back.
func TestWithdraw(t *testing.T) {
	t.Parallel()
	a := serve(t)
	payer := a.Person("payer", 0, 100)
	carol := a.Network.AddReceiver("carol")
	inv := carol.Issue(simnode.Ask{Amount: 50_000, Act: simnode.Holds})

	r := a.Want(payer, withdrawTo, vars{"to": inv.Bolt11, "fee": 10, "key": "once"})
	if r.text("withdraw", "state") != "FORWARDING" || r.text("withdraw", "costMsat") != "60000" || r.at("withdraw", "invoice") != nil ||
		r.text("withdraw", "result", "msat") != "50000" || r.text("withdraw", "result", "maxFeeMsat") != "10000" || r.at("withdraw", "receipt") != nil {
		t.Fatal(r.Raw)
	}
	v := vars{"id": r.text("withdraw", "id")}
	s := a.Socket(payer)
	s.Subscribe("1", followWithdrawal, v)
	s.WantState("1", "FORWARDING")
	if again := a.Want(payer, withdrawTo, vars{"to": inv.Bolt11, "fee": 10, "key": "once"}); again.text("withdraw", "id") != v["id"] {
		t.Errorf("the same key made another withdrawal: %s", again.Raw)
	}
	if twice := a.Do(payer, withdrawTo, vars{"to": inv.Bolt11, "fee": 10}); twice.code() != "DUPLICATE" {
		t.Errorf("%s", twice.Raw)
	}
	carol.Change(inv.Hash, simnode.Pays)
	a.Run(a.Relay)
	var told answer
	for state := ""; state != "PAID"; { // FORWARDED may pass too quickly to be told of
		told = s.next("1")
		if state = told.text("paidActionUpdated", "state"); state != "FORWARDED" && state != "PAID" {
			t.Fatalf("it is %q", state)
		}
	}
	s.WantComplete("1")
	if told.text("paidActionUpdated", "receipt", "bolt11") != inv.Bolt11 || told.text("paidActionUpdated", "receipt", "preimage") != fmt.Sprintf("%x", inv.Preimage[:]) ||
		told.text("paidActionUpdated", "receipt", "feeMsat") != "1000" {
		t.Error(told.Raw)
	}
	if _, err := a.Pool.Exec(t.Context(), `UPDATE relay_payment SET bolt11 = ''`); err != nil { // as the payer's preferences may have it
		t.Fatal(err)
	}
	r = a.Want(payer, `query($id: ID!) { paidAction(id: $id) { ... on WithdrawAction { receipt { bolt11 preimage feeMsat } } } }`, v)
	if r.at("paidAction", "receipt", "bolt11") != nil || r.text("paidAction", "receipt", "preimage") == "" {
		t.Error(r.Raw)
	}
	a.WantBalance(ledger.UserSats(payer.ID), 49_000)
	// Its cost stays what was set aside; the history has what came back of it.
	r = a.Want(payer, `query { me { history(first: 2) { nodes { action { costMsat } received { msat reason kind } } } } }`, nil)
	if lines := fmt.Sprint(r.at("me", "history", "nodes")); !strings.Contains(lines, "costMsat:60000") || !strings.Contains(lines, "kind:WITHDRAW msat:9000") {
		t.Error(lines)
	}
	if got := carol.Receipt(inv.Hash); got.Received != 50_000 || got.Payments != 1 {
		t.Errorf("%+v", got)
	}
}

// Withdrawals that are not possible are refused, each with its code, and nothing is taken.
func TestWithdrawRefused(t *testing.T) {
	t.Parallel()
	a := serve(t)
	payer := a.Person("payer", 100, 100)
	carol := a.Network.AddReceiver("carol")
	for name, c := range map[string]struct {
		v    vars
		code string
	}{
		"no payee":            {vars{"to": "", "fee": 1}, "INVALID_INPUT"},
		"no invoice":          {vars{"to": "lnbc1nothing", "fee": 1}, "INVALID_INPUT"},
		"no amount":           {vars{"to": carol.Issue(simnode.Ask{}).Bolt11, "fee": 1}, "INVALID_AMOUNT"},
		"another amount":      {vars{"to": carol.Issue(simnode.Ask{Amount: 5_000}).Bolt11, "sats": 6, "fee": 1}, "INVALID_AMOUNT"},
		"negative fee":        {vars{"to": carol.Issue(simnode.Ask{Amount: 5_000}).Bolt11, "fee": -1}, "INVALID_AMOUNT"},
		"too much":            {vars{"to": carol.Issue(simnode.Ask{Amount: 2_000_000_000}).Bolt11, "fee": 1}, "INVALID_AMOUNT"},
		"more than there is":  {vars{"to": carol.Issue(simnode.Ask{Amount: 100_000}).Bolt11, "fee": 1}, "INSUFFICIENT_FUNDS"},
		"an unknown address":  {vars{"to": "nobody@example.org", "sats": 1, "fee": 1}, "INVALID_INPUT"},
		"address, no amount":  {vars{"to": "nobody@example.org", "fee": 1}, "INVALID_AMOUNT"},
		"an overflowing sum":  {vars{"to": carol.Issue(simnode.Ask{Amount: 5_000}).Bolt11, "fee": 9_223_372_036_854_775}, "INVALID_AMOUNT"},
		"spaces":              {vars{"to": " " + carol.Issue(simnode.Ask{Amount: 5_000}).Bolt11, "fee": 1}, "INVALID_INPUT"},
		"zero sats":           {vars{"to": carol.Issue(simnode.Ask{Amount: 5_000}).Bolt11, "sats": 0, "fee": 1}, "INVALID_AMOUNT"},
		"sats below zero":     {vars{"to": carol.Issue(simnode.Ask{Amount: 5_000}).Bolt11, "sats": -5, "fee": 1}, "INVALID_AMOUNT"},
		"an amount too large": {vars{"to": "nobody@example.org", "sats": 9_223_372_036_854_775, "fee": 1}, "INVALID_AMOUNT"},
	} {
		if r := a.Do(payer, withdrawTo, c.v); r.code() != c.code {
			t.Errorf("%s: %s", name, r.Raw)
		}
	}
	// Credits are no help, and there is no invoice to pay: nobody is sent there.
	r := a.Do(payer, withdrawTo, vars{"to": carol.Issue(simnode.Ask{Amount: 100_000}).Bolt11, "fee": 1})
	if said := r.Errors[0].Message; said != "Your sats do not cover this and the most that routing may cost." {
		t.Errorf("more than there is: %s", said)
	}
	if r := a.Do(nobody, withdrawTo, vars{"to": carol.Issue(simnode.Ask{Amount: 5_000}).Bolt11, "fee": 1}); r.code() != "UNAUTHENTICATED" {
		t.Errorf("%s", r.Raw)
	}
	for _, method := range []string{"ZERO_COST", "REWARD_SATS", "FEE_CREDIT", "P2P", "OPTIMISTIC", "PESSIMISTIC"} {
		if r := a.Do(payer, `mutation($to: String!, $m: PaymentMethod) { withdraw(to: $to, maxFeeSats: 1, paymentMethod: $m) { id } }`,
			vars{"to": carol.Issue(simnode.Ask{Amount: 5_000}).Bolt11, "m": method}); r.code() != "METHOD_UNAVAILABLE" {
			t.Errorf("by %s: %s", method, r.Raw)
		}
	}
	a.WantBalance(ledger.UserSats(payer.ID), 100_000)
	if n := a.Count(`SELECT count(*) FROM relay_payment`); n != 0 {
		t.Errorf("%d payments would leave", n)
	}
}

// Whoever follows a payment whose receiver could not be paid learns of the next attempt, or that there will be none.
func TestSubscriptionNamesTheNextAttempt(t *testing.T) {
	t.Parallel()
	a := serve(t)
	author, payer := a.Person("author", 100, 0), a.Person("payer", 0, 0)
	w := a.Wallets.Add(author.ID)
	w.Ask.Act = simnode.Refuses
	a.Run(a.Relay)
	s := a.Socket(payer)
	failed := func(item string) vars {
		r := a.Want(payer, `mutation($i: ID!) { zap(item: $i, sats: 100, paymentMethod: P2P) { id state invoice { bolt11 } } }`, vars{"i": item})
		v := vars{"id": r.text("zap", "id")}
		s.Subscribe(item, follow, v)
		s.WantState(item, "PENDING_HELD")
		a.PayInvoice(r.text("zap", "invoice", "bolt11"))
		a.Advance(number(t, r.text("zap", "id")))
		for state := ""; state != "FAILED"; {
			state = s.next(item).text("paidActionUpdated", "state")
		}
		return v
	}
	item, deleted := a.PostBy(author, "a post"), a.PostBy(author, "a post that is deleted")
	v := failed(item)
	a.Drain()
	s.WantState(item, "RETRYING")
	s.WantComplete(item)
	again := a.Want(payer, `query($id: ID!) { paidAction(id: $id) { successorId } }`, v).text("paidAction", "successorId")
	next := a.Want(payer, `query($id: ID!) { paidAction(id: $id) { state attempt invoice { bolt11 } } }`, vars{"id": again})
	if next.text("paidAction", "state") != "PENDING_HELD" || next.text("paidAction", "invoice", "bolt11") == "" {
		t.Errorf("%s", next.Raw)
	}

	v = failed(deleted)
	if _, err := a.Pool.Exec(a.Ctx, `UPDATE item SET deleted_at = created_at WHERE id = $1`, number(t, deleted)); err != nil {
		t.Fatal(err)
	}
	a.Drain()
	s.WantComplete(deleted)
	s.Subscribe("later", follow, v)
	s.WantState("later", "FAILED")
	s.WantComplete("later")

	away := a.PostBy(author, "a post while no node can be asked")
	failed(away)
	a.Clock.Advance(time.Hour) // no further attempt is expected then
	a.Drain()
	s.WantComplete(away)
}

// Whoever cancels a payment whose receiver could not be paid waits for no next attempt, and none is made: it is theirs to
// ask for.
func TestCancelInvoiceSaysNoToTheNextAttempt(t *testing.T) {
	t.Parallel()
	a := serve(t)
	author, payer := a.Person("author", 100, 0), a.Person("payer", 0, 0)
	a.Wallets.Add(author.ID).Ask.Act = simnode.Refuses
	r := a.Want(payer, `mutation($i: ID!) { zap(item: $i, sats: 100) { id invoice { bolt11 } } }`, vars{"i": a.PostBy(author, "a post")})
	v := vars{"id": r.text("zap", "id")}
	id := number(t, r.text("zap", "id"))
	s := a.Socket(payer)
	s.Subscribe("1", follow, v)
	s.WantState("1", "PENDING_HELD")
	a.Run(a.Relay)
	a.PayInvoice(r.text("zap", "invoice", "bolt11"))
	a.Advance(id)
	for state := ""; state != "FAILED"; {
		state = s.next("1").text("paidActionUpdated", "state")
	}
	a.Fund(payer.ID, 1_000_000, 0)
	const cancel = `mutation($id: ID!) { cancelInvoice(id: $id) { state successorId deadline failure { code } } }`
	r = a.Want(payer, cancel, v)
	if r.text("cancelInvoice", "state") != "FAILED" || r.text("cancelInvoice", "failure", "code") != "PAYMENT_FAILED" ||
		r.at("cancelInvoice", "successorId") != nil || r.at("cancelInvoice", "deadline") == nil {
		t.Errorf("%s", r.Raw)
	}
	s.WantComplete("1")
	a.Drain()
	a.WantState(id, paidaction.Failed)
	a.WantBalance(ledger.UserCredits(payer.ID), 1_000_000)
	if r := a.Want(payer, `mutation($id: ID!) { retryPaidAction(id: $id) { state } }`, v); r.text("retryPaidAction", "state") != "PAID" {
		t.Errorf("%s", r.Raw)
	}
	if r := a.Do(payer, cancel, v); r.code() != "NOT_CANCELABLE" {
		t.Errorf("%s", r.Raw)
	}
}

// A payment to users goes to their own wallet if they have one, otherwise to their sats.
func TestReceive(t *testing.T) {
	t.Parallel()
	a := serve(t)
	bob := a.Person("bob", 0, 0)
	const send = `mutation($u: ID!, $m: Msat!) { receive(user: $u, msat: $m, comment: "for you") { id state paymentMethod secret invoice { bolt11 } } }`
	r := a.Want(nobody, send, vars{"u": bob.ID, "m": "100000"})
	a.PayInvoice(r.text("receive", "invoice", "bolt11"))
	a.Drain()
	a.Advance(number(t, r.text("receive", "id")))
	a.Drain()
	a.WantBalance(ledger.UserSats(bob.ID), 90_000)

	a.Wallets.Add(bob.ID)
	r = a.Want(nobody, send, vars{"u": bob.ID, "m": "100000"})
	if r.text("receive", "paymentMethod") != "P2P" {
		t.Errorf("%s", r.Raw)
	}
	for m, code := range map[string]string{"0": "INVALID_AMOUNT", "-1000": "INVALID_AMOUNT", "1500": "INVALID_AMOUNT"} {
		if r := a.Do(nobody, send, vars{"u": bob.ID, "m": m}); r.code() != code {
			t.Errorf("%s: %s", m, r.Raw)
		}
	}
	for m, why := range map[string]string{"2100000000000001000": "larger than all the bitcoin", "9223372036854775808000": "larger than all the bitcoin", "1e3": "digits only"} {
		if r := a.Do(nobody, send, vars{"u": bob.ID, "m": m}); r.code() != "INVALID_AMOUNT" || !strings.Contains(r.Raw, why) {
			t.Errorf("%s: %s", m, r.Raw)
		}
	}
	if r := a.Do(nobody, send, vars{"u": 99999, "m": "1000"}); r.code() != "NOT_FOUND" {
		t.Errorf("%s", r.Raw)
	}
}

package graph_test

import (
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/a-seed-a7aed72f/holdfast/graph"
	"github.com/a-seed-a7aed72f/holdfast/internal/db"
	"github.com/a-seed-a7aed72f/holdfast/ledger"
	"github.com/a-seed-a7aed72f/holdfast/lightning/simnode"
	"github.com/a-seed-a7aed72f/holdfast/paidaction"
)

// Whoever saves a wallet with a stolen key decides how long its test takes. What was asked for before the key was revoked is not stored
// after it: by then the owner has looked through the wallets.
func TestAWalletIsNotSavedAfterItsKeyWasRevoked(t *testing.T) {
	t.Parallel()
	for _, replaces := range []bool{false, true} {
		a := serve(t)
		owner := a.Person("owner", 0, 0)
		real := newLNbits(t)
		saved := any(nil)
		if replaces {
			saved = a.saveWallet(owner, real.URL, "the owner's")
		}
		slow := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			a.revoke(owner)
			real.Config.Handler.ServeHTTP(w, r)
		}))
		t.Cleanup(slow.Close)
		if r := a.Do(owner, walletSave, vars{"id": saved, "url": slow.URL, "label": "the thief's"}); r.code() != "UNAUTHENTICATED" {
			t.Errorf("%s", r.Raw)
		}
		if n := a.Count(`SELECT count(*) FROM receiver_wallet WHERE label = 'the thief''s'`); n != 0 {
			t.Error("the thief's wallet was stored")
		}
	}
}

// Whoever withdraws to an address of their own decides how long its server takes. What was asked for before the key was
// revoked does not leave after it.
func TestNothingIsWithdrawnAfterItsKeyWasRevoked(t *testing.T) {
	t.Parallel()
	a := serve(t)
	owner, thief := a.Person("owner", 0, 1000), a.Person("thief", 0, 0)
	slow := a.Wallets.Add(thief.ID)
	v := vars{"to": fmt.Sprintf("%d@example.org", thief.ID), "sats": 400, "fee": 10}
	if r := a.Want(owner, withdrawTo, v); r.text("withdraw", "state") != "FORWARDING" {
		t.Errorf("the key was good: %s", r.Raw)
	}
	slow.Before = func() { a.revoke(owner) }
	if r := a.Do(owner, withdrawTo, v); r.code() != "UNAUTHENTICATED" {
		t.Errorf("%s", r.Raw)
	}
	a.WantBalance(ledger.UserSats(owner.ID), 590_000)
	if n := a.Count(`SELECT count(*) FROM paid_action`); n != 1 {
		t.Errorf("there are %d actions", n)
	}
}

// Of several mutations in a request the first can wait for a stranger's server. Those behind it need a key that is still
// good.
func TestLaterMutationsOfARequestAreRefusedOnceTheKeyIsRevoked(t *testing.T) {
	t.Parallel()
	a := serve(t)
	owner, thief := a.Person("owner", 1000, 1000), a.Person("thief", 0, 0)
	a.Wallets.Add(thief.ID).Before = func() { a.revoke(owner) }
	r := a.Do(owner, `mutation($to: String!) { withdraw(to: $to, sats: 400, maxFeeSats: 10) { id }
		one: donate(sats: 300) { id } two: donate(sats: 300) { id } }`, vars{"to": fmt.Sprintf("%d@example.org", thief.ID)})
	if len(r.Errors) != 3 || r.Data == nil {
		t.Fatalf("%s", r.Raw)
	}
	for i, path := range []string{"withdraw", "one", "two"} {
		if e := r.Errors[i]; e.Extensions.Code != "UNAUTHENTICATED" || len(e.Path) != 1 || e.Path[0] != path || r.at(path) != nil {
			t.Errorf("%s: %s", path, r.Raw)
		}
	}
	if n := a.Count(`SELECT count(*) FROM paid_action`); n != 0 {
		t.Errorf("%d actions were begun", n)
	}
	other := a.Person("other", 0, 0)
	if r := a.Do(other, `mutation { signOut { id } createInvite(giftCredits: 1, limit: 1) { code } }`, nil); r.code() != "UNAUTHENTICATED" || r.Data != nil {
		t.Errorf("what cannot be null is not null: %s", r.Raw)
	}
}

// What was asked for before the key was revoked does not exist after it: by then the owner has looked through the invites
// and the webhooks, and through what the key could have set. Whoever has an invite's code takes credits, whoever has a
// webhook's secret goes on hearing of everything, and an item's zaps go to whom it is forwarded to.
func TestNothingIsMadeAfterItsKeyWasRevoked(t *testing.T) {
	t.Parallel()
	a := serve(t)
	owner, thief := a.Person("owner", 1_000_000, 0), a.Person("thief", 0, 0)
	url := newLNbits(t).URL
	one, two := a.saveWallet(owner, url, "one"), a.saveWallet(owner, url, "two")
	hook := a.Want(owner, `mutation { webhookCreate(url: "https://owner.example") { webhook { id } } }`, nil).text("webhookCreate", "webhook", "id")
	a.Want(owner, `mutation { setPreferences(dropInvoicesAfterDays: 9) { dropInvoicesAfterDays } }`, nil)
	item := a.Want(owner, `mutation { createPost(title: "mine") { result { item { id } } } }`, nil).text("createPost", "result", "item", "id")
	a.Want(owner, `mutation { territoryCreate(name: "mine", baseCostSats: 1, replyCostSats: 1, billing: MONTHLY) { id } }`, nil)
	forwards := fmt.Sprintf(`forwards: [{user: %d, pct: 90}]`, thief.ID)
	for _, c := range []struct{ holds, mutation string }{
		{`usr`, `createInvite(giftCredits: 100, limit: 10) { code }`},
		{`usr`, `webhookCreate(url: "https://thief.example") { secret }`},
		{`webhook`, `webhookEnable(id: ` + hook + `, enabled: false) { id }`},
		{`webhook`, `webhookRemove(id: ` + hook + `) { id }`},
		{`receiver_wallet`, `walletsReorder(ids: [` + two + `, ` + one + `]) { id }`},
		{`receiver_wallet`, `walletEnable(id: ` + one + `, enabled: false) { id }`},
		{`receiver_wallet`, `walletRemove(id: ` + one + `) { id }`},
		{`user_preference`, `setPreferences(dropInvoicesAfterDays: 1) { dropInvoicesAfterDays }`},
		{`item`, `updateItem(item: ` + item + `, ` + forwards + `) { id }`},
		{`item`, `updateItem(item: ` + item + `, ` + forwards + `, boost: 10000) { id }`}, // from the balance
		{`territory`, `territoryUpdate(name: "mine", autoRenew: true) { id }`},
	} {
		stolen := a.key("owner", graph.Scopes...)
		tx, err := a.Pool.Begin(a.Ctx)
		if err != nil {
			t.Fatal(err)
		}
		if _, err := tx.Exec(a.Ctx, `SELECT FROM `+c.holds+` FOR NO KEY UPDATE`); err != nil {
			t.Fatal(err)
		}
		answers := make(chan answer)
		go func() { answers <- a.Do(stolen, "mutation { "+c.mutation+" }", nil) }()
		a.AwaitBlocked(1)
		a.revoke(stolen)
		before := a.fingerprint()
		if err := tx.Commit(a.Ctx); err != nil {
			t.Fatal(err)
		}
		if r := <-answers; r.code() != "UNAUTHENTICATED" || strings.Contains(r.Raw, "whsec_") {
			t.Errorf("%s: %s", c.mutation, r.Raw)
		}
		if a.fingerprint() != before {
			t.Errorf("%s changed something", c.mutation)
		}
	}
}

// A secret that was asked for before the key was revoked is not given out after it: the owner's server would not know it.
func TestNoSecretIsReplacedAfterItsKeyWasRevoked(t *testing.T) {
	t.Parallel()
	a := serve(t)
	owner := a.Person("owner", 0, 0)
	id := a.Want(owner, `mutation { webhookCreate(url: "https://owner.example") { webhook { id } } }`, nil).text("webhookCreate", "webhook", "id")
	tx, err := a.Pool.Begin(a.Ctx)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := db.New(tx).LockWebhook(a.Ctx, number(t, id)); err != nil {
		t.Fatal(err)
	}
	answers := make(chan answer)
	go func() {
		answers <- a.Do(owner, `mutation($i: ID!) { webhookRotate(id: $i) { secret } }`, vars{"i": id})
	}()
	a.AwaitBlocked(1)
	a.revoke(owner)
	if err := tx.Commit(a.Ctx); err != nil {
		t.Fatal(err)
	}
	if r := <-answers; r.code() != "UNAUTHENTICATED" || strings.Contains(r.Raw, "whsec_") {
		t.Errorf("%s", r.Raw)
	}
	if n := a.Count(`SELECT count(*) FROM webhook WHERE previous_until IS NOT NULL`); n != 0 {
		t.Error("it was replaced")
	}
}

// A zap that was begun with a stolen key fails when the thief, who is its receiver, wants it to. What failed before the key
// was revoked, and what fails after it, is paid from nobody's balance: not even where it would suffice by now.
func TestNothingIsTriedAgainFromTheBalanceAfterAKeyWasRevoked(t *testing.T) {
	t.Parallel()
	a := serve(t)
	owner, thief, other := a.Person("owner", 0, 0), a.Person("thief", 10, 0), a.Person("other", 0, 0)
	item := a.PostBy(thief, "mine")
	a.Wallets.Add(thief.ID).Ask.Act = simnode.Refuses
	a.Run(a.Relay)
	begin := func(as person) paidaction.PaidAction {
		a.Helper()
		r := a.Want(as, `mutation($i: ID!) { zap(item: $i, sats: 500) { id paymentMethod } }`, vars{"i": item})
		if r.text("zap", "paymentMethod") != "P2P" {
			a.Fatalf("%s", r.Raw)
		}
		return *a.Look(number(t, r.text("zap", "id")))
	}
	fail := func(pa paidaction.PaidAction) {
		a.Helper()
		woken := a.Feed.Subscribe(a.Ctx, pa.ID)
		a.PayInvoice(pa.Invoice.Bolt11)
		if _, err := a.Engine.Drive(a.Ctx, pa.ID); err != nil {
			t.Fatal(err)
		}
		for a.Look(pa.ID).State != paidaction.Failed {
			select {
			case <-woken:
			case <-time.After(20 * time.Second):
				t.Fatalf("it is %s", a.Look(pa.ID).State)
			}
		}
	}
	before, after, others := begin(owner), begin(owner), begin(other)
	fail(before)
	if found, err := graph.RevokeKey(a.Ctx, a.Pool, owner.Key, a.Clock.Now()); err != nil || !found {
		t.Fatalf("%t, %v", found, err)
	}
	a.Fund(owner.ID, 5_000_000, 5_000_000)
	a.Fund(other.ID, 0, 5_000_000)
	fail(after)
	fail(others)
	a.Drain()
	a.WantState(before.ID, paidaction.Failed)
	a.WantState(after.ID, paidaction.Failed)
	a.WantBalance(ledger.UserCredits(owner.ID), 5_000_000)
	a.WantBalance(ledger.UserSats(owner.ID), 5_000_000)
	if n := a.Count(`SELECT count(*) FROM notification WHERE user_id = $1 AND kind = 'PAYMENT_FAILED'`, owner.ID); n != 2 {
		t.Errorf("the owner was told %d times", n)
	}
	if next := a.Look(*a.WantState(others.ID, paidaction.Retrying).Successor); next.State != paidaction.Paid {
		t.Errorf("whose key is good has their zap %s", next.State)
	}
}

// Signing out revokes the key as an operator does: what was begun with it is not paid from the balance in a next attempt.
func TestNothingIsTriedAgainFromTheBalanceAfterSigningOut(t *testing.T) {
	t.Parallel()
	a := serve(t)
	owner, thief := a.Person("owner", 0, 0), a.Person("thief", 10, 0)
	item := a.PostBy(thief, "mine")
	a.Wallets.Add(thief.ID).Ask.Act = simnode.Refuses
	a.Run(a.Relay)
	zap := a.Look(number(t, a.Want(owner, `mutation($i: ID!) { zap(item: $i, sats: 500) { id } }`, vars{"i": item}).text("zap", "id")))
	if zap.Method != paidaction.P2P {
		t.Fatal(zap.Method)
	}
	a.Want(owner, `mutation { signOut { id } }`, nil)
	a.Fund(owner.ID, 5_000_000, 5_000_000)
	woken := a.Feed.Subscribe(a.Ctx, zap.ID)
	a.PayInvoice(zap.Invoice.Bolt11)
	if _, err := a.Engine.Drive(a.Ctx, zap.ID); err != nil {
		t.Fatal(err)
	}
	for s := a.Look(zap.ID).State; s != paidaction.Failed && s != paidaction.Retrying; s = a.Look(zap.ID).State {
		select {
		case <-woken:
		case <-time.After(20 * time.Second):
			t.Fatalf("it is %s", s)
		}
	}
	a.Drain()
	a.WantState(zap.ID, paidaction.Failed)
	a.WantBalance(ledger.UserCredits(owner.ID), 5_000_000)
	a.WantBalance(ledger.UserSats(owner.ID), 5_000_000)
}

// The thief's wallet decides how long a zap to the thief waits for its invoice. One that would begin only after the key
// was revoked is not begun: once the thief lets it fail it would be paid from the balance.
func TestNoZapIsBegunThatCouldBeTriedAgainAfterItsKeyWasRevoked(t *testing.T) {
	t.Parallel()
	const zap = `mutation($i: ID!, $m: PaymentMethod) { zap(item: $i, sats: 500, paymentMethod: $m) { id paymentMethod } }`
	for _, again := range []bool{false, true} {
		a := serve(t)
		owner, thief := a.Person("owner", 0, 0), a.Person("thief", 10, 0)
		ask, v := zap, vars{"i": a.PostBy(thief, "mine")}
		if again {
			v["m"] = "OPTIMISTIC"
			failed := a.Want(owner, zap, v).text("zap", "id")
			a.Want(owner, `mutation($id: ID!) { cancelInvoice(id: $id) { id } }`, vars{"id": failed})
			ask, v = `mutation($id: ID!) { zap: retryPaidAction(id: $id) { id paymentMethod } }`, vars{"id": failed}
		}
		begun := a.Count(`SELECT count(*) FROM paid_action`)
		wallet := a.Wallets.Add(thief.ID)
		wallet.Before = func() {
			if found, err := graph.RevokeKey(a.Ctx, a.Pool, owner.Key, a.Clock.Now()); err != nil || !found {
				t.Errorf("%t, %v", found, err)
			}
		}
		if r := a.Do(owner, ask, v); r.code() != "UNAUTHENTICATED" {
			t.Errorf("again %t: %s", again, r.Raw)
		}
		if n := a.Count(`SELECT count(*) FROM paid_action`); n != begun {
			t.Errorf("again %t: %d zaps were begun", again, n-begun)
		}
	}
}

// A key that expires while its request waits for a wallet spends nothing: it is good until its end, not at it.
func TestNothingIsBegunWithAKeyThatExpiredMeanwhile(t *testing.T) {
	t.Parallel()
	a := serve(t)
	owner, thief := a.Person("owner", 0, 0), a.Person("thief", 10, 0)
	post := a.PostBy(thief, "mine")
	if _, err := a.Pool.Exec(a.Ctx, `UPDATE api_key SET expires_at = $1 WHERE key_hash = $2`, a.Clock.Now().Add(time.Minute), graph.HashKey(owner.Key)); err != nil {
		t.Fatal(err)
	}
	begun := a.Count(`SELECT count(*) FROM paid_action`)
	wallet := a.Wallets.Add(thief.ID)
	wallet.Before = func() { a.Clock.Advance(time.Minute) }
	if r := a.Do(owner, `mutation($i: ID!) { zap(item: $i, sats: 500) { id } }`, vars{"i": post}); r.code() != "UNAUTHENTICATED" {
		t.Errorf("%s", r.Raw)
	}
	if n := a.Count(`SELECT count(*) FROM paid_action`); n != begun {
		t.Errorf("%d zaps were begun", n-begun)
	}
}

// Whoever revokes a key is told so only once nothing is being written with it any more.
func TestAKeyIsRevokedOnceNothingIsWrittenWithIt(t *testing.T) {
	t.Parallel()
	a := serve(t)
	owner := a.Person("owner", 0, 0)
	tx, err := a.Pool.Begin(a.Ctx)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := db.New(tx).HoldKey(a.Ctx, graph.HashKey(owner.Key)); err != nil {
		t.Fatal(err)
	}
	revoked := make(chan struct{})
	go func() { a.revoke(owner); close(revoked) }()
	a.AwaitBlocked(1)
	if err := tx.Commit(a.Ctx); err != nil {
		t.Fatal(err)
	}
	<-revoked
	if _, err := db.New(a.Pool).HoldKey(a.Ctx, graph.HashKey(owner.Key)); !errors.Is(err, pgx.ErrNoRows) {
		t.Errorf("it is good: %v", err)
	}
}

// Whoever revokes a key waits for what is being tried again. That waits for its payer, whom somebody holds who is about
// to ask for that key. With the key in hand none of them would go on, and the key would stay good.
func TestWhoeverRevokesAKeyHoldsUpNobodyWhomTheyWaitFor(t *testing.T) {
	t.Parallel()
	a := serve(t)
	owner, receiver := a.Person("owner", 0, 0), a.Person("receiver", 10, 0)
	item := a.PostBy(receiver, "a post")
	a.Wallets.Add(receiver.ID)
	zap := number(t, a.Want(owner, `mutation($i: ID!) { zap(item: $i, sats: 500) { id } }`, vars{"i": item}).text("zap", "id"))
	begin := func() (pgx.Tx, *db.Queries) {
		tx, err := a.Pool.Begin(a.Ctx)
		if err != nil {
			t.Fatal(err)
		}
		return tx, db.New(tx)
	}
	again, tries := begin()
	if _, err := tries.LockAction(a.Ctx, zap); err != nil {
		t.Fatal(err)
	}
	begun, begins := begin()
	if _, err := begins.LockUser(a.Ctx, owner.ID); err != nil {
		t.Fatal(err)
	}
	done := make(chan error, 2)
	go func() {
		_, err := graph.RevokeKey(a.Ctx, a.Pool, owner.Key, a.Clock.Now())
		done <- err
	}()
	a.AwaitBlocked(1)
	go func() {
		_, err := tries.LockUser(a.Ctx, owner.ID)
		done <- errors.Join(err, again.Commit(a.Ctx))
	}()
	a.AwaitBlocked(2)
	if _, err := begins.HoldKey(a.Ctx, graph.HashKey(owner.Key)); !errors.Is(err, pgx.ErrNoRows) {
		t.Errorf("it is held: %v", err)
	}
	if err := errors.Join(begun.Rollback(a.Ctx), <-done, <-done); err != nil {
		t.Error(err)
	}
}

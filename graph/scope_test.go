package graph_test

import (
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/a-seed-a7aed72f/holdfast/graph"
	"github.com/a-seed-a7aed72f/holdfast/lightning/simnode"
)

// Everything that costs money works alike. A new action takes the same terms as all others and needs a scope, and if it
// is refused, the other answers of its request remain.
func TestWhatCostsMoneyIsAskedForAlike(t *testing.T) {
	t.Parallel()
	for _, f := range parsedSchema(t).Mutation.Fields {
		if f.Directives.ForName("pays") == nil {
			continue
		}
		for name, kind := range map[string]string{"idempotencyKey": "String", "paymentMethod": "PaymentMethod", "maxCostSats": "Sats"} {
			if a := f.Arguments.ForName(name); a == nil || a.Type.String() != kind {
				t.Errorf("%s has no %s: %s", f.Name, name, kind)
			}
		}
		if f.Type.NonNull {
			t.Errorf("%s cannot be null: refused, it takes the answers beside it along", f.Name)
		}
		if f.Directives.ForName("needs") == nil {
			t.Errorf("%s can be asked for by every key: @needs", f.Name)
		}
	}
}

// A request is refused as a whole if one of its fields needs a scope that its key lacks, wherever the field is, and on
// any connection.
func TestScopesAreAskedForFirst(t *testing.T) {
	t.Parallel()
	a := serve(t)
	a.Person("owner", 1000, 1000)
	spends := a.key("owner", graph.ScopeSpend)
	before := a.fingerprint()
	for name, query := range map[string]string{
		"after what it may":        `mutation { donate(sats: 1) { id } withdraw(to: "x", maxFeeSats: 1) { id } }`,
		"in a fragment":            `mutation { donate(sats: 1) { id } ...F } fragment F on Mutation { ... on Mutation { createInvite(giftCredits: 1, limit: 1) { code } } }`,
		"under another name":       `mutation { donate(sats: 1) { id } zap: setPreferences { dropInvoicesAfterDays } }`,
		"left out by a directive":  `mutation { donate(sats: 1) { id } withdraw(to: "x", maxFeeSats: 1) @skip(if: true) { id } }`,
		"a query":                  `{ me { creditsMsat } }`,
		"a query of what all read": `{ items { nodes { id } } }`,
	} {
		if r := a.Do(spends, query, nil); r.code() != "FORBIDDEN" || a.fingerprint() != before {
			t.Errorf("%s: %s", name, r.Raw)
		}
		s := a.Socket(spends)
		s.Subscribe("1", query, nil)
		if r := s.next("1"); r.code() != "FORBIDDEN" || a.fingerprint() != before {
			t.Errorf("%s, on a websocket: %s", name, r.Raw)
		}
	}
	if f := a.File("POST", "/uploads", a.key("owner", graph.ScopeRead), strings.NewReader(png), "Content-Type", "image/png"); f.Status != http.StatusForbidden ||
		a.Count(`SELECT count(*) FROM upload`) != 0 {
		t.Errorf("uploaded with a key that may not spend: %d %s", f.Status, f.Body)
	}
	if r := a.Do(spends, `mutation { donate(sats: 1) { state } }`, nil); r.text("donate", "state") != "PAID" {
		t.Errorf("what the key is good for: %s", r.Raw)
	}
}

// Without READ a key sees what it has just done, and otherwise only what everybody sees: answers do not get around the
// scope.
func TestWithoutReadNothingOfOnesOwnIsSeen(t *testing.T) {
	t.Parallel()
	a := serve(t)
	owner := a.Person("owner", 1000, 0)
	spends := a.key("owner", graph.ScopeSpend)
	a.Want(owner, `mutation { createPost(title: "unpaid", paymentMethod: OPTIMISTIC) { id } }`, nil)
	own, file := a.PostBy(owner, "paid"), a.Upload(owner, png)
	look := `mutation { createComment(parent: "` + own + `", body: "x") { state result { item { parent { payment { id } author { items { nodes { title } } } } } } } }`
	if r := a.Want(owner, strings.Replace(look, `"x"`, `"y"`, 1), nil); !strings.Contains(r.Raw, "unpaid") || !strings.Contains(r.Raw, `"payment":{"id"`) {
		t.Fatalf("the owner does not see their own: %s", r.Raw)
	}
	if r := a.Want(spends, look, nil); !strings.Contains(r.Raw, `"paid"`) || strings.Contains(r.Raw, "unpaid") || strings.Contains(r.Raw, `"payment":{"id"`) {
		t.Errorf("a key that may only spend reads: %s", r.Raw)
	}
	if r := a.Want(spends, `mutation { createPost(title: "again", paymentMethod: OPTIMISTIC) { invoice { bolt11 } result { item { title } } } }`, nil); r.text("createPost", "invoice", "bolt11") == "" ||
		r.at("createPost", "result", "item") != nil {
		t.Errorf("what it just did: %s", r.Raw)
	}
	if f := a.File("GET", file.URL, spends, nil); f.Status != http.StatusNotFound {
		t.Errorf("a key that may only spend gets an unpaid file: %d", f.Status)
	}
	if f := a.File("GET", file.URL, owner, nil); f.Status != http.StatusOK {
		t.Errorf("the owner does not get their own file: %d", f.Status)
	}
	a.Want(owner, `mutation { territoryCreate(name: "mine", baseCostSats: 1, replyCostSats: 1, billing: MONTHLY) { id } }`, nil)
	if r := a.Do(spends, `mutation { territoryUpdate(name: "mine", description: "x") { result { territory { description billing } } } }`, nil); r.at("territoryUpdate", "result", "territory", "billing") != nil {
		t.Errorf("how it is billed: %s", r.Raw)
	}
}

// What changes wallets and webhooks answers with them, but their logs and messages say what has happened to the owner's
// money: these need READ.
func TestLogsAreForKeysThatMayRead(t *testing.T) {
	t.Parallel()
	a := serve(t)
	owner := a.Person("owner", 10, 0)
	wallet := a.saveWallet(owner, newLNbits(t).URL, "the owner's")
	hook := a.Want(owner, `mutation { webhookCreate(url: "https://owner.example") { webhook { id } } }`, nil).text("webhookCreate", "webhook", "id")
	a.Want(owner, `mutation { donate(sats: 1) { id } }`, nil)
	a.exec(`UPDATE webhook_message SET next_at = NULL, ended_at = created_at, delivered = true`)
	told := a.Want(owner, `{ webhooks { messages { nodes { id } } } }`, nil).at("webhooks").([]any)[0].(map[string]any)
	message := told["messages"].(map[string]any)["nodes"].([]any)[0].(map[string]any)["id"].(string)
	sets, both := a.key("owner", graph.ScopeSettings), a.key("owner", graph.ScopeSettings, graph.ScopeRead)
	for query, id := range map[string]string{
		`mutation($id: ID!) { walletsReorder(ids: [$id]) { id log { nodes { message } } } }`:              wallet,
		`mutation($id: ID!) { webhookEnable(id: $id, enabled: true) { id messages { nodes { type } } } }`: hook,
		`mutation($id: ID!) { webhookRedeliver(message: $id) { type } }`:                                  message,
		`mutation($id: ID!) { webhookTest(id: $id) { attempts { status } } }`:                             hook,
	} {
		if r := a.Do(sets, query, vars{"id": id}); r.code() != "FORBIDDEN" {
			t.Errorf("%s", r.Raw)
		}
		a.Want(both, query, vars{"id": id})
	}
	a.Want(sets, `mutation($id: ID!) { walletsReorder(ids: [$id]) { id label } }`, vars{"id": wallet})
	a.exec(`UPDATE webhook_message SET next_at = NULL, ended_at = created_at`)
	a.Want(sets, `mutation($id: ID!) { webhookRedeliver(message: $id) { id } }`, vars{"id": message})
}

// A revoked key opens nothing any more, not even on connections that it has opened. Running subscriptions end within
// RecheckKeys and a wake.
func TestRevocation(t *testing.T) {
	t.Parallel()
	a := serve(t)
	owner := a.Person("owner", 1000, 0)
	second := a.key("owner", graph.Scopes...)
	v, id, _ := a.holdPost(owner, "followed")
	s, e := a.Socket(second), a.Events(second, follow, v)
	s.Subscribe("1", follow, v)
	s.WantState("1", "PENDING_HELD")
	e.WantState("PENDING_HELD")
	a.revoke(second)
	before := a.fingerprint()
	s.Subscribe("2", `mutation { donate(sats: 1) { id } }`, nil) // the clock stands still: at once
	if r := s.next("2"); r.code() != "UNAUTHENTICATED" || a.fingerprint() != before {
		t.Errorf("on a connection that is open: %s", r.Raw)
	}
	s.WantComplete("2")
	if r := a.Do(second, `mutation { donate(sats: 1) { id } }`, nil); r.Status != http.StatusUnauthorized || a.fingerprint() != before {
		t.Errorf("%d %s", r.Status, r.Raw)
	}
	a.Clock.Advance(15 * time.Second)
	a.Feed.changed(id) // as internal/changefeed does every three seconds, whether it has changed or not
	if m, err := s.read(); err != nil || m.Type != "error" || !strings.Contains(string(m.Payload), "UNAUTHENTICATED") {
		t.Errorf("%+v %s, %v", m, m.Payload, err)
	}
	e.WantCut()
	if r := a.Want(owner, `{ me { creditsMsat } }`, nil); r.text("me", "creditsMsat") != "1000000" {
		t.Errorf("the other key: %s", r.Raw)
	}
}

// A failed withdrawal cannot be retried: retrying asks only for SPEND, and would let money leave.
func TestARetryIsNoWithdrawal(t *testing.T) {
	t.Parallel()
	a := serve(t)
	owner := a.Person("owner", 0, 100)
	refuses := a.Network.AddReceiver("carol").Issue(simnode.Ask{Amount: 50_000, Act: simnode.Refuses})
	id := a.Want(owner, withdrawTo, vars{"to": refuses.Bolt11, "fee": 10}).text("withdraw", "id")
	a.Run(a.Relay)
	a.until("the failure", func() bool {
		return a.Want(owner, `query($id: ID!) { paidAction(id: $id) { state } }`, vars{"id": id}).text("paidAction", "state") == "FAILED"
	})
	for _, as := range []person{owner, a.key("owner", graph.ScopeSpend)} {
		if r := a.Do(as, `mutation($id: ID!) { retryPaidAction(id: $id) { id } }`, vars{"id": id}); r.code() != "NOT_RETRYABLE" {
			t.Errorf("%s", r.Raw)
		}
	}
}

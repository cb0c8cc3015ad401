package graph_test

import (
	"fmt"
	"strings"
	"testing"
	"time"
)

// Who sees what, over HTTP: only the payer sees what is pending or has failed, and nobody sees the invoices, wallets,
// history or notifications of somebody else.
func TestWhoSeesWhat(t *testing.T) {
	t.Parallel()
	a := serve(t)
	author, owner, other := a.Person("author", 1000, 0), a.Person("owner", 1000, 1000), a.Person("other", 1000, 0)
	readers := map[string]person{"its owner": owner, "who is answered and zapped": author, "somebody else": other, "the anonymous": nobody}
	post := a.PostBy(author, "read by all")

	// The owner has a post, a comment and a zap in every state.
	const action = `{ id state invoice { bolt11 paymentHash } }`
	made := map[string]any{}
	do := func(state, method string) {
		for what, field := range map[string]string{
			"post":    `createPost(title: "post ` + state + `", paymentMethod: ` + method + `) { ...is result { item { id } } }`,
			"comment": `createComment(parent: "` + post + `", body: "comment ` + state + `", paymentMethod: ` + method + `) { ...is result { item { id } } }`,
			"zap":     `zap(item: "` + post + `", sats: 7, paymentMethod: ` + method + `) { ...is }`,
		} {
			r := a.Want(owner, `mutation { it: `+field+` } fragment is on PaidAction `+action, nil)
			made[what+" "+state] = r.Data["it"]
		}
	}
	do("failed", "OPTIMISTIC")
	a.Clock.Advance(time.Hour)
	a.Drain()
	do("paid", "FEE_CREDIT")
	do("pending", "OPTIMISTIC")
	do("asked for", "PESSIMISTIC")
	a.Drain()
	wallet := a.saveWallet(owner, newLNbits(t).URL, "the owner's wallet")
	of := func(name string, path ...string) string {
		t.Helper()
		text := answer{Data: map[string]any{"it": made[name]}}.text(append([]string{"it"}, path...)...)
		if text == "" {
			t.Fatalf("%s has no %v: %v", name, path, made[name])
		}
		return text
	}
	item := func(name string) string {
		return fmt.Sprintf(`{ item(id: "%s") { id title body payment %s } }`, of(name, "result", "item", "id"), action)
	}
	paidAction := func(name string) string { return fmt.Sprintf(`{ paidAction(id: "%s") %s }`, of(name, "id"), action) }
	below := func(field string) string { return fmt.Sprintf(`{ item(id: "%s") { %s } }`, post, field) }

	const byAll, byOwner, byNone = "all", "its owner", "none"
	for _, c := range []struct{ query, text, seen string }{
		{item("post paid"), "post paid", byAll},
		{item("post pending"), "post pending", byOwner},
		{item("post failed"), "post failed", byOwner},
		{item("comment paid"), "comment paid", byAll},
		{item("comment pending"), "comment pending", byOwner},
		{item("comment failed"), "comment failed", byOwner},
		{item("post paid"), of("post paid", "id"), byOwner}, // how it was paid
		{item("post pending"), of("post pending", "invoice", "bolt11"), byOwner},

		{`{ items(first: 100) { nodes { title } } }`, "post paid", byAll},
		{`{ items(first: 100) { nodes { title } } }`, "post pending", byNone},
		{`{ items(first: 100) { nodes { title } } }`, "post failed", byNone},
		{below(`comments(first: 100) { nodes { body } }`), "comment paid", byAll},
		{below(`comments(first: 100) { nodes { body } }`), "comment pending", byOwner},
		{below(`comments(first: 100) { nodes { body } }`), "comment failed", byOwner},
		{below(`thread { nodes { item { body } } }`), "comment paid", byAll},
		{below(`thread { nodes { item { body } } }`), "comment pending", byOwner},
		{below(`thread { nodes { item { body } } }`), "comment failed", byOwner},
		{`{ user(name: "owner") { items(first: 100) { nodes { title } } } }`, "post paid", byAll},
		{`{ user(name: "owner") { items(first: 100) { nodes { title } } } }`, "post pending", byOwner},
		{`{ user(name: "owner") { items(first: 100) { nodes { body } } } }`, "comment failed", byOwner},

		{below(`msat upvotes`), `"msat":"7000","upvotes":1`, byAll}, // one of four zaps is paid
		{below(`commentCount`), `"commentCount":1`, byAll},
		{`{ user(name: "owner") { postCount commentCount } }`, `"postCount":1,"commentCount":1`, byAll},

		{paidAction("zap paid"), "PAID", byOwner},
		{paidAction("zap pending"), "PENDING", byOwner},
		{paidAction("zap failed"), "FAILED", byOwner},
		{paidAction("post asked for"), of("post asked for", "invoice", "bolt11"), byOwner},
		{paidAction("post asked for"), of("post asked for", "invoice", "paymentHash"), byOwner},
		{`{ paidActions(first: 100) { nodes ` + action + ` } }`, of("zap pending", "invoice", "bolt11"), byOwner},
		{`{ me { history(first: 100) { nodes { action ` + action + ` } } } }`, of("zap pending", "invoice", "bolt11"), byOwner},
		{`{ me { history(first: 100) { nodes { action ` + action + ` } } } }`, of("zap failed", "invoice", "paymentHash"), byOwner},
		{`{ me { history(first: 100) { nodes { action ` + action + ` } } } }`, of("comment paid", "id") + `","state":"PAID`, byOwner},
		{`{ notifications(first: 100) { nodes { kind action ` + action + ` } } }`, of("zap failed", "invoice", "bolt11"), byOwner},
		{`{ notifications(first: 100) { nodes { kind action ` + action + ` } } }`, "PAYMENT_FAILED", byOwner},

		{`{ wallets { label } }`, "the owner's wallet", byOwner},
		{`{ wallets { log { nodes { ms } } } }`, `"ms":`, byOwner},
		{`mutation { walletEnable(id: "` + wallet + `", enabled: true) { label } }`, "the owner's wallet", byOwner},
		{`mutation { retryPaidAction(id: "` + of("zap paid", "id") + `") { id } }`, "NOT_RETRYABLE", byOwner},
		{`mutation { cancelInvoice(id: "` + of("zap paid", "id") + `") { id } }`, "NOT_CANCELABLE", byOwner},
	} {
		for name, as := range readers {
			r := a.Do(as, c.query, nil)
			if sees, may := strings.Contains(r.Raw, c.text), c.seen == byAll || c.seen == name; sees != may {
				t.Errorf("%s seen by %s: %t, want %t, in %s\n%s", c.text, name, sees, may, c.query, r.Raw)
			}
		}
	}
}

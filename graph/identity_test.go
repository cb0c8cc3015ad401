package graph_test

import (
	"net/http"
	"strings"
	"testing"

	"github.com/a-seed-a7aed72f/holdfast/graph"
	"github.com/a-seed-a7aed72f/holdfast/internal/db"
)

// An unknown key is refused, and never treated as no key.
func TestKeys(t *testing.T) {
	t.Parallel()
	a := serve(t)
	p := a.Person("somebody", 1, 2)
	if r := a.Want(p, `{ me { user { id name } creditsMsat satsMsat } }`, nil); r.text("me", "user", "name") != "somebody" ||
		r.text("me", "creditsMsat") != "1000" || r.text("me", "satsMsat") != "2000" {
		t.Errorf("not somebody: %s", r.Raw)
	}
	if r := a.Want(nobody, `{ me { user { id } } }`, nil); r.at("me") != nil {
		t.Errorf("somebody without a key: %s", r.Raw)
	}
	for _, header := range []string{"Bearer hf_unknown", "Bearer ", "Bearer", p.Key, "Basic " + p.Key, "Bearer " + p.Key + "x"} {
		r := a.Post("", `{"query": "{ me { creditsMsat } }"}`, "Authorization", header)
		if r.Status != http.StatusUnauthorized || r.code() != "UNAUTHENTICATED" || r.Data != nil {
			t.Errorf("%q: %d %s", header, r.Status, r.Raw)
		}
	}
	if _, err := db.New(a.Pool).RevokeKey(a.Ctx, db.RevokeKeyParams{At: new(a.Clock.Now()), KeyHash: graph.HashKey(p.Key)}); err != nil {
		t.Fatal(err)
	}
	if r := a.Do(p, `{ me { creditsMsat } }`, nil); r.Status != http.StatusUnauthorized || r.code() != "UNAUTHENTICATED" {
		t.Errorf("a revoked key: %d %s", r.Status, r.Raw)
	}
	// What is stored could not be sent as a key.
	if n := a.Count(`SELECT count(*) FROM api_key WHERE octet_length(key_hash) = 32`); n != 1 {
		t.Errorf("%d keys are stored as hashes, want 1", n)
	}
}

func TestSignUp(t *testing.T) {
	t.Parallel()
	a := serve(t)
	const signUp = `mutation($n: String!) { signUp(name: $n) { key user { id name } } }`
	r := a.Want(nobody, signUp, vars{"n": "newcomer"})
	key := r.text("signUp", "key")
	if !strings.HasPrefix(key, "hf_") || len(key) < 46 {
		t.Errorf("%q is no key of 32 bytes", key)
	}
	if r := a.Want(person{Key: key}, `{ me { user { name } } }`, nil); r.text("me", "user", "name") != "newcomer" {
		t.Errorf("the key is not the newcomer's: %s", r.Raw)
	}
	before := a.Count(`SELECT count(*) FROM usr`)
	for name, code := range map[string]string{"newcomer": "DUPLICATE", "": "INVALID_INPUT", "Big": "INVALID_INPUT", "a b": "INVALID_INPUT",
		strings.Repeat("x", 33): "INVALID_INPUT", "x\x00": "INVALID_INPUT", "x\n": "INVALID_INPUT"} {
		if r := a.Do(nobody, signUp, vars{"n": name}); r.code() != code {
			t.Errorf("%q: %s, want %s", name, r.Raw, code)
		}
	}
	if n := a.Count(`SELECT count(*) FROM usr`); n != before {
		t.Errorf("%d users, want %d", n, before)
	}

	closed := serve(t, func(c *graph.Config) { c.Development = false })
	if r := closed.Do(nobody, signUp, vars{"n": "newcomer"}); r.code() != "FORBIDDEN" {
		t.Errorf("signed up where it is closed: %s", r.Raw)
	}
}

// Nobody sees what belongs to somebody else: their actions, what is pending, what has failed.
func TestOthersSeeNothing(t *testing.T) {
	t.Parallel()
	a := serve(t)
	author, payer, other := a.Person("author", 100, 0), a.Person("payer", 0, 0), a.Person("other", 0, 0)
	post := a.PostBy(author, "parent")

	known := a.Want(payer, `mutation { createComment(parent: "`+post+`", body: "pending") { id result { item { id state } } } }`, nil)
	anonymous := a.Want(nobody, `mutation { createComment(parent: "`+post+`", body: "held") { id secret result { item { id } } } }`, nil)
	pending := known.text("createComment", "result", "item", "id")
	if pending == "" {
		t.Fatalf("the payer does not see their own: %s", known.Raw)
	}
	const action = `query($id: ID!, $s: String) { paidAction(id: $id, secret: $s) { id } }`
	secret := anonymous.text("createComment", "secret")
	for name, c := range map[string]struct {
		as     person
		action answer
		secret any
		see    bool
	}{
		"the payer":                      {payer, known, nil, true},
		"somebody else":                  {other, known, nil, false},
		"nobody":                         {nobody, known, nil, false},
		"the secret of another action":   {nobody, known, secret, false},
		"the secret":                     {nobody, anonymous, secret, true},
		"somebody with the secret":       {other, anonymous, secret, true},
		"nobody without the secret":      {nobody, anonymous, nil, false},
		"nobody with an empty secret":    {nobody, anonymous, "", false},
		"nobody with a part of it":       {nobody, anonymous, secret[:63], false},
		"somebody without the secret":    {other, anonymous, nil, false},
		"somebody with the wrong secret": {other, anonymous, strings.Repeat("0", 64), false},
	} {
		r := a.Do(c.as, action, vars{"id": c.action.text("createComment", "id"), "s": c.secret})
		if c.see != (len(r.Errors) == 0) || !c.see && r.code() != "NOT_FOUND" {
			t.Errorf("%s: %s", name, r.Raw)
		}
	}

	const look = `query($id: ID!, $post: ID!) { item(id: $id) { id state } parent: item(id: $post) { commentCount comments(first: 10) { nodes { id } } } }`
	sees := func(as person) (item bool, listed int) {
		t.Helper()
		r := a.Want(as, look, vars{"id": pending, "post": post})
		nodes, _ := r.at("parent", "comments", "nodes").([]any)
		return r.at("item") != nil, len(nodes)
	}
	wantSeen := func(when string, payerSees, othersSee bool) {
		t.Helper()
		for _, c := range []struct {
			as  person
			see bool
		}{{payer, payerSees}, {other, othersSee}, {author, othersSee}, {nobody, othersSee}} {
			item, listed := sees(c.as)
			if item != c.see || (listed == 1) != c.see {
				t.Errorf("%s: user %d sees the item: %t, in the list: %d; want %t", when, c.as.ID, item, listed, c.see)
			}
		}
	}
	wantSeen("pending", true, false)
	a.Want(payer, `mutation($id: ID!) { cancelInvoice(id: $id) { state } }`, vars{"id": known.text("createComment", "id")})
	wantSeen("failed", true, false)
	retried := a.Want(payer, `mutation($id: ID!) { retryPaidAction(id: $id) { id invoice { bolt11 } } }`, vars{"id": known.text("createComment", "id")})
	wantSeen("pending again", true, false)
	a.PayInvoice(retried.text("retryPaidAction", "invoice", "bolt11"))
	a.Advance(number(t, retried.text("retryPaidAction", "id")))
	wantSeen("paid", true, true)

	a.Drain()
	if r := a.Want(author, `{ notifications { nodes { kind item { id } } } }`, nil); !strings.Contains(r.Raw, `"REPLY"`) || !strings.Contains(r.Raw, pending) {
		t.Errorf("the author was not told: %s", r.Raw)
	}
	for _, query := range []string{`{ notifications { nodes { id } } }`, `{ paidActions { nodes { id } } }`} {
		if r := a.Do(nobody, query, nil); r.code() != "UNAUTHENTICATED" {
			t.Errorf("%s without signing in: %s", query, r.Raw)
		}
	}
	if r := a.Want(other, `{ paidActions { nodes { id } } notifications { nodes { id } } }`, nil); strings.Contains(r.Raw, `"id"`) {
		t.Errorf("somebody sees what is not theirs: %s", r.Raw)
	}
}

package graph_test

import (
	"net/http"
	"net/netip"
	"net/url"
	"strings"
	"testing"
	"time"

	"github.com/a-seed-a7aed72f/holdfast/graph"
	"github.com/a-seed-a7aed72f/holdfast/internal/db"
)

const rateLimited = "RATE_LIMITED"

// from sends an anonymous request that comes from an address, according to a trusted proxy.
func (a *api) from(address, query string) answer {
	a.Helper()
	return a.Post("", `{"query":"`+query+`"}`, "X-Forwarded-For", address)
}

func limited(t testing.TB, rates graph.Rates) *api {
	t.Helper()
	return serve(t, func(c *graph.Config) {
		c.Rates, c.TrustedProxies = rates, []netip.Prefix{netip.MustParsePrefix("127.0.0.0/8")}
	})
}

// One user, or one address without a key, may ask only so often. Others are not held up by that, and time gives it
// back.
func TestRequestsAreBounded(t *testing.T) {
	t.Parallel()
	a := limited(t, graph.Rates{Key: 0.5, Address: 0.2, WrongKeys: 0.1})
	busy, other := a.Person("busy", 0, 0), a.Person("other", 0, 0)
	ask := func(as person) answer { return a.Do(as, `{ me { user { name } } }`, nil) }
	for range 5 {
		if r := ask(busy); r.Status != http.StatusOK {
			t.Fatalf("refused too early: %s", r.Raw)
		}
	}
	r := ask(busy)
	if r.Status != http.StatusTooManyRequests || r.code() != rateLimited || r.Header.Get("Retry-After") != "2" {
		t.Errorf("%d, Retry-After %q: %s", r.Status, r.Header.Get("Retry-After"), r.Raw)
	}
	if r := ask(other); r.Status != http.StatusOK {
		t.Errorf("somebody else's key is refused: %s", r.Raw)
	}
	a.Clock.Advance(2 * time.Second)
	if r := ask(busy); r.Status != http.StatusOK {
		t.Errorf("refused for ever: %s", r.Raw)
	}
	for range 2 {
		if r := a.from("203.0.113.7", "{ __typename }"); r.Status != http.StatusOK {
			t.Fatalf("refused too early: %s", r.Raw)
		}
	}
	if r := a.from("203.0.113.7", "{ __typename }"); r.Status != http.StatusTooManyRequests {
		t.Errorf("an address without a key is not bounded: %s", r.Raw)
	}
	if r := a.from("203.0.113.8", "{ __typename }"); r.Status != http.StatusOK {
		t.Errorf("another address is refused: %s", r.Raw)
	}
	// An unknown key is looked up the first time, but not the second.
	wrong := person{Key: "hf_guess"}
	if r := ask(wrong); r.Status != http.StatusUnauthorized {
		t.Errorf("%d: %s", r.Status, r.Raw)
	}
	if r := ask(wrong); r.Status != http.StatusTooManyRequests {
		t.Errorf("guessing goes on: %d: %s", r.Status, r.Raw)
	}
}

// Opening a websocket counts as asking, and so does a subscription by server-sent events, or asking for a file.
func TestEveryWayOfAskingIsCounted(t *testing.T) {
	t.Parallel()
	a := limited(t, graph.Rates{Address: 0.1}) // one may come at once
	for i, want := range []int{http.StatusSwitchingProtocols, http.StatusTooManyRequests} {
		if _, r, err := a.dial(http.Header{"X-Forwarded-For": {"203.0.113.7"}}); r == nil || r.StatusCode != want {
			t.Errorf("websocket %d: %v, want %d (%v)", i+1, r, want, err)
		}
	}
	for i, want := range []int{http.StatusOK, http.StatusTooManyRequests} {
		r := a.Post("", `{"query":"subscription { paidActionUpdated(id: 1) { id } }"}`, "X-Forwarded-For", "203.0.113.8", "Accept", "text/event-stream")
		if r.Status != want {
			t.Errorf("subscription %d: %d, want %d: %s", i+1, r.Status, want, r.Raw)
		}
	}
	for i, want := range []int{http.StatusNotFound, http.StatusTooManyRequests} {
		if f := a.File("GET", "/uploads/"+strings.Repeat("x", 22), nobody, nil, "X-Forwarded-For", "203.0.113.9"); f.Status != want {
			t.Errorf("file %d: %d, want %d: %s", i+1, f.Status, want, f.Body)
		}
	}
}

// Keys cost nothing: a user with two keys may neither ask nor pay more often.
func TestAUsersKeysAreCountedTogether(t *testing.T) {
	t.Parallel()
	a := limited(t, graph.Rates{Key: 0.5, KeyPaying: 0.1}) // five may come at once, of which one pays
	one := a.Person("busy", 100, 0)
	_, key, err := graph.AddKey(a.Ctx, a.Pool, "busy", graph.Scopes, a.Clock.Now())
	if err != nil {
		t.Fatal(err)
	}
	two := person{one.ID, key}
	for i, as := range []person{one, two} {
		want := []string{"", rateLimited}[i]
		if r := a.Do(as, `mutation { donate(sats: 1) { id } }`, nil); r.code() != want {
			t.Errorf("the payment by key %d: %q, want %q: %s", i+1, r.code(), want, r.Raw)
		}
	}
	for i, as := range []person{one, two, one, two, one} {
		want := []string{"", "", "", rateLimited, rateLimited}[i]
		if r := a.Do(as, `{ me { user { name } } }`, nil); r.code() != want {
			t.Errorf("request %d: %q, want %q: %s", i+1, r.code(), want, r.Raw)
		}
	}
}

// Guessing keys is limited, and so is everybody from the same address whose key has not been seen here. Those with a
// known key are not.
func TestGuessingKeysBarsNoNeighbour(t *testing.T) {
	t.Parallel()
	a := limited(t, graph.Rates{WrongKeys: 0.1}) // one may come at once
	neighbour, revoked, unseen := a.Person("neighbour", 0, 0), a.Person("revoked", 0, 0), a.Person("unseen", 0, 0)
	status := func(key string) int {
		t.Helper()
		return a.Post(key, `{"query":"{ me { user { name } } }"}`, "X-Forwarded-For", "203.0.113.7").Status
	}
	for _, c := range []struct {
		what, key string
		status    int
	}{
		{"a neighbour", neighbour.Key, http.StatusOK},
		{"another one", revoked.Key, http.StatusOK},
		{"a guess", "hf_guess", http.StatusUnauthorized},
		{"the next guess", "hf_another", http.StatusTooManyRequests},
		{"the neighbour, who is known", neighbour.Key, http.StatusOK},
		{"somebody who may guess", unseen.Key, http.StatusTooManyRequests},
	} {
		if got := status(c.key); got != c.status {
			t.Errorf("%s: %d, want %d", c.what, got, c.status)
		}
	}
	a.Clock.Advance(9 * time.Second) // a part of a guess is none
	if got := status("hf_a_third"); got != http.StatusTooManyRequests {
		t.Errorf("a guess nine seconds after one in ten: %d", got)
	}
	a.Clock.Advance(time.Second)
	if _, err := db.New(a.Pool).RevokeKey(a.Ctx, db.RevokeKeyParams{At: new(a.Clock.Now()), KeyHash: graph.HashKey(revoked.Key)}); err != nil {
		t.Fatal(err)
	}
	// The revoked key was known the first time. Then it is a guess like any other.
	for _, want := range []int{http.StatusUnauthorized, http.StatusTooManyRequests} {
		if got := status(revoked.Key); got != want {
			t.Errorf("a revoked key: %d, want %d", got, want)
		}
	}
	if got := status(neighbour.Key); got != http.StatusOK {
		t.Errorf("the neighbour, after somebody's key was revoked: %d", got)
	}
}

// Text counts by its length, whether anything is paid for it in the end or not: it is kept for ever. However long it is, it
// does not count as more than may be asked for at once.
func TestTextCountsByItsLength(t *testing.T) {
	t.Parallel()
	a := serve(t, func(c *graph.Config) { c.Rates = graph.Rates{Key: 100, KeyPaying: 1} }) // ten at once
	payer := a.Person("payer", 100_000, 0)
	post := func(kib int) answer {
		return a.Do(payer, `mutation($text: String!) { createPost(title: "t", body: $text) { state } }`, map[string]any{"text": strings.Repeat("a", 1024*kib)})
	}
	donate := func() answer { return a.Do(payer, `mutation { donate(sats: 1) { state } }`, nil) }
	if r := post(8); len(r.Errors) > 0 {
		t.Fatalf("nine of ten are refused: %s", r.Raw)
	}
	if r := post(1); r.code() != rateLimited || !strings.Contains(r.Raw, "Wait 2 s") {
		t.Errorf("one is left, and two are let through: %s", r.Raw)
	}
	if r := donate(); len(r.Errors) > 0 {
		t.Errorf("the tenth is refused: %s", r.Raw)
	}
	if r := donate(); r.code() != rateLimited {
		t.Errorf("the text did not count: %s", r.Raw)
	}
	a.Clock.Advance(10 * time.Second)
	if r := post(30); len(r.Errors) > 0 {
		t.Errorf("a long text is refused for ever: %s", r.Raw)
	}
	if r := donate(); r.code() != rateLimited {
		t.Errorf("a long text did not count as ten: %s", r.Raw)
	}
	if n := a.Count(`SELECT count(*) FROM item`); n != 2 {
		t.Errorf("%d posts, want 2", n)
	}
}

// Trying again stores the text again, and counts like the first time.
func TestTextThatIsTriedAgainCountsByItsLength(t *testing.T) {
	t.Parallel()
	a := serve(t, func(c *graph.Config) { c.Rates = graph.Rates{Key: 100, KeyPaying: 1} }) // ten at once
	payer := a.Person("payer", 0, 0)
	try := func(mutation string, v map[string]any) answer { return a.Do(payer, mutation, v) }
	r := try(`mutation($text: String!) { createPost(title: "t", body: $text) { id } }`, map[string]any{"text": strings.Repeat("a", 6*1024)})
	id := map[string]any{"id": r.text("createPost", "id")}
	const again = `mutation($id: ID!) { retryPaidAction(id: $id) { attempt state } }`
	if r := try(`mutation($id: ID!) { cancelInvoice(id: $id) { state } }`, id); r.text("cancelInvoice", "state") != "FAILED" {
		t.Fatalf("%s", r.Raw)
	}
	if r := try(again, id); r.code() != rateLimited || !strings.Contains(r.Raw, "Wait 7 s") {
		t.Errorf("of ten, two are left, and seven are let through: %s", r.Raw)
	}
	a.Clock.Advance(5 * time.Second)
	if r := try(again, id); r.at("retryPaidAction", "attempt") != 2.0 {
		t.Errorf("seven of seven are refused: %s", r.Raw)
	}
	if r := try(`mutation { donate(sats: 1) { state } }`, nil); r.code() != rateLimited {
		t.Errorf("the text did not count: %s", r.Raw)
	}
}

// Paying is limited more strictly than asking, and what is refused costs nothing.
func TestPayingIsBoundedMoreStrictly(t *testing.T) {
	t.Parallel()
	a := serve(t, func(c *graph.Config) {
		c.Rates, c.Public = graph.Rates{Key: 100, KeyPaying: 0.2, Address: 100, AddressPaying: 0.1}, &url.URL{Scheme: "https", Host: "holdfast.example"}
	})
	payer := a.Person("payer", 100_000, 0)
	donate := func(as person) answer { return a.Do(as, `mutation { donate(sats: 1) { id state secret } }`, nil) }
	for range 2 {
		if r := donate(payer); len(r.Errors) > 0 {
			t.Fatalf("refused too early: %s", r.Raw)
		}
	}
	if r := donate(payer); r.code() != rateLimited {
		t.Errorf("paying is not bounded: %s", r.Raw)
	}
	if r := a.Do(payer, `mutation { retryPaidAction(id: 1) { id } }`, nil); r.code() != rateLimited {
		t.Errorf("trying again is not bounded: %s", r.Raw)
	}
	for what, mutation := range map[string]string{
		"testing wallets":         `walletSave(settings: {lightningAddress: "a@example.org"}) { id }`,
		"registering webhooks":    `webhookCreate(url: "https://example.org") { secret }`,
		"testing webhooks":        `webhookTest(id: 1) { id }`,
		"delivering again":        `webhookRedeliver(message: 1) { id }`,
		"making invites":          `createInvite(giftCredits: 1, limit: 1) { code }`,
		"cancelling":              `cancelInvoice(id: 1) { id }`,
		"guessing codes of gifts": `redeemInvite(code: "a guess") { giftMsat }`,
		"linking wallets":         `linkWalletKey { secret }`,
		"beginning to sign in":    `signIn { secret }`,
	} {
		if r := a.Do(payer, "mutation { "+mutation+" }", nil); r.code() != rateLimited {
			t.Errorf("%s is not bounded: %s", what, r.Raw)
		}
	}
	if f := a.File("POST", "/uploads", payer, strings.NewReader(png), "Content-Type", "image/png"); f.Status != http.StatusTooManyRequests || a.Count(`SELECT count(*) FROM upload`) != 0 {
		t.Errorf("uploading is not bounded: %d %s", f.Status, f.Body)
	}
	if r := a.Want(payer, `{ me { creditsMsat } }`, nil); r.text("me", "creditsMsat") != "99998000" {
		t.Errorf("%s", r.Raw)
	}
	if r := donate(person{}); len(r.Errors) > 0 {
		t.Fatalf("refused too early: %s", r.Raw)
	}
	if r := donate(person{}); r.code() != rateLimited {
		t.Errorf("paying without a key is not bounded: %s", r.Raw)
	}
	if n := a.Count(`SELECT count(*) FROM paid_action`); n != 3 {
		t.Errorf("%d actions, want 3", n)
	}
	a.Clock.Advance(10 * time.Second)
	if r := donate(payer); len(r.Errors) > 0 {
		t.Errorf("refused for ever: %s", r.Raw)
	}
}

package lnurl_test

import (
	"bytes"
	"encoding/json"
	"fmt"
	"net/http"
	"net/url"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/a-seed-a7aed72f/holdfast/graph"
	"github.com/a-seed-a7aed72f/holdfast/internal/keyauth"
	"github.com/a-seed-a7aed72f/holdfast/internal/keyauth/keyauthtest"
)

// asked is the API's answer to a browser.
type asked struct {
	Data map[string]*struct {
		LNURL, KeyAuth, Secret string
		ExpiresAt              time.Time
		Key                    string
		New                    bool
		User                   struct{ ID, Name string }
	}
	Errors []struct {
		Message    string
		Extensions struct{ Code string }
	}
}

func (a asked) code() string {
	if len(a.Errors) == 0 {
		return ""
	}
	return a.Errors[0].Extensions.Code
}

// Ask asks the API, with a key unless it is empty.
func (h *house) Ask(key, query string) (a asked) {
	h.Helper()
	body, err := json.Marshal(map[string]string{"query": query})
	if err != nil {
		h.Fatal(err)
	}
	r, err := http.NewRequestWithContext(h.Ctx, http.MethodPost, h.URL+"/graphql", bytes.NewReader(body))
	if err != nil {
		h.Fatal(err)
	}
	r.Header.Set("Content-Type", "application/json")
	if key != "" {
		r.Header.Set("Authorization", "Bearer "+key)
	}
	response, err := http.DefaultTransport.RoundTrip(r)
	if err != nil {
		h.Fatal(err)
	}
	defer response.Body.Close()
	if err := json.NewDecoder(response.Body).Decode(&a); err != nil {
		h.Fatal(err)
	}
	return a
}

const beginning = `{ lnurl keyauth secret expiresAt } }`

// Begin begins a sign-in.
func (h *house) Begin() (lnurl, secret string) {
	h.Helper()
	in := h.Ask("", `mutation { it: signIn `+beginning).Data["it"]
	return in.LNURL, in.Secret
}

// SignedIn asks whether the sign-in is done.
func (h *house) SignedIn(secret, more string) asked {
	h.Helper()
	return h.Ask("", `mutation { it: signedIn(secret: "`+secret+`"`+more+`) { key new expiresAt user { id name } } }`)
}

// Answer is the URL that a wallet requests after it has scanned a code.
func (h *house) Answer(w keyauthtest.Wallet, lnurl string) *url.URL {
	h.Helper()
	u, err := w.Answer(lnurl)
	if err != nil {
		h.Fatal(err)
	}
	return u
}

// Enter signs in by a wallet, from the code to the key.
func (h *house) Enter(w keyauthtest.Wallet) (key, user string, isNew bool) {
	h.Helper()
	lnurl, secret := h.Begin()
	if a := h.Get(h.Answer(w, lnurl).String()); a.Status != "OK" {
		h.Fatalf("the wallet was told %s", a.Raw)
	}
	if in := h.SignedIn(secret, "").Data["it"]; in != nil {
		return in.Key, in.User.Name, in.New
	}
	h.Fatal("nobody is signed in")
	return "", "", false
}

func withNewUsers(h *graph.Config) { h.NewUsers = true }

// An unknown wallet makes a new user. The same wallet finds that user again, and another wallet is somebody else.
func TestSignInByWallet(t *testing.T) {
	t.Parallel()
	h := serveAPI(t, withNewUsers)
	begun := h.Ask("", `mutation { it: signIn(register: true) `+beginning).Data["it"]
	shown, err := keyauthtest.Read(begun.LNURL)
	if err != nil || shown.Path != keyauth.Path || shown.Host != h.Host || shown.Query().Get("action") != "register" || !strings.HasPrefix(begun.KeyAuth, "keyauth://"+h.Host+keyauth.Path+"?tag=login&k1=") {
		t.Fatalf("the wallet is shown %s and %s, %v", shown, begun.KeyAuth, err)
	}
	if in := h.SignedIn(begun.Secret, ""); in.Data["it"] != nil || in.code() != "" {
		t.Errorf("before the wallet has signed: %+v", in)
	}
	if a := h.Get(h.Answer("alice's", begun.LNURL).String()); a.Status != "OK" || a.Raw != `{"status":"OK"}`+"\n" {
		t.Fatalf("the wallet was told %s", a.Raw)
	}
	// Seeing the code is no use.
	for _, seen := range []string{shown.String(), shown.Query().Get("k1"), begun.LNURL, begun.KeyAuth} {
		if strings.Contains(seen, begun.Secret) || h.SignedIn(seen, "").code() != "NOT_FOUND" {
			t.Errorf("%s is good for a key", seen)
		}
	}
	in := h.SignedIn(begun.Secret, `, name: "alice"`).Data["it"]
	if in == nil || !in.New || in.User.Name != "alice" || h.Ask(in.Key, `{ me { creditsMsat } }`).code() != "" {
		t.Fatalf("signed in: %+v", in)
	}
	if again := h.SignedIn(begun.Secret, ""); again.code() != "NOT_FOUND" || again.Data["it"] != nil {
		t.Errorf("the secret was good twice: %+v", again)
	}
	_, same, isNew := h.Enter("alice's")
	_, other, otherIsNew := h.Enter("bob's")
	if same != "alice" || isNew || other == "alice" || !strings.HasPrefix(other, "user_") || !otherIsNew {
		t.Errorf("alice's wallet is %s (new: %t), bob's %s (new: %t)", same, isNew, other, otherIsNew)
	}
	h.Clock.Advance(30*24*time.Hour - time.Second)
	if code := h.Ask(in.Key, `{ me { creditsMsat } }`).code(); code != "" {
		t.Errorf("the key is good no more: %s", code)
	}
	h.Clock.Advance(time.Second)
	if code := h.Ask(in.Key, `{ me { creditsMsat } }`).code(); code != "UNAUTHENTICATED" {
		t.Errorf("the key is good for ever: %q", code)
	}
}

// Somebody who signs in more often than they can have browsers loses the oldest sign-in, and nothing that they got
// otherwise.
func TestTheOldestKeyEndsForANewOne(t *testing.T) {
	t.Parallel()
	h := serveAPI(t, withNewUsers)
	first, user, _ := h.Enter("alice's")
	_, lasting, err := graph.AddKey(h.Ctx, h.Pool, user, graph.Scopes, h.Clock.Now())
	if err != nil {
		t.Fatal(err)
	}
	second, _, _ := h.Enter("alice's")
	others, _, _ := h.Enter("bob's")
	for range 18 {
		h.Enter("alice's")
	}
	if code := h.Ask(first, `{ me { creditsMsat } }`).code(); code != "" {
		t.Errorf("with 20 keys: %s", code)
	}
	last, _, _ := h.Enter("alice's")
	if code := h.Ask(first, `{ me { creditsMsat } }`).code(); code != "UNAUTHENTICATED" {
		t.Errorf("the oldest of 21 keys is good: %q", code)
	}
	for what, key := range map[string]string{"the second": second, "the last": last, "one that has no end": lasting, "somebody else's": others} {
		if code := h.Ask(key, `{ me { creditsMsat } }`).code(); code != "" {
			t.Errorf("%s: %s", what, code)
		}
	}
}

// Keys that were got by signing in, and that are good for nothing any more, do not become ever more: beyond a thousand of
// a user's, each sign-in deletes some of the oldest, and nothing else.
func TestDeadKeysFromSigningInAreBounded(t *testing.T) {
	t.Parallel()
	h := serveAPI(t, withNewUsers)
	good, user, _ := h.Enter("alice's")
	h.Enter("bob's")
	if _, _, err := graph.AddKey(h.Ctx, h.Pool, user, graph.Scopes, h.Clock.Now()); err != nil {
		t.Fatal(err)
	}
	if _, err := h.Pool.Exec(h.Ctx, `UPDATE api_key SET revoked_at = $1 WHERE expires_at IS NULL`, h.Clock.Now()); err != nil {
		t.Fatal(err)
	}
	const dead = `INSERT INTO api_key (user_id, key_hash, scopes, created_at, expires_at, revoked_at)
		SELECT usr.id, sha256((usr.name || g)::bytea), '{READ}', $1::timestamptz, $1::timestamptz + interval '1 day', $1 FROM usr, generate_series(1, 1015) AS g`
	if _, err := h.Pool.Exec(h.Ctx, dead, h.Clock.Now()); err != nil {
		t.Fatal(err)
	}
	for i, left := range []int64{1005, 1000, 1000} {
		h.Enter("alice's")
		if n := h.Count(`SELECT count(*) FROM api_key k JOIN usr ON usr.id = k.user_id WHERE usr.name = $1 AND revoked_at IS NOT NULL AND expires_at IS NOT NULL`, user); n != left {
			t.Errorf("after sign-in %d there are %d dead keys, want %d", i+1, n, left)
		}
	}
	if n := h.Count(`SELECT count(*) FROM generate_series(1, 15) AS g JOIN api_key ON key_hash = sha256(($1 || g)::bytea)`, user); n != 0 {
		t.Errorf("%d of the oldest keys are left", n)
	}
	if n := h.Count(`SELECT count(*) FROM api_key k JOIN usr ON usr.id = k.user_id WHERE usr.name <> $1 AND revoked_at IS NOT NULL`, user); n != 1015 {
		t.Errorf("of another's dead keys %d are left", n)
	}
	if n := h.Count(`SELECT count(*) FROM api_key WHERE expires_at IS NULL`); n != 1 || h.Ask(good, `{ me { creditsMsat } }`).code() != "" {
		t.Errorf("of keys that were not got by signing in %d are left; the first sign-in is good: %q", n, h.Ask(good, `{ me { creditsMsat } }`).code())
	}
}

// If the name is taken, another one can be asked for; nobody gets in twice that way.
func TestFirstSignInChoosesAName(t *testing.T) {
	t.Parallel()
	h := serveAPI(t, withNewUsers)
	h.User("taken", 0, 0)
	lnurl, secret := h.Begin()
	h.Get(h.Answer("alice's", lnurl).String())
	for name, code := range map[string]string{"taken": "DUPLICATE", "No Name": "INVALID_INPUT"} {
		if in := h.SignedIn(secret, `, name: "`+name+`"`); in.code() != code || in.Data["it"] != nil {
			t.Errorf("as %s: %+v", name, in)
		}
	}
	in := h.SignedIn(secret, `, name: "alice", scopes: [READ, SETTINGS]`)
	if in.code() != "" || in.Data["it"].User.Name != "alice" {
		t.Fatalf("%+v", in)
	}
	if code := h.Ask(in.Data["it"].Key, `mutation { donate(sats: 1) { id } }`).code(); code != "FORBIDDEN" {
		t.Errorf("a key that is not good for spending spends: %q", code)
	}
	if code := h.Ask(in.Data["it"].Key, `mutation { linkWalletKey `+beginning).code(); code != "FORBIDDEN" {
		t.Errorf("a key that is not good for everything lets a wallet in: %q", code)
	}
	out := h.Ask(in.Data["it"].Key, `mutation { signOut { name } }`)
	if code := h.Ask(in.Data["it"].Key, `{ me { creditsMsat } }`).code(); code != "UNAUTHENTICATED" {
		t.Errorf("signed out (%+v), and still in: %q", out.Errors, code)
	}
}

func TestSigningUpByWalletCanBeClosed(t *testing.T) {
	t.Parallel()
	h := serveAPI(t, func(c *graph.Config) { c.NewUsers = false })
	lnurl, secret := h.Begin()
	h.Get(h.Answer("alice's", lnurl).String())
	if in := h.SignedIn(secret, ""); in.code() != "FORBIDDEN" || h.Count(`SELECT count(*) FROM usr`) != 0 {
		t.Errorf("%+v", in)
	}
}

// Each of these is refused with a sentence, and opens nothing.
func TestAnswersThatAreRefused(t *testing.T) {
	t.Parallel()
	h := serveAPI(t, withNewUsers)
	set := func(name, value string) func(url.Values) { return func(q url.Values) { q.Set(name, value) } }
	for name, change := range map[string]func(url.Values){
		"a k1 of another service": func(q url.Values) {
			u := &url.URL{RawQuery: "tag=login&k1=" + strings.Repeat("7f", 32)}
			if err := keyauthtest.Wallet("alice's").Sign(u, h.Host); err != nil {
				t.Fatal(err)
			}
			for name, value := range u.Query() {
				q[name] = value
			}
		},
		"another key": func(q url.Values) { q.Set("key", h.Answer("bob's", h.lnurl()).Query().Get("key")) },
		"a signature of another code": func(q url.Values) {
			q.Set("sig", h.Answer("alice's", h.lnurl()).Query().Get("sig"))
		},
		"no tag": set("tag", ""), "no signature": set("sig", ""), "no key": set("key", ""), "no k1": set("k1", ""), "another action": set("action", "link"),
		"an unknown action": set("action", "pay"), "a key too long": func(q url.Values) { q.Set("key", q.Get("key")+"00") },
		"a k1 too short": func(q url.Values) { q.Set("k1", q.Get("k1")[2:]) }, "a k1 twice": func(q url.Values) { q.Add("k1", q.Get("k1")) },
		"a key off the curve": set("key", "02"+strings.Repeat("ff", 32)), "a signature that is none": set("sig", "30440220"),
	} {
		lnurl, secret := h.Begin()
		u := h.Answer("alice's", lnurl)
		query := u.Query()
		change(query)
		u.RawQuery = query.Encode()
		a := h.Get(u.String())
		if a.HTTP != http.StatusOK || a.Status != "ERROR" || a.Reason == "" {
			t.Errorf("%s: %d %s", name, a.HTTP, a.Raw)
		}
		if in := h.SignedIn(secret, ""); in.code() != "" || in.Data["it"] != nil {
			t.Errorf("%s opens an account: %+v", name, in)
		}
	}
	lnurl, secret := h.Begin()
	u := h.Answer("alice's", lnurl).String()
	h.Clock.Advance(keyauth.Lifetime)
	if a := h.Get(u); a.Status != "ERROR" || h.SignedIn(secret, "").code() != "EXPIRED" {
		t.Errorf("too late: %s", a.Raw)
	}
	r, err := http.NewRequest(http.MethodHead, u, nil)
	if err != nil {
		t.Fatal(err)
	}
	if a := h.Send(r); a.HTTP != http.StatusMethodNotAllowed {
		t.Errorf("HEAD: %d", a.HTTP)
	}
	if n := h.Count(`SELECT count(*) FROM usr`) + h.Count(`SELECT count(*) FROM linking_key`); n != 0 {
		t.Errorf("%d rows came of refusals", n)
	}
}

// lnurl is the code of a sign-in that somebody else began.
func (h *house) lnurl() string { lnurl, _ := h.Begin(); return lnurl }

// A challenge is signed once: neither a replay of the right answer nor another wallet gets in by it, not even at the
// same moment.
func TestChallengesAreSignedOnce(t *testing.T) {
	t.Parallel()
	h := serveAPI(t, withNewUsers)
	lnurl, secret := h.Begin()
	first, second := h.Answer("1", lnurl), h.Answer("2", lnurl)
	// Both find the challenge unsigned before one of them signs it. They go to two processes: one takes one after the other.
	tx, err := h.Pool.Begin(h.Ctx)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := tx.Exec(h.Ctx, `SELECT FROM sign_in ORDER BY id FOR NO KEY UPDATE`); err != nil {
		t.Fatal(err)
	}
	var accepted atomic.Int32
	var all sync.WaitGroup
	all.Go(func() {
		if h.Get(first.String()).Status == "OK" {
			accepted.Add(1)
		}
	})
	all.Go(func() {
		answer, err := keyauth.Read(second.Query())
		if err == nil {
			err = keyauth.Sign(h.Ctx, h.Pool, answer, h.Clock.Now())
		}
		if err == nil {
			accepted.Add(1)
		}
	})
	h.AwaitBlocked(2)
	if err := tx.Commit(h.Ctx); err != nil {
		t.Fatal(err)
	}
	all.Wait()
	if accepted.Load() != 1 {
		t.Errorf("%d wallets have signed one challenge", accepted.Load())
	}
	for range 2 { // before the browser has its key, and after
		for _, u := range []*url.URL{first, second} {
			if a := h.Get(u.String()); a.Status != "ERROR" {
				t.Errorf("a replay is answered %s", a.Raw)
			}
		}
		h.SignedIn(secret, "")
	}
	if n := h.Count(`SELECT count(*) FROM api_key`); n != 1 {
		t.Errorf("%d keys of one challenge", n)
	}
}

// A wallet uses another key for another domain: a page elsewhere that passes our challenge on gets a stranger's
// account.
func TestKeysOfAnotherDomainOpenNothing(t *testing.T) {
	t.Parallel()
	h := serveAPI(t, withNewUsers)
	_, alice, _ := h.Enter("alice's")
	lnurl, secret := h.Begin()
	u, err := keyauthtest.Read(lnurl)
	if err != nil {
		t.Fatal(err)
	}
	if err := keyauthtest.Wallet("alice's").Sign(u, "evil.example"); err != nil {
		t.Fatal(err)
	}
	if a := h.Get(u.String()); a.Status != "OK" {
		t.Fatalf("%s", a.Raw)
	}
	if in := h.SignedIn(secret, "").Data["it"]; in.User.Name == alice || !in.New {
		t.Errorf("evil.example is in as %s", in.User.Name)
	}
}

// Link begins to link a wallet to the account of a key.
func (h *house) Link(key string) (lnurl, secret string) {
	h.Helper()
	in := h.Ask(key, `mutation { it: linkWalletKey `+beginning).Data["it"]
	return in.LNURL, in.Secret
}

const collecting = `mutation { it: signedIn(secret: "%s", confirmed: true) { key new user { name } } }`

// Confirm collects a link for a page whose owner says that it was their own wallet that signed.
func (h *house) Confirm(key, secret string) asked {
	h.Helper()
	return h.Ask(key, fmt.Sprintf(collecting, secret))
}

// Once a further wallet is linked, it opens the account. A wallet that opens another account is not taken away from it.
func TestLinkingAWallet(t *testing.T) {
	t.Parallel()
	h := serveAPI(t, withNewUsers)
	key, alice, _ := h.Enter("alice's")
	_, bob, _ := h.Enter("bob's")
	lnurl, secret := h.Link(key)
	if in := h.Confirm(key, secret); in.code() != "" || in.Data["it"] != nil {
		t.Errorf("before a wallet has signed: %+v", in)
	}
	if a := h.Get(h.Answer("alice's other", lnurl).String()); a.Status != "OK" {
		t.Errorf("the wallet was told %s", a.Raw)
	}
	// Looking links nothing: only the owner knows whether the wallet that signed is theirs.
	if in := h.Ask(key, `mutation { it: signedIn(secret: "`+secret+`") { key } }`); in.code() != "" || in.Data["it"] != nil || h.Count(`SELECT count(*) FROM linking_key`) != 2 {
		t.Errorf("before its owner has confirmed: %+v", in)
	}
	if in := h.Confirm(key, secret); in.Data["it"] == nil || in.Data["it"].Key != "" || in.Data["it"].New || in.Data["it"].User.Name != alice {
		t.Errorf("linked: %+v", in)
	}
	if in := h.Confirm(key, secret); in.code() != "NOT_FOUND" || in.Data["it"] != nil {
		t.Errorf("the secret was good twice: %+v", in)
	}
	lnurl, secret = h.Link(key)
	h.Get(h.Answer("bob's", lnurl).String())
	if in := h.Confirm(key, secret); in.code() != "DUPLICATE" || in.Data["it"] != nil {
		t.Errorf("bob's wallet: %+v", in)
	}
	for w, want := range map[keyauthtest.Wallet]string{"alice's other": alice, "alice's": alice, "bob's": bob} {
		if _, got, isNew := h.Enter(w); got != want || isNew {
			t.Errorf("by %s: %s (new: %t), want %s", w, got, isNew, want)
		}
	}
}

// Somebody who begins a link with a stolen key gets nothing once the key is revoked, whenever they sign, and whatever
// key they come with.
func TestLinkingEndsWithTheKey(t *testing.T) {
	t.Parallel()
	h := serveAPI(t, withNewUsers)
	stolen, _, _ := h.Enter("alice's")
	thiefs, _, _ := h.Enter("the thief's own")
	before, beforeSecret := h.Link(stolen)
	after, afterSecret := h.Link(stolen)
	within, withinSecret := h.Link(stolen)
	for _, lnurl := range []string{before, within} {
		if a := h.Get(h.Answer("the thief's", lnurl).String()); a.Status != "OK" {
			t.Fatalf("%s", a.Raw)
		}
	}
	// A request in which the key was accepted before it was revoked gets nothing, either.
	out := h.Ask(stolen, strings.Replace(fmt.Sprintf(collecting, withinSecret), "{", "{ signOut { name } ", 1))
	if out.code() != "UNAUTHENTICATED" || out.Data["it"] != nil {
		t.Errorf("in the request that signs out: %+v", out)
	}
	h.Get(h.Answer("the thief's", after).String())
	lnurl, readSecret := h.Begin()
	h.Get(h.Answer("alice's", lnurl).String())
	lesser := h.SignedIn(readSecret, `, scopes: [READ, SPEND, SETTINGS]`).Data["it"].Key
	for _, secret := range []string{beforeSecret, afterSecret, withinSecret} {
		for key, want := range map[string]string{stolen: "UNAUTHENTICATED", "": "UNAUTHENTICATED", thiefs: "NOT_FOUND", lesser: "FORBIDDEN"} {
			if in := h.Confirm(key, secret); in.code() != want || in.Data["it"] != nil {
				t.Errorf("%q collects: %+v, want %s", key, in, want)
			}
			if in := h.SignedIn(secret, ""); in.Data["it"] != nil {
				t.Errorf("without a key: %+v", in)
			}
		}
	}
	if n := h.Count(`SELECT count(*) FROM linking_key`); n != 2 {
		t.Errorf("%d wallets open an account, want alice's and the thief's own", n)
	}
	// Alice herself may go on with another of her keys. A secret of hers that signs in is not one that links.
	whole, _, _ := h.Enter("alice's")
	lnurl, secret := h.Begin()
	h.Get(h.Answer("alice's", lnurl).String())
	if in := h.Confirm(whole, secret); in.code() != "NOT_FOUND" {
		t.Errorf("a secret that signs in: %+v", in)
	}
}

// Somebody who photographs the code of a link gets nothing by signing it, whether before its owner does or after; and
// the owner is told.
func TestPhotographedLinkLinksNobody(t *testing.T) {
	t.Parallel()
	h := serveAPI(t, withNewUsers)
	key, _, _ := h.Enter("alice's")
	for _, wallets := range [][]keyauthtest.Wallet{{"a stranger's", "alice's other"}, {"alice's other", "a stranger's"}} {
		lnurl, secret := h.Link(key)
		if a := h.Get(h.Answer(wallets[0], lnurl).String()); a.Status != "OK" {
			t.Errorf("%s has signed first, and was told %s", wallets[0], a.Raw)
		}
		h.Ask(key, `mutation { it: signedIn(secret: "`+secret+`") { key } }`) // as pages do every second
		for _, w := range []keyauthtest.Wallet{wallets[1], wallets[0], wallets[1]} {
			if a := h.Get(h.Answer(w, lnurl).String()); a.Status != "ERROR" || !strings.Contains(a.Reason, "Another wallet") {
				t.Errorf("%s has signed too, and was told %s", w, a.Raw)
			}
		}
		for _, in := range []asked{h.SignedIn(secret, ""), h.Confirm(key, secret), h.Confirm(key, secret)} {
			if in.code() != "CONTESTED" || in.Data["it"] != nil {
				t.Errorf("collected: %+v", in)
			}
		}
	}
	if n := h.Count(`SELECT count(*) FROM linking_key`); n != 1 {
		t.Errorf("%d wallets open the account", n)
	}
	lnurl, secret := h.Link(key)
	h.Get(h.Answer("alice's other", lnurl).String())
	h.Confirm(key, secret)
	if a := h.Get(h.Answer("a stranger's", lnurl).String()); a.Status != "ERROR" || h.Count(`SELECT count(*) FROM linking_key`) != 2 {
		t.Errorf("after the link was made: %s", a.Raw)
	}
}

// A wallet that got no answer signs again, and each answer is yes.
func TestAWalletSignsALinkAgain(t *testing.T) {
	t.Parallel()
	h := serveAPI(t, withNewUsers)
	key, alice, _ := h.Enter("alice's")
	lnurl, secret := h.Link(key)
	u := h.Answer("alice's other", lnurl).String()
	var all sync.WaitGroup
	for range 4 {
		all.Go(func() {
			if a := h.Get(u); a.Status != "OK" {
				t.Errorf("the wallet was told %s", a.Raw)
			}
		})
	}
	all.Wait()
	if in := h.Confirm(key, secret); in.Data["it"] == nil || in.Data["it"].User.Name != alice {
		t.Errorf("linked: %+v", in)
	}
	if a := h.Get(u); a.Status != "ERROR" {
		t.Errorf("once it was collected: %s", a.Raw)
	}
	if _, got, _ := h.Enter("alice's other"); got != alice {
		t.Errorf("the wallet opens %s", got)
	}
}

func TestSigningInIsBounded(t *testing.T) {
	t.Parallel()
	h := serve(t, graph.Rates{AddressPaying: 0.1})
	if in := h.Ask("", `mutation { it: signIn `+beginning); in.code() != "" {
		t.Fatal(in.Errors)
	}
	if in := h.Ask("", `mutation { it: signIn `+beginning); in.code() != "RATE_LIMITED" {
		t.Errorf("%+v", in)
	}
	if a := h.Get(h.URL + keyauth.Path + "?tag=login"); a.HTTP != http.StatusTooManyRequests || a.Header.Get("Retry-After") == "" {
		t.Errorf("%d %s", a.HTTP, a.Raw)
	}
}

func TestOldChallengesAreForgotten(t *testing.T) {
	t.Parallel()
	h := serveAPI(t, withNewUsers)
	h.Enter("alice's")
	h.Begin()
	h.Clock.Advance(keyauth.Lifetime + time.Hour + time.Second)
	h.Begin()
	if _, err := keyauth.Sweep(h.Ctx, h.Queries(), h.Clock.Now()); err != nil || h.Count(`SELECT count(*) FROM sign_in`) != 1 {
		t.Errorf("%d challenges are left, %v", h.Count(`SELECT count(*) FROM sign_in`), err)
	}
}

// Answers to one challenge wait for one another, but not each with a database connection: else whoever sends many to a
// challenge of their own would leave none to payments.
func TestAnswersToOneChallengeTakeOneConnection(t *testing.T) {
	t.Parallel()
	h := serveAPI(t, withNewUsers)
	lnurl, _ := h.Begin()
	slow, err := h.Pool.Begin(h.Ctx)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := slow.Exec(h.Ctx, `SELECT FROM sign_in FOR UPDATE`); err != nil {
		t.Fatal(err)
	}
	answers := make(chan answer, 5)
	send := func(n int) {
		url := h.Answer(keyauthtest.Wallet(fmt.Sprint("wallet ", n)), lnurl).String()
		go func() { answers <- h.Get(url) }()
	}
	send(0)
	h.AwaitBlocked(1)
	for n := range cap(answers) - 1 {
		send(1 + n)
	}
	for range 10 { // other challenges are answered meanwhile
		h.Enter(keyauthtest.Wallet("another"))
	}
	if n := h.Count(`SELECT count(*) FROM pg_stat_activity WHERE datname = current_database() AND wait_event_type = 'Lock'`); n != 1 {
		t.Errorf("the answers to one challenge take %d connections", n)
	}
	if err := slow.Commit(h.Ctx); err != nil {
		t.Fatal(err)
	}
	noted := 0
	for range cap(answers) {
		if (<-answers).Status == "OK" {
			noted++
		}
	}
	if noted != 1 {
		t.Errorf("%d of the answers were noted, want the first", noted)
	}
}

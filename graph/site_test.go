package graph_test

import (
	"net/http"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/a-seed-a7aed72f/holdfast/graph"
	"github.com/a-seed-a7aed72f/holdfast/internal/sitejwt"
	"github.com/a-seed-a7aed72f/holdfast/internal/sitejwt/sitejwttest"
)

// behind is an API that stands behind a site.
func behind(t testing.TB, change ...func(*graph.Config)) (*api, *sitejwttest.Site) {
	t.Helper()
	site := sitejwttest.New(t)
	return serve(t, append(change, func(c *graph.Config) {
		v, err := sitejwt.New(sitejwt.Config{Issuer: sitejwttest.Issuer, Audience: sitejwttest.Audience, Fetch: sitejwt.FromURL(site.URL), Now: c.Now})
		if err != nil {
			t.Fatal(err)
		}
		c.Site = v
	})...), site
}

const whoAmI = `{ me { user { id name } } }`

// Somebody whom the site knows is a user here from their first request on, and always the same one. Our own keys stay
// good besides its tokens.
func TestTokensOfASite(t *testing.T) {
	t.Parallel()
	a, site := behind(t)
	token := func(subject string, more ...any) person {
		claims := sitejwttest.Claims(subject, a.Clock.Now())
		for i := 0; i+1 < len(more); i += 2 {
			claims[more[i].(string)] = more[i+1]
		}
		return person{Key: site.Token(claims)}
	}
	taken := a.Person("taken", 1, 0)
	name := func(p person) string { a.Helper(); return a.Want(p, whoAmI, nil).text("me", "user", "name") }
	alice := name(token("1", "preferred_username", "Alice"))
	if alice != "alice" || name(token("1", "preferred_username", "changed")) != alice {
		t.Errorf("alice is %s", alice)
	}
	for _, p := range []person{token("2", "preferred_username", "taken"), token("3", "preferred_username", "no name"), token("4")} {
		if n := name(p); n == "taken" || n == alice || n != name(p) {
			t.Errorf("somebody else is %s", n)
		}
	}
	if name(taken) != "taken" {
		t.Error("keys of our own are good no more")
	}
	reader := token("1", "scope", "openid Read")
	if r := a.Do(reader, `mutation { donate(sats: 1) { id } }`, nil); name(reader) != alice || r.code() != "FORBIDDEN" {
		t.Errorf("a token to read with: %s", r.Raw)
	}
	for what, scope := range map[string]string{"another service": "openid", "nothing": ""} {
		if r := a.Do(token("1", "scope", scope), whoAmI, nil); r.code() != "FORBIDDEN" {
			t.Errorf("a token for %s: %s", what, r.Raw)
		}
	}
	if r := a.Do(reader, `mutation { signOut { id } }`, nil); r.code() != "FORBIDDEN" || name(reader) != alice {
		t.Errorf("a token that is not ours to take back: %s", r.Raw)
	}
	for what, p := range map[string]person{"another audience": token("1", "aud", "another"), "expired": token("1", "exp", a.Clock.Now().Add(-time.Hour).Unix())} {
		if r := a.Do(p, whoAmI, nil); r.Status != http.StatusUnauthorized || r.code() != "UNAUTHENTICATED" {
			t.Errorf("%s: %d %s", what, r.Status, r.Raw)
		}
	}
}

// Two first requests of the same person make one user.
func TestFirstTokensAtOnce(t *testing.T) {
	t.Parallel()
	a, site := behind(t)
	p := person{Key: site.Token(sitejwttest.Claims("1", a.Clock.Now()))}
	ids := make([]string, 8)
	var all sync.WaitGroup
	for i := range ids {
		all.Go(func() { ids[i] = a.Do(p, whoAmI, nil).text("me", "user", "id") })
	}
	all.Wait()
	for _, id := range ids {
		if id == "" || id != ids[0] {
			t.Errorf("they are %q", ids)
			break
		}
	}
	if n := a.Count(`SELECT count(*) FROM usr`); n != 1 {
		t.Errorf("%d users", n)
	}
}

// However many requests come with tokens while their users cannot be looked up, others are answered: that look is before
// any meter counts, and takes four of the database connections at most.
func TestTokensLeaveConnectionsToOthers(t *testing.T) {
	t.Parallel()
	a, site := behind(t, dozen(t))
	known := person{Key: site.Token(sitejwttest.Claims("1", a.Clock.Now()))}
	a.Want(known, whoAmI, nil)
	other := a.Person("other", 10, 0)
	slow, err := a.Pool.Begin(a.Ctx)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := slow.Exec(a.Ctx, `LOCK TABLE site_user`); err != nil {
		t.Fatal(err)
	}
	answers := make(chan answer, 24)
	for range cap(answers) {
		go func() { answers <- a.Do(known, whoAmI, nil) }()
	}
	a.AwaitBlocked(2) // the first one, and a group of those who came meanwhile
	for range 3 {
		a.Want(other, `mutation { donate(sats: 1) { state } }`, nil)
	}
	if n := a.waiting(); n > 4 {
		t.Errorf("tokens are looked up by %d connections, want 4 of 12 at most", n)
	}
	if err := slow.Commit(a.Ctx); err != nil {
		t.Fatal(err)
	}
	for range cap(answers) {
		if r := <-answers; len(r.Errors) > 0 {
			t.Errorf("once it can be looked up: %s", r.Raw)
		}
	}
}

func TestSiteThatIsAway(t *testing.T) {
	t.Parallel()
	a, site := behind(t)
	site.Away(true)
	p := person{Key: site.Token(sitejwttest.Claims("1", a.Clock.Now()))}
	if r := a.Do(p, whoAmI, nil); r.Status != http.StatusServiceUnavailable || r.code() != "TRY_AGAIN" {
		t.Errorf("%d %s", r.Status, r.Raw)
	}
}

// Open subscriptions end with the token.
func TestSubscriptionsEndWithTheToken(t *testing.T) {
	t.Parallel()
	a, site := behind(t)
	p := person{Key: site.Token(sitejwttest.Claims("1", a.Clock.Now()))}
	v, id, _ := a.holdPost(p, "unpaid")
	s := a.Socket(p)
	s.Subscribe("1", follow, v)
	s.WantState("1", "PENDING_HELD")
	a.Clock.Advance(2 * time.Minute)
	a.Feed.changed(id)
	if m, err := s.read(); err != nil || m.Type != "error" || !strings.Contains(string(m.Payload), "UNAUTHENTICATED") {
		t.Errorf("%+v %s, %v", m, m.Payload, err)
	}
	s.Subscribe("2", whoAmI, nil)
	if r := s.next("2"); r.code() != "UNAUTHENTICATED" {
		t.Errorf("%s", r.Raw)
	}
}

// Whoever sends wrong tokens bars nobody behind the same address who has a good one: each is new, and known to be good
// by its signature. Of one that was good here it is said that it has expired, whatever others send.
func TestWrongTokensBarNoNeighbour(t *testing.T) {
	t.Parallel()
	a, site := behind(t, func(c *graph.Config) { c.Rates.WrongKeys = 0.1 }) // one may come at once
	token := func(subject string) string { return site.Token(sitejwttest.Claims(subject, a.Clock.Now())) }
	early := token("early")
	want := func(who, key, code string) {
		t.Helper()
		if r := a.Do(person{Key: key}, whoAmI, nil); r.code() != code {
			t.Errorf("%s: %d %q, want %q", who, r.Status, r.code(), code)
		}
	}
	want("somebody", early, "")
	want("a guess", "a.b.c", "UNAUTHENTICATED")
	want("the next guess", "d.e.f", "RATE_LIMITED")
	want("a neighbour who is new here", token("late"), "")
	a.Clock.Advance(2 * time.Minute)
	want("a guess, later", "g.h.i", "UNAUTHENTICATED")
	want("somebody whose token has expired", early, "UNAUTHENTICATED")
	want("a new token of theirs", token("early"), "")
}

// Wrong tokens are limited like unknown keys.
func TestWrongTokensAreBounded(t *testing.T) {
	t.Parallel()
	a, site := behind(t, func(c *graph.Config) { c.Rates.WrongKeys = 0.1 })
	claims := sitejwttest.Claims("1", a.Clock.Now())
	claims["aud"] = "another"
	wrong := person{Key: site.Token(claims)}
	if r := a.Do(wrong, whoAmI, nil); r.code() != "UNAUTHENTICATED" {
		t.Errorf("%s", r.Raw)
	}
	if r := a.Do(wrong, whoAmI, nil); r.code() != "RATE_LIMITED" {
		t.Errorf("%s", r.Raw)
	}
}

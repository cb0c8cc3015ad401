package graph_test

import (
	"encoding/json"
	"errors"
	"net/http"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/coder/websocket"
	"go.uber.org/goleak"

	"github.com/a-seed-a7aed72f/holdfast/graph"
	"github.com/a-seed-a7aed72f/holdfast/internal/db"
	"github.com/a-seed-a7aed72f/holdfast/lightning/simnode"
)

const follow = `subscription($id: ID!, $s: String) { paidActionUpdated(id: $id, secret: $s) {
	id state __typename failure { code } ... on ItemCreateAction { result { item { id state title } } } } }`

// holdPost asks for a post by hold invoice, and returns what is needed to follow it.
func (a *api) holdPost(as person, title string) (v vars, id int64, bolt11 string) {
	a.Helper()
	r := a.Want(as, `mutation($t: String!) { createPost(title: $t, paymentMethod: PESSIMISTIC) { id secret state invoice { bolt11 } } }`, vars{"t": title})
	text := r.text("createPost", "id")
	return vars{"id": text, "s": r.at("createPost", "secret")}, number(a.TB, text), r.text("createPost", "invoice", "bolt11")
}

// A subscription sends the present state first, then each change until the end: over a websocket and over server-sent
// events, to users and to the anonymous.
func TestSubscription(t *testing.T) {
	t.Parallel()
	a := serve(t)
	for _, as := range []person{nobody, a.Person("payer", 0, 0)} {
		v, id, bolt11 := a.holdPost(as, "followed")
		s, e := a.Socket(as), a.Events(as, follow, v)
		s.Subscribe("1", follow, v)
		s.WantState("1", "PENDING_HELD")
		e.WantState("PENDING_HELD")
		a.PayInvoice(bolt11)
		a.Advance(id)
		s.WantState("1", "HELD")
		e.WantState("HELD")
		a.Advance(id)
		r := s.next("1")
		if r.text("paidActionUpdated", "state") != "PAID" || r.text("paidActionUpdated", "result", "item", "state") != "PAID" {
			t.Errorf("%s", r.Raw)
		}
		e.WantState("PAID")
		s.WantComplete("1")
		e.WantComplete()

		// An action that has ended is sent once, and the subscription ends.
		s.Subscribe("2", follow, v)
		s.WantState("2", "PAID")
		s.WantComplete("2")
		a.Clock.Advance(time.Hour)
	}
}

// If no node could issue the invoice at once, whoever follows the action gets it once it exists.
func TestALateInvoiceIsTold(t *testing.T) {
	t.Parallel()
	a := serve(t)
	payer := a.Person("payer", 0, 0)
	a.Node.FailBefore(simnode.MethodOpen, 2)
	a.Node.FailBefore(simnode.MethodLookup, 2)
	const post = `mutation { createPost(title: "late", paymentMethod: PESSIMISTIC, idempotencyKey: "key") { id } }`
	if r := a.Do(payer, post, nil); r.code() != "LIGHTNING_UNAVAILABLE" {
		t.Fatalf("%s", r.Raw)
	}
	id := a.Want(payer, `{ paidActions { nodes { id } } }`, nil).at("paidActions", "nodes").([]any)[0].(map[string]any)["id"]
	s := a.Socket(payer)
	s.Subscribe("1", `subscription($id: ID!) { paidActionUpdated(id: $id) { state invoice { bolt11 } } }`, vars{"id": id})
	s.WantState("1", "PENDING_HELD")
	a.Want(payer, post, nil)
	if r := s.next("1"); r.text("paidActionUpdated", "invoice", "bolt11") == "" {
		t.Errorf("%s", r.Raw)
	}
}

// A subscription that follows nothing, or one thing under two names, is refused.
func TestASubscriptionFollowsOneThing(t *testing.T) {
	t.Parallel()
	a := serve(t)
	for _, query := range []string{
		`subscription { paidActionUpdated(id: "1") @skip(if: true) { id } }`,
		`subscription($on: Boolean!) { ... @include(if: $on) { paidActionUpdated(id: "1") { id } } }`,
		`subscription { a: paidActionUpdated(id: "1") { id } b: paidActionUpdated(id: "2") { id } }`,
	} {
		if _, r := a.Events(nobody, query, vars{"on": false}).Next(); r.code() != "GRAPHQL_VALIDATION_FAILED" {
			t.Errorf("%s: %s", query, r.Raw)
		}
	}
	if log := a.Log.String(); strings.Contains(log, "ERROR") {
		t.Errorf("what the asker did wrong is logged as a fault of ours: %s", log)
	}
}

// A request that could be answered only once is no subscription: whoever forgot to ask for events would wait in vain.
func TestASubscriptionNeedsAnAnswerThatGoesOn(t *testing.T) {
	t.Parallel()
	a := serve(t)
	payer := a.Person("payer", 0, 0)
	v, _, _ := a.holdPost(payer, "followed")
	if r := a.Do(payer, follow, v); r.code() != "INVALID_INPUT" || !strings.Contains(r.Errors[0].Message, "Accept: text/event-stream") {
		t.Errorf("%s", r.Raw)
	}
}

// Others can neither follow an action nor learn that it exists.
func TestSubscriptionOfOthers(t *testing.T) {
	t.Parallel()
	a := serve(t)
	payer, other := a.Person("payer", 0, 0), a.Person("other", 0, 0)
	v, _, _ := a.holdPost(payer, "mine")
	for _, as := range []person{other, nobody} {
		s := a.Socket(as)
		s.Subscribe("1", follow, v)
		if r := s.next("1"); r.code() != "NOT_FOUND" {
			t.Errorf("%s", r.Raw)
		}
		s.WantComplete("1")
		if _, r := a.Events(as, follow, v).Next(); r.code() != "NOT_FOUND" {
			t.Errorf("%s", r.Raw)
		}
	}
	// A connection serves queries and mutations, too, and refuses as HTTP does.
	s := a.Socket(payer)
	s.Subscribe("q", `{ me { user { name } } }`, nil)
	if r := s.next("q"); r.text("me", "user", "name") != "payer" {
		t.Errorf("%s", r.Raw)
	}
	s.WantComplete("q")
	s.Subscribe("m", `mutation { donate(sats: 0) { id } }`, nil)
	if r := s.next("m"); r.code() != "INVALID_AMOUNT" {
		t.Errorf("%s", r.Raw)
	}
}

// A client that does not read holds up nobody, and finds the last state when it does.
func TestSlowReader(t *testing.T) {
	t.Parallel()
	a := serve(t)
	payer := a.Person("payer", 0, 0)
	v, id, bolt11 := a.holdPost(payer, "slow")
	slow, quick := a.Socket(payer), a.Socket(payer)
	slow.Subscribe("1", follow, v)
	quick.Subscribe("1", follow, v)
	quick.WantState("1", "PENDING_HELD")
	for range 10_000 {
		a.Feed.changed(id) // returns at once, whoever reads
	}
	a.PayInvoice(bolt11)
	a.Advance(id)
	quick.WantState("1", "HELD")
	a.Advance(id)
	quick.WantState("1", "PAID")
	quick.WantComplete("1")
	for last := ""; last != "PAID"; {
		last = slow.next("1").text("paidActionUpdated", "state")
	}
	slow.WantComplete("1")
}

// When a key is revoked, the subscriptions that it opened end.
func TestRevokedKeyEndsSubscription(t *testing.T) {
	t.Parallel()
	a := serve(t, func(c *graph.Config) { c.RecheckKeys = time.Minute })
	payer := a.Person("payer", 0, 0)
	v, id, _ := a.holdPost(payer, "revoked")
	s, e := a.Socket(payer), a.Events(payer, follow, v)
	s.Subscribe("1", follow, v)
	s.WantState("1", "PENDING_HELD")
	e.WantState("PENDING_HELD")
	if _, err := db.New(a.Pool).RevokeKey(a.Ctx, db.RevokeKeyParams{At: new(a.Clock.Now()), KeyHash: graph.HashKey(payer.Key)}); err != nil {
		t.Fatal(err)
	}
	a.Clock.Advance(2 * time.Minute)
	a.Feed.changed(id)
	if m, err := s.read(); err != nil || m.Type != "error" || !strings.Contains(string(m.Payload), "UNAUTHENTICATED") {
		t.Errorf("%+v %s, %v", m, m.Payload, err)
	}
	e.WantCut()
	s.Subscribe("2", `{ me { creditsMsat } }`, nil)
	if r := s.next("2"); r.code() != "UNAUTHENTICATED" {
		t.Errorf("%s", r.Raw)
	}
}

// If the database is unavailable for a moment, no subscription ends, whether what it says then passes by itself or not.
func TestSubscriptionOutlivesFaults(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		table string // that cannot be read
		shuts bool   // as the database is shutting down; else the table is not there
		says  string
	}{
		"a fault":                            {"invoice", false, "42P01"},
		"an outage":                          {"invoice", true, "57P03"},
		"an outage, as the key is looked up": {"key_epoch", true, "57P03"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			a := serve(t)
			payer := a.Person("payer", 0, 0)
			v, id, bolt11 := a.holdPost(payer, "outlives")
			s := a.Socket(payer)
			s.Subscribe("1", follow, v)
			s.WantState("1", "PENDING_HELD")
			exec := func(sql string) {
				if _, err := a.Pool.Exec(a.Ctx, sql); err != nil {
					t.Fatal(err)
				}
			}
			exec(`CREATE FUNCTION is_open() RETURNS boolean LANGUAGE plpgsql AS $$ BEGIN RAISE 'shutting down' USING ERRCODE = '57P03'; END $$`)
			exec(`ALTER TABLE ` + c.table + ` RENAME TO away`)
			if c.shuts {
				exec(`CREATE VIEW ` + c.table + ` AS SELECT * FROM away WHERE is_open()`)
			}
			a.Clock.Advance(time.Minute) // and its key is looked up again
			for end := time.Now().Add(20 * time.Second); !strings.Contains(a.Log.String(), c.says); a.Feed.changed(id) {
				if time.Now().After(end) {
					t.Fatal("nothing is looked at again")
				}
			}
			exec(`DROP VIEW IF EXISTS ` + c.table)
			exec(`ALTER TABLE away RENAME TO ` + c.table)
			a.PayInvoice(bolt11)
			a.Advance(id)
			s.WantState("1", "HELD")
		})
	}
}

func TestWebsocketDoor(t *testing.T) {
	t.Parallel()
	a := serve(t, func(c *graph.Config) {
		c.Origins = []string{"https://friend.example"}
		c.Limits.Operations = 2
		c.Limits.Body = 1000
	})
	payer := a.Person("payer", 0, 0)
	for name, c := range map[string]struct {
		header http.Header
		status int
	}{
		"a program":     {http.Header{}, http.StatusSwitchingProtocols},
		"our own page":  {http.Header{"Origin": {a.URL}}, http.StatusSwitchingProtocols},
		"a friend":      {http.Header{"Origin": {"https://friend.example"}}, http.StatusSwitchingProtocols},
		"a stranger":    {http.Header{"Origin": {"https://stranger.example"}}, http.StatusForbidden},
		"a sandbox":     {http.Header{"Origin": {"null"}}, http.StatusForbidden},
		"a known key":   {http.Header{"Authorization": {"Bearer " + payer.Key}}, http.StatusSwitchingProtocols},
		"a unknown key": {http.Header{"Authorization": {"Bearer hf_unknown"}}, http.StatusUnauthorized},
	} {
		_, resp, err := a.dial(c.header)
		if resp == nil || resp.StatusCode != c.status {
			t.Errorf("%s: %v, want %d (%v)", name, resp, c.status, err)
		}
	}
	req, err := http.NewRequestWithContext(a.Ctx, http.MethodGet, a.URL+"/graphql", nil)
	if err != nil {
		t.Fatal(err)
	}
	req.Header = handshake()
	req.Header.Set("Sec-WebSocket-Protocol", "graphql-ws")
	if r := a.Send(req); r.Status != http.StatusBadRequest || r.code() != "INVALID_INPUT" || !strings.Contains(r.Raw, "graphql-transport-ws") {
		t.Errorf("an old protocol: %d %s", r.Status, r.Raw)
	}

	// The first message has an unknown key.
	s, _, err := a.dial(nil)
	if err != nil {
		t.Fatal(err)
	}
	s.send(message{Type: "connection_init", Payload: encode(t, map[string]string{"Authorization": "Bearer hf_unknown"})})
	m, err := s.read()
	for err == nil {
		m, err = s.read()
	}
	if websocket.CloseStatus(err) != 4401 {
		t.Errorf("%+v, %v", m, err)
	}

	// Only so many operations may be under way at once.
	s = a.Socket(payer)
	v, _, _ := a.holdPost(payer, "limits")
	for _, id := range []string{"1", "2"} {
		s.Subscribe(id, follow, v)
		s.WantState(id, "PENDING_HELD")
	}
	s.Subscribe("3", follow, v)
	if r := s.next("3"); r.code() != "OPERATION_LIMIT_EXCEEDED" {
		t.Errorf("%s", r.Raw)
	}
	s.WantComplete("3")

	// A message that is too large ends the connection.
	s = a.Socket(payer)
	s.Subscribe("1", "{ me { creditsMsat } } #"+strings.Repeat("x", 2000), nil)
	if m, err := s.read(); err == nil {
		t.Errorf("%+v", m)
	}
}

// What cannot be read on a websocket gets a code: an operation is answered like any other, and what is no message at
// all ends the connection.
func TestMalformedMessages(t *testing.T) {
	t.Parallel()
	a := serve(t)
	payer := a.Person("payer", 0, 0)
	s := a.Socket(payer)
	for name, payload := range map[string]string{"none": "", "null": "null", "empty": "{}", "a text": `"{ me { user { name } } }"`, "a list": "[]",
		"no query": `{"variables": {}}`, "a query that is none": `{"query": 7}`, "variables that are none": `{"query": "{ me { user { name } } }", "variables": []}`,
		"a number that no type holds": `{"query": "{ me { user { name } } }", "variables": {"n": 1e999}}`} {
		s.send(message{Type: "subscribe", ID: "1", Payload: json.RawMessage(payload)})
		m, err := s.read()
		var errs []answerError
		if err != nil || m.Type != "error" || m.ID != "1" || json.Unmarshal(m.Payload, &errs) != nil || len(errs) != 1 || errs[0].Extensions.Code != "GRAPHQL_VALIDATION_FAILED" {
			t.Fatalf("payload: %s: %+v %s, %v", name, m, m.Payload, err)
		}
	}
	s.Subscribe("2", `{ me { user { name } } }`, nil)
	if r := s.next("2"); r.text("me", "user", "name") != "payer" {
		t.Errorf("%s", r.Raw)
	}

	for _, text := range []string{"", "{", "nonsense", "[]", "7", "{}", `{"type":"subscribed","id":"1"}`, `{"type":7}`, `{"type":"next","id":"1"}`,
		`{"type":"subscribe","payload":{"query":"{ me { user { name } } }"}}`, `{"type":"subscribe","id":7,"payload":{}}`} {
		s := a.Socket(payer)
		if err := s.conn.Write(a.Ctx, websocket.MessageText, []byte(text)); err != nil {
			t.Fatal(err)
		}
		s.WantClosed(text, "4400 INVALID_INPUT")
	}
	for text, want := range map[string]string{
		`nonsense`:                     "4400 INVALID_INPUT",
		`{"type":"complete","id":"1"}`: "4400 INVALID_INPUT",
		`{"type":"subscribe","id":"1","payload":{"query":"{ me { user { name } } }"}}`:   "4401 UNAUTHENTICATED",
		`{"type":"connection_init","payload":"hf_"}`:                                     "4400 INVALID_INPUT",
		`{"type":"connection_init","payload":{"Authorization":"Bearer hf_unknown"}}`:     "4401 UNAUTHENTICATED",
		`{"type":"connection_init","payload":{"Authorization":["Bearer hf_unknown"]}}`:   "4401 UNAUTHENTICATED",
		`{"type":"connection_init","payload":{"authorization":{"Bearer":"hf_unknown"}}}`: "4401 UNAUTHENTICATED",
	} {
		s, _, err := a.dial(nil)
		if err != nil {
			t.Fatal(err)
		}
		if err := s.conn.Write(a.Ctx, websocket.MessageText, []byte(text)); err != nil {
			t.Fatal(err)
		}
		s.WantClosed(text, want)
	}

	// A key that cannot be looked up is not called wrong.
	if _, err := a.Pool.Exec(a.Ctx, `ALTER TABLE api_key RENAME TO away`); err != nil {
		t.Fatal(err)
	}
	s, _, err := a.dial(nil)
	if err != nil {
		t.Fatal(err)
	}
	s.send(message{Type: "connection_init", Payload: encode(t, map[string]string{"Authorization": "Bearer hf_whoever"})})
	s.WantClosed("a key that cannot be looked up", "1013 INTERNAL")
}

// Shutting down ends every subscription without calling it complete, and no connection as if all was said, so that
// clients ask again. It leaves no goroutine behind. Not parallel: it counts goroutines.
func TestShutdown(t *testing.T) {
	a := serve(t)
	payer := a.Person("payer", 0, 0)
	v, _, _ := a.holdPost(payer, "shutdown")
	a.Want(payer, `{ items { nodes { author { name } } } }`, nil)
	http.DefaultTransport.(*http.Transport).CloseIdleConnections()
	before := goleak.IgnoreCurrent()

	s, e := a.Socket(payer), a.Events(payer, follow, v)
	left := a.Socket(payer)
	for _, s := range []*socket{s, left} {
		s.Subscribe("1", follow, v)
		s.WantState("1", "PENDING_HELD")
	}
	e.WantState("PENDING_HELD")
	for i := range 40 { // the end of the connection races with theirs
		id := strconv.Itoa(2 + i)
		s.Subscribe(id, follow, v)
		s.WantState(id, "PENDING_HELD")
	}
	if err := left.conn.Close(websocket.StatusNormalClosure, ""); err != nil {
		t.Errorf("leave: %v", err)
	}
	a.Stop()
	for {
		m, err := s.read()
		if err != nil {
			var end websocket.CloseError
			if errors.As(err, &end); end.Code != websocket.StatusGoingAway || end.Reason != "TRY_AGAIN" {
				t.Errorf("it is closed by %v", err)
			}
			break
		}
		t.Errorf("it is told %+v", m)
	}
	e.WantCut()
	e.cancel()
	_ = s.conn.CloseNow()
	http.DefaultTransport.(*http.Transport).CloseIdleConnections()
	goleak.VerifyNone(t, before)
}

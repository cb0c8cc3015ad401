package graph_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"log"
	"net"
	"net/http"
	"os"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/99designs/gqlgen/graphql/introspection"
	"github.com/coder/websocket"

	"github.com/a-seed-a7aed72f/holdfast/graph"
)

// One request cannot do what many may not: each paying mutation in it counts, and so does anything asked for under
// aliases.
func TestAliasesAreNoWayAround(t *testing.T) {
	t.Parallel()
	a := limited(t, graph.Rates{Key: 100, KeyPaying: 0.5})
	payer := a.Person("payer", 1000, 0)
	times := func(n int, field string) string {
		var b strings.Builder
		for i := range n {
			fmt.Fprintf(&b, " a%d: %s", i, field)
		}
		return b.String()
	}
	for name, c := range map[string]struct{ query, code string }{
		"1,000 payments":            {`mutation {` + times(1000, `donate(sats: 1) { id }`) + ` }`, "GRAPHQL_PARSE_FAILED"}, // too many tokens
		"100 payments":              {`mutation {` + times(100, `donate(sats: 1) { id }`) + ` }`, "MUTATION_LIMIT_EXCEEDED"},
		"100 payments in fragments": {`mutation {` + times(0, "") + strings.Repeat(` ...F`, 100) + ` } fragment F on Mutation { donate(sats: 1) { id } }`, "MUTATION_LIMIT_EXCEEDED"},
		"400 prices":                {`{` + times(400, `itemPriceMsat`) + ` }`, "QUERY_LIMIT_EXCEEDED"},
		"20 lists":                  {`{` + times(20, `items(first: 100) { nodes { id title body url } }`) + ` }`, "COMPLEXITY_LIMIT_EXCEEDED"},
	} {
		if r := a.Do(payer, c.query, nil); r.code() != c.code || a.Count(`SELECT count(*) FROM paid_action`) != 0 {
			t.Errorf("%s: %s", name, r.Raw[:min(len(r.Raw), 300)])
		}
	}
	r := a.Do(payer, `mutation {`+times(10, `donate(sats: 1) { id }`)+` }`, nil)
	if n := a.Count(`SELECT count(*) FROM paid_action`); n != 5 || r.code() != rateLimited {
		t.Errorf("of ten payments in one request %d were made, want the five that may come at once: %s", n, r.Raw)
	}
}

// Faults in a document are reported in few words, however many there are. The time to find them is bounded, too: the
// time limit only begins afterwards.
func TestFaultsAreToldInFewWords(t *testing.T) {
	t.Parallel()
	a := serve(t, func(c *graph.Config) { c.Development = false })
	in := func(set string) string { return `{ me { user { ` + set + ` } } }` }
	fragments := func(n int, last string) string { // each has two fields that spread the next: 2^n of them
		q := `{ item(id: 1) { ` + strings.Repeat(`parent { `, n) + `id` + strings.Repeat(` }`, n) + ` ...F0 } }`
		for i := range n {
			q += fmt.Sprintf(` fragment F%d on Item { parent { ...F%d } parent { ...F%d } }`, i, i+1, i+1)
		}
		return q + fmt.Sprintf(` fragment F%d on Item { %s }`, n, last)
	}
	for name, c := range map[string]struct{ query, code string }{
		"many fields of one name":          {in(strings.Repeat("id:name ", 325) + strings.Repeat("id ", 970)), "SELECTION_LIMIT_EXCEEDED"}, // else 315,250 pairs
		"one field often":                  {in(strings.Repeat("name ", 1900)), "SELECTION_LIMIT_EXCEEDED"},
		"fragments that double":            {fragments(40, "id"), "SELECTION_LIMIT_EXCEEDED"}, // else this would never end
		"fragments in a circle":            {fragments(40, "...F0"), "GRAPHQL_VALIDATION_FAILED"},
		"a fragment in itself, never used": {`{ me { user { id } } } fragment F on Item { parent { ...F } parent { ...F } }`, "GRAPHQL_VALIDATION_FAILED"},
		"fragments within fragments":       {in(strings.Repeat("... { ", 40) + strings.Repeat("name ", 40) + strings.Repeat("} ", 40)), "SELECTION_LIMIT_EXCEEDED"},
		"a fragment that is never used":    {`{ me { user { id } } } fragment F on User { ` + strings.Repeat("name ", 1900) + `}`, "SELECTION_LIMIT_EXCEEDED"},
		"an operation that is not asked":   {`query A { me { creditsMsat } } query B { me { ` + strings.Repeat("creditsMsat ", 1900) + `} }`, "SELECTION_LIMIT_EXCEEDED"},
		"many faults within the limit":     {in(strings.Repeat("id:name ", 240) + strings.Repeat("id ", 240)), "GRAPHQL_VALIDATION_FAILED"},
		"one fault of many parts":          {`{ item(id: 1) { parent { ` + strings.Repeat("id ", 240) + `} parent { ` + strings.Repeat("id:title ", 240) + `} } }`, "GRAPHQL_VALIDATION_FAILED"},
		"many unknown fields":              {in(strings.Repeat("nothing ", 480)), "GRAPHQL_VALIDATION_FAILED"},
		"a fault that quotes the query":    {`{ item(id: ` + strings.Repeat("[", 900) + `"` + strings.Repeat("ä", 20_000) + `"` + strings.Repeat("]", 900) + `) { id } }`, "GRAPHQL_VALIDATION_FAILED"},
	} {
		for range 2 { // what was refused once is not taken for valid
			r := a.Do(nobody, c.query, nil)
			if r.code() != c.code || len(r.Errors) != 1 || len(r.Raw) > 1000 {
				t.Errorf("%s: %q, %d errors in %d bytes: %s", name, r.code(), len(r.Errors), len(r.Raw), r.Raw[:min(len(r.Raw), 300)])
			}
		}
	}
	whole := serve(t) // in development the whole schema may be asked for
	if r := whole.Do(nobody, introspection.Query, nil); len(r.Errors) > 0 {
		t.Errorf("%s", r.Raw)
	}
}

// A query that cannot be read, or is refused for its size, counts on a websocket as it does over HTTP.
func TestRefusedOperationsCount(t *testing.T) {
	t.Parallel()
	a := limited(t, graph.Rates{Key: 0.5})
	s := a.Socket(a.Person("busy", 0, 0)) // five may come at once
	code := ""
	for range 6 {
		s.send(message{Type: "subscribe", ID: "1", Payload: encode(t, map[string]any{"query": "{ nonsense"})})
		m, err := s.read()
		if err != nil {
			t.Fatal(err)
		}
		if strings.Contains(string(m.Payload), rateLimited) {
			code = rateLimited
		}
	}
	if code != rateLimited {
		t.Error("operations that cannot be read are not bounded")
	}
}

// One asker can open only so many websockets, and only so many subscriptions, over all connections together.
func TestConnectionsAreBounded(t *testing.T) {
	t.Parallel()
	a := serve(t, func(c *graph.Config) { c.Limits.Sockets, c.Limits.Subscriptions = 2, 3 })
	payer, other := a.Person("payer", 0, 0), a.Person("other", 0, 0)
	v, _, _ := a.holdPost(payer, "followed")
	first, second := a.Socket(payer), a.Socket(payer)
	a.Socket(other)
	a.Socket(nobody)
	refused := func() bool {
		t.Helper()
		s, _, err := a.dial(nil)
		if err != nil {
			t.Fatal(err)
		}
		s.send(message{Type: "connection_init", Payload: encode(t, map[string]string{"Authorization": "Bearer " + payer.Key})})
		_, err = s.read()
		_ = s.conn.CloseNow()
		return websocket.CloseStatus(err) == 4429
	}
	if !refused() {
		t.Error("a third websocket was opened")
	}

	first.Subscribe("1", follow, v)
	first.WantState("1", "PENDING_HELD")
	second.Subscribe("1", follow, v)
	second.WantState("1", "PENDING_HELD")
	e := a.Events(payer, follow, v)
	e.WantState("PENDING_HELD")
	if _, r := a.Events(payer, follow, v).Next(); r.code() != "OPERATION_LIMIT_EXCEEDED" {
		t.Errorf("a fourth subscription, by events: %s", r.Raw)
	}
	second.Subscribe("2", follow, v)
	if r := second.next("2"); r.code() != "OPERATION_LIMIT_EXCEEDED" {
		t.Errorf("a fourth subscription, on a websocket: %s", r.Raw)
	}
	second.WantComplete("2")

	// A connection that ends gives its place back.
	_ = first.conn.CloseNow()
	a.until("the place of the websocket that was closed", func() bool { return !refused() })
	a.until("the place of its subscription", func() bool {
		_, r := a.Events(payer, follow, v).Next()
		return r.code() == ""
	})
}

// What a subscription was asked with is kept for as long as it lasts, so that is little. What does not belong to it is
// not kept, and other operations may be long.
func TestASubscriptionKeepsLittle(t *testing.T) {
	t.Parallel()
	a := serve(t)
	payer := a.Person("payer", 1000, 0)
	v, _, _ := a.holdPost(payer, "followed")
	long := strings.Repeat("x", 16<<10)
	s := a.Socket(payer)
	s.send(message{Type: "subscribe", ID: "with more", Payload: encode(t, map[string]any{"query": follow, "variables": v, "unknown": long})})
	s.WantState("with more", "PENDING_HELD")
	for name, ask := range map[string]struct { // of the second the query is known by now
		query string
		v     vars
	}{
		"a comment":          {follow + " #" + long, v},
		"a variable":         {follow, vars{"id": v["id"], "other": long}},
		"an operation aside": {"query Q { me { user { name } } } #" + long + "\n" + strings.Replace(follow, "subscription", "subscription S", 1), v},
	} {
		s.Subscribe(name, ask.query, ask.v)
		if r := s.next(name); r.code() != "BODY_LIMIT_EXCEEDED" {
			t.Errorf("%s, on a websocket: %s", name, r.Raw)
		}
		s.WantComplete(name)
		if _, r := a.Events(payer, ask.query, ask.v).Next(); r.code() != "BODY_LIMIT_EXCEEDED" {
			t.Errorf("%s, by events: %s", name, r.Raw)
		}
	}
	s.Subscribe("long", `mutation ($text: String!) { createPost(title: "long", body: $text) { state } }`, vars{"text": long})
	if r := s.next("long"); r.text("createPost", "state") != "PAID" {
		t.Errorf("a long text: %s", r.Raw)
	}
	s.WantComplete("long")

	s.Subscribe(strings.Repeat("i", 129), follow, v)
	if m, err := s.read(); websocket.CloseStatus(err) != 4400 {
		t.Errorf("an id that is kept, too: %+v %s, %v", m, m.Payload, err)
	}
	s, _, err := a.dial(nil)
	if err != nil {
		t.Fatal(err)
	}
	s.send(message{Type: "connection_init", Payload: encode(t, vars{"kept": long})})
	if _, err := s.read(); websocket.CloseStatus(err) != 4400 {
		t.Errorf("a first message that is kept, too: %v", err)
	}
}

// An operation that has ended gives its place on the connection to the next.
func TestOperationsGiveTheirPlaceBack(t *testing.T) {
	t.Parallel()
	a := serve(t, func(c *graph.Config) { c.Limits.Operations = 2 })
	s := a.Socket(nobody)
	for i := range 5 {
		a.until("a place", func() bool {
			id := fmt.Sprint(i)
			s.Subscribe(id, `{ itemPriceMsat }`, nil)
			r := s.next(id)
			s.WantComplete(id)
			return r.code() == ""
		})
	}
}

// A connection that begins with nonsense of any kind is closed: otherwise it would stay open for nothing.
func TestWebsocketsThatBeginWithNonsenseAreClosed(t *testing.T) {
	t.Parallel()
	a := serve(t)
	for _, said := range []string{`{"type":"connection_init","payload":"x"}`, `{"type":"connection_init","payload":{"Authorization":5}}`, `{"type":"subscribe"}`, `nonsense`, ``} {
		t.Run(said, func(t *testing.T) {
			t.Parallel()
			s, _, err := a.In(t).dial(nil)
			if err != nil {
				t.Fatal(err)
			}
			if err := s.conn.Write(t.Context(), websocket.MessageText, []byte(said)); err != nil {
				t.Fatal(err)
			}
			if m, err := s.read(); err == nil && m.Type == "connection_ack" { // having no key is no nonsense
				_ = s.conn.CloseNow()
			} else if err == nil || errors.Is(err, context.DeadlineExceeded) {
				t.Errorf("%+v, %v", m, err)
			}
		})
	}
}

// until waits until so is true.
func (a *api) until(what string, so func() bool) {
	a.Helper()
	again := time.NewTicker(20 * time.Millisecond)
	defer again.Stop()
	for end := time.Now().Add(20 * time.Second); !so(); <-again.C {
		if time.Now().After(end) {
			a.Fatalf("waited in vain for %s", what)
		}
	}
}

// A name that a query chooses is in the answer as often as a list is long: of some thousand things with a name of a
// quarter of a megabyte each the process would end.
func TestNamesOfAnAnswerAreBounded(t *testing.T) {
	t.Parallel()
	a := serve(t)
	a.PostBy(a.Person("author", 100, 0), "short")
	for _, field := range []string{"id", "__typename"} {
		for _, name := range []string{strings.Repeat("n", 101), strings.Repeat("n", 200_000)} {
			for _, query := range []string{`{ items { nodes { ` + name + `: ` + field + ` } } }`,
				`{ items { nodes { ...F } } } fragment F on Item { ` + name + `: ` + field + ` }`} {
				if r := a.Do(nobody, query, nil); r.code() != "SELECTION_LIMIT_EXCEEDED" || len(r.Raw) > 1000 {
					t.Errorf("a name of %d bytes: %d bytes, %.300s", len(name), len(r.Raw), r.Raw)
				}
			}
		}
		a.Want(nobody, `{ items { nodes { `+strings.Repeat("n", 100)+`: `+field+` } } }`, nil)
	}
}

// narrow is a client that hardly takes anything before it reads.
func narrow() *http.Client {
	return &http.Client{Transport: &http.Transport{DialContext: (&net.Dialer{Control: func(_, _ string, c syscall.RawConn) error {
		return c.Control(func(fd uintptr) { _ = syscall.SetsockoptInt(int(fd), syscall.SOL_SOCKET, syscall.SO_RCVBUF, 4096) })
	}}).DialContext}}
}

// Of answers that nobody reads one asker has only so much in memory. Then they are refused whatever is longer, and soon
// everything; others are not. Once the answers are gone they may ask again.
func TestUnreadAnswersAreBounded(t *testing.T) {
	t.Parallel()
	a := serve(t, func(c *graph.Config) { c.Limits.Queries, c.Limits.Unread = 150, 12<<20 })
	author := a.Person("author", 1000, 0)
	item := a.Want(author, `mutation($b: String!) { createPost(title: "long", body: $b) { result { item { id } } } }`, vars{"b": strings.Repeat("<", 8_000)}).
		text("createPost", "result", "item", "id")
	var long strings.Builder // 7 MB as JSON, of 1.2 MB of text: more than the kernel keeps
	for i := range 150 {
		fmt.Fprintf(&long, "a%d: item(id: %s) { body } ", i, item)
	}
	query := "{ " + long.String() + "}"
	for name, leave := range map[string]func(*testing.T, person) (end func()){
		"http": func(t *testing.T, p person) func() {
			req, err := http.NewRequestWithContext(t.Context(), http.MethodPost, a.URL+"/graphql", bytes.NewReader(encode(t, vars{"query": query})))
			if err != nil {
				t.Fatal(err)
			}
			req.Header.Set("Content-Type", "application/json")
			req.Header.Set("Authorization", "Bearer "+p.Key)
			resp, err := narrow().Do(req)
			if err != nil {
				t.Fatal(err)
			}
			return func() { _ = resp.Body.Close() }
		},
		"websocket": func(t *testing.T, p person) func() {
			conn, _, err := websocket.Dial(t.Context(), strings.Replace(a.URL, "http", "ws", 1)+"/graphql",
				&websocket.DialOptions{Subprotocols: []string{"graphql-transport-ws"}, HTTPClient: narrow()})
			if err != nil {
				t.Fatal(err)
			}
			s := &socket{t, conn}
			s.send(message{Type: "connection_init", Payload: encode(t, map[string]string{"Authorization": "Bearer " + p.Key})})
			if m, err := s.read(); err != nil || m.Type != "connection_ack" {
				t.Fatalf("%+v, %v", m, err)
			}
			s.Subscribe("1", query, nil)
			if _, _, err := conn.Reader(t.Context()); err != nil { // the answer has begun to come
				t.Fatal(err)
			}
			s.send(message{Type: "complete", ID: "1"}) // which makes nothing smaller
			return func() { _ = conn.CloseNow() }
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			a := a.In(t)
			p, other := a.Person(name+"reader", 10, 0), a.Person(name+"other", 0, 0)
			end := leave(t, p)
			a.until("a refusal", func() bool { return a.Do(p, query, nil).code() == "OPERATION_LIMIT_EXCEEDED" })
			if r := a.Want(p, `mutation { donate(sats: 1) { state } }`, nil); r.text("donate", "state") != "PAID" {
				t.Errorf("a short answer: %s", r.Raw)
			}
			a.Want(other, query, nil)
			end()
			a.until("room again", func() bool { return a.Do(p, query, nil).code() == "" })
		})
	}
}

// A client that asks for much and reads nothing loses the connection, although it says that it is there.
func TestReadersWhoTakeNothing(t *testing.T) {
	t.Parallel()
	a := serve(t, func(c *graph.Config) { c.Limits.Sockets, c.Limits.Queries, c.Keepalive = 1, 150, 3*time.Second })
	author := a.Person("author", 1000, 0)
	item := a.Want(author, `mutation($b: String!) { createPost(title: "long", body: $b) { result { item { id } } } }`, vars{"b": strings.Repeat("x", 40_000)}).
		text("createPost", "result", "item", "id")
	conn, _, err := websocket.Dial(a.Ctx, strings.Replace(a.URL, "http", "ws", 1)+"/graphql",
		&websocket.DialOptions{Subprotocols: []string{"graphql-transport-ws"}, HTTPClient: narrow()})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = conn.CloseNow() })
	s := &socket{t, conn}
	s.send(message{Type: "connection_init", Payload: encode(t, map[string]string{"Authorization": "Bearer " + author.Key})})
	if m, err := s.read(); err != nil || m.Type != "connection_ack" { // nothing is read from here on
		t.Fatalf("%+v, %v", m, err)
	}
	// From here until the next ping gqlgen has no deadline of its own, and the ping waits for what is being written.
	s.send(message{Type: "pong"})
	var query strings.Builder
	for i := range 150 {
		fmt.Fprintf(&query, "a%d: item(id: %s) { body } ", i, item)
	}
	for i := range 4 { // of 6 MB each
		s.Subscribe(fmt.Sprint(i), "{ "+query.String()+"}", nil)
	}
	a.until("the end of the connection", func() bool {
		ctx, cancel := context.WithTimeout(a.Ctx, 5*time.Second)
		defer cancel()
		s, _, err := a.dial(nil)
		if err != nil {
			t.Fatal(err)
		}
		defer s.conn.CloseNow()
		s.send(message{Type: "connection_init", Payload: encode(t, map[string]string{"Authorization": "Bearer " + author.Key})})
		_, _, err = s.conn.Read(ctx)
		return err == nil
	})
}

// Lists among the arguments are limited before anything is done for them.
func TestArgumentsAreBounded(t *testing.T) {
	t.Parallel()
	a := serve(t)
	p := a.Person("somebody", 1000, 0)
	ids, texts := make([]int, 10_000), make([]string, 5_000)
	for i := range ids {
		ids[i] = i + 1
	}
	before := a.fingerprint()
	for query, v := range map[string]vars{
		`mutation($x: [ID!]!) { walletsReorder(ids: $x) { id } }`:                       {"x": ids},
		`mutation($x: [ID!]) { createPost(title: "x", uploads: $x) { id } }`:            {"x": ids},
		`mutation($x: [String!]!) { createPoll(title: "x", options: $x) { id } }`:       {"x": texts},
		`mutation($x: String) { donate(sats: 1, idempotencyKey: $x) { id } }`:           {"x": strings.Repeat("x", 60_000)},
		`mutation($x: String!) { territoryBilling(name: $x) { id } }`:                   {"x": strings.Repeat("x", 60_000)},
		`mutation($x: String!) { withdraw(to: $x, maxFeeSats: 1) { id } }`:              {"x": "lnbc" + strings.Repeat("1", 60_000)},
		`mutation($x: String!) { walletSave(settings: {lightningAddress: $x}) { id } }`: {"x": strings.Repeat("x", 60_000) + "@example.org"},
	} {
		r := a.Do(p, query, v)
		if code := r.code(); code == "" || code == "INTERNAL" || a.fingerprint() != before {
			t.Errorf("%s: %s", query, r.Raw[:min(len(r.Raw), 300)])
		}
	}
}

// What gqlgen does not understand is quoted neither in an answer nor in the log of the process. Not parallel: the
// process has only one log.
func TestNothingIsQuoted(t *testing.T) {
	a := serve(t)
	var said bytes.Buffer
	log.SetOutput(&said)
	t.Cleanup(func() { log.SetOutput(os.Stderr) })
	for _, body := range []string{`{"query": 5, "variables": {"key": "topsecret"}}`, `{"query": "{ me { creditsMsat } }", "variables": "topsecret"}`,
		`{"query": "{ me { creditsMsat } }", "extensions": 5, "x": "topsecret"}`, `{"query": "{ me { creditsMsat } }"} topsecret`} {
		for _, accept := range []string{"application/json", "text/event-stream"} {
			if r := a.Post("", body, "Accept", accept); r.Status != http.StatusBadRequest || strings.Contains(r.Raw+said.String()+a.Log.String(), "topsecret") {
				t.Errorf("%s: %d %s\n%s", body, r.Status, r.Raw, said.String())
			}
		}
	}
}

// However few fields are asked for, the text of an answer is bounded, by its bytes. Whoever asks for less gets it, and
// what is not asked for does not count.
func TestTextOfAnAnswerIsBounded(t *testing.T) {
	t.Parallel()
	a := serve(t, func(c *graph.Config) { c.Limits.Text = 10_000 })
	author := a.Person("author", 100, 0)
	root := a.Want(author, `mutation { createPost(title: "t", paymentMethod: FEE_CREDIT) { result { item { id } } } }`, nil).text("createPost", "result", "item", "id")
	for i := range 4 {
		a.Want(author, `mutation($of: ID!, $text: String!) { createComment(parent: $of, body: $text) { state } }`,
			vars{"of": root, "text": fmt.Sprint(i) + strings.Repeat("\u00e4", 1500)})
	}
	ask := func(fields string) answer {
		return a.Do(nobody, `query($of: ID!) { item(id: $of) { `+fields+` } }`, vars{"of": root})
	}
	for fields, want := range map[string]string{
		`comments { nodes { id } } thread { nodes { item { id } } }`:                     "",
		`comments(first: 3) { nodes { body } }`:                                          "",
		`comments { nodes { body } }`:                                                    "TEXT_LIMIT_EXCEEDED",
		`a: comments(first: 2) { nodes { body } } comments(first: 2) { nodes { body } }`: "TEXT_LIMIT_EXCEEDED",
	} {
		if r := ask(fields); r.code() != want {
			t.Errorf("%s: %q, want %q: %.300s", fields, r.code(), want, r.Raw)
		}
	}
	// Of a thread a page has as many as fit into half of that, and goes on behind them.
	var after any
	for _, want := range []int{1, 1, 1, 1} {
		r := a.Want(nobody, `query($of: ID!, $after: ID) { item(id: $of) { thread(after: $after) { next nodes { item { id body } } } } }`, vars{"of": root, "after": after})
		if nodes := r.at("item", "thread", "nodes").([]any); len(nodes) != want {
			t.Errorf("a page has %d texts of 3 kB, want %d", len(nodes), want)
		}
		after = r.at("item", "thread", "next")
	}
	if after != nil {
		t.Errorf("a fifth page is to follow, after %v", after)
	}
	// What is too long of a mutation's answer is said at its own path: the mutation was done.
	r := a.Do(author, `mutation($of: ID!, $text: String!) { createComment(parent: $of, body: $text, paymentMethod: FEE_CREDIT) {
		state result { item { a: body b: body } } } }`, vars{"of": root, "text": strings.Repeat("y", 9000)})
	if r.text("createComment", "state") != "PAID" || r.code() != "TEXT_LIMIT_EXCEEDED" || len(r.Errors[0].Path) < 2 {
		t.Errorf("%.500s", r.Raw)
	}
}

// However long the answer of one mutation is, those behind it say what was done: each is answered by itself.
func TestALongAnswerHidesNoOtherMutation(t *testing.T) {
	t.Parallel()
	var long strings.Builder // 20 kB
	for i := range 200 {
		fmt.Fprintf(&long, "a%d: body ", i)
	}
	for code, limits := range map[string]graph.Limits{
		"TEXT_LIMIT_EXCEEDED":      {Text: 10_000},
		"OPERATION_LIMIT_EXCEEDED": {Unread: 1},
	} {
		t.Run(code, func(t *testing.T) {
			t.Parallel()
			a := serve(t, func(c *graph.Config) { c.Limits = limits })
			payer := a.Person("payer", 100, 0)
			r := a.Do(payer, `mutation($text: String!) {
				first: createPost(title: "t", body: $text, paymentMethod: FEE_CREDIT) { result { item { `+long.String()+` } } }
				second: donate(sats: 7, paymentMethod: FEE_CREDIT) { id kind state createdAt costMsat }
				third: donate(sats: 8, paymentMethod: PESSIMISTIC) { id kind state createdAt costMsat invoice { bolt11 } } }`,
				vars{"text": strings.Repeat("y", 100)})
			for _, e := range r.Errors {
				if e.Path[0] != "first" || len(e.Path) < 2 || e.Extensions.Code != code {
					t.Errorf("an error at %v: %v", e.Path, e.Extensions.Code)
				}
			}
			if len(r.Errors) == 0 || r.text("second", "state") != "PAID" || r.text("third", "invoice", "bolt11") == "" {
				t.Errorf("%.500s", r.Raw)
			}
			a.until("room again", func() bool { return a.Do(payer, `{ me { creditsMsat } }`, nil).code() == "" })
		})
	}
}

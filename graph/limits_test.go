package graph_test

import (
	"fmt"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/a-seed-a7aed72f/holdfast/graph"
)

// The longest text fits into a request, in whatever script it is written.
func TestTheLongestTextFits(t *testing.T) {
	t.Parallel()
	a := serve(t)
	p := a.Person("writer", 1000, 0)
	for _, letter := range []string{"a", "語", "🍜"} {
		r := a.Do(p, `mutation($body: String!) { createPost(title: "long", body: $body) { state } }`, vars{"body": strings.Repeat(letter, 40_000)})
		if r.text("createPost", "state") != "PAID" {
			t.Errorf("of %s: %.200s", letter, r.Raw)
		}
	}
}

// Each limit is tested alone, exactly at it and just beyond it.
func TestLimits(t *testing.T) {
	t.Parallel()
	a := serve(t, func(c *graph.Config) {
		c.Limits = graph.Limits{Body: 5000, Tokens: 400, Selections: 120, Depth: 8, Complexity: 400, List: 50, Queries: 4, Mutations: 3}
	})
	p := a.Person("somebody", 100, 0)
	nested := func(depth int) string { // fields deep
		return `{ item(id: "1") ` + strings.Repeat(`{ parent `, depth-2) + `{ id }` + strings.Repeat(` }`, depth-2) + ` }`
	}
	spread := func(fragments int) string { // 2^fragments fields, in few words
		q := `{ item(id: "1") { ...F0 } }`
		for i := range fragments {
			q += fmt.Sprintf(" fragment F%d on Item { ...F%d ... { ...F%d } }", i, i+1, i+1)
		}
		return q + fmt.Sprintf(" fragment F%d on Item { id }", fragments)
	}
	for name, c := range map[string]struct{ query, code string }{
		"deep enough":         {nested(8), ""},
		"too deep":            {nested(9), "DEPTH_LIMIT_EXCEEDED"},
		"deep by fragments":   {`{ item(id: "1") { ...A } } fragment A on Item { parent { ...B } } fragment B on Item { ... on Item { parent { parent { parent { parent { parent { parent { id } } } } } } } }`, "DEPTH_LIMIT_EXCEEDED"},
		"wide enough":         {`{ items(first: 50) { nodes { a: id b: id c: id d: id e: id } } }`, ""},
		"too wide":            {`{ items(first: 50) { nodes { a: id b: id c: id d: id e: id f: id g: id h: id } } }`, "COMPLEXITY_LIMIT_EXCEEDED"},
		"lists in lists":      {`{ items(first: 20) { nodes { comments(first: 20) { nodes { id } } } } }`, "COMPLEXITY_LIMIT_EXCEEDED"},
		"selections":          {`{ me { ` + strings.Repeat("creditsMsat ", 119) + `} }`, ""},
		"too many selections": {`{ me { ` + strings.Repeat("creditsMsat ", 120) + `} }`, "SELECTION_LIMIT_EXCEEDED"},
		"doubling fragments":  {spread(20), "SELECTION_LIMIT_EXCEEDED"},
		"a circle":            {`{ item(id: "1") { ...A } } fragment A on Item { parent { ...A } }`, "GRAPHQL_VALIDATION_FAILED"},
		"long list":           {`{ items(first: 50) { next } }`, ""},
		"too long a list":     {`{ items(first: 51) { next } }`, "INVALID_INPUT"},
		"list of nothing":     {`{ items(first: 0) { next } }`, "INVALID_INPUT"},
		"a negative list":     {`{ items(first: -1) { next } }`, "INVALID_INPUT"},
		"an endless list":     {`{ items(first: 9223372036854775807) { next } }`, "INVALID_INPUT"},
		"beyond endless":      {`{ items(first: 99999999999999999999) { next } }`, "GRAPHQL_VALIDATION_FAILED"},
		"too long comments":   {`{ item(id: "1") { comments(first: 51) { next } } }`, ""}, // there is no such item to have comments
		"too long actions":    {`{ paidActions(first: 51) { next } }`, "INVALID_INPUT"},
		"too long news":       {`{ notifications(first: 51) { next } }`, "INVALID_INPUT"},
		"tokens":              {`{ me { ` + strings.Repeat("a: creditsMsat ", 118) + `} }`, ""},
		"too many tokens":     {`{ me { ` + strings.Repeat("a: creditsMsat ", 132) + `} }`, "GRAPHQL_PARSE_FAILED"},
		"queries":             {`{ a: itemPriceMsat b: itemPriceMsat c: itemPriceMsat me { user { id name } } }`, ""},
		"too many queries":    {`{ a: itemPriceMsat ...X ...X } fragment X on Query { b: itemPriceMsat ... on Query { c: itemPriceMsat } }`, "QUERY_LIMIT_EXCEEDED"},
		"mutations":           {`mutation { a: donate(sats: 1) { id } b: donate(sats: 1) { id } c: donate(sats: 1) { id } }`, ""},
		"too many mutations":  {`mutation { a: donate(sats: 1) { id } ...X ...X } fragment X on Mutation { b: donate(sats: 1) { id } ... on Mutation { c: donate(sats: 1) { id } } }`, "MUTATION_LIMIT_EXCEEDED"},
	} {
		before := a.Count(`SELECT count(*) FROM paid_action`)
		begun := time.Now()
		r := a.Do(p, c.query, nil)
		if r.code() != c.code {
			t.Errorf("%s: %q, want %q: %s", name, r.code(), c.code, r.Raw)
		}
		if took := time.Since(begun); took > 5*time.Second {
			t.Errorf("%s: took %s", name, took)
		}
		if n := a.Count(`SELECT count(*) FROM paid_action`); c.code != "" && n != before {
			t.Errorf("%s: refused, and yet done", name)
		}
	}
	if r := a.Post(p.Key, `{"query": "{ me { creditsMsat } }", "variables": {"x": "`+strings.Repeat("x", 5000)+`"}}`); r.Status != http.StatusRequestEntityTooLarge || r.code() != "BODY_LIMIT_EXCEEDED" {
		t.Errorf("too large a body: %d %s", r.Status, r.Raw)
	}
	if r := a.Do(p, `query($n: Int!) { items(first: $n) { next } }`, vars{"n": 1e12}); r.code() != "INVALID_INPUT" {
		t.Errorf("a list that is too long by variable: %s", r.Raw)
	}
}

// What takes too long is given up.
func TestTimeLimit(t *testing.T) {
	t.Parallel()
	a := serve(t, func(c *graph.Config) { c.Limits.Time = time.Nanosecond })
	r := a.Do(nobody, `{ items { next } }`, nil)
	if r.code() != "TIME_LIMIT_EXCEEDED" {
		t.Errorf("%s", r.Raw)
	}
	wantNoLeak(t, "time limit", r)
}

// A client that also offers another protocol is answered in HTTP/1.1, as by a server that does not know the other (RFC
// 9110 §7.8).
func TestAnUpgradeThatIsNoWebsocketIsIgnored(t *testing.T) {
	t.Parallel()
	a := serve(t)
	for _, accept := range []string{"application/json", "text/event-stream"} {
		r := a.Post("", `{"query": "{ items { next } }"}`, "Connection", "Upgrade, HTTP2-Settings", "Upgrade", "h2c", "HTTP2-Settings", "AAMAAABkAAQCAAAAAAIAAAAA", "Accept", accept)
		if r.Status != http.StatusOK || !strings.Contains(r.Raw, `{"data":{"items":{"next":null}}}`) {
			t.Errorf("%s: %d %s", accept, r.Status, r.Raw)
		}
	}
}

// Only GraphQL in JSON by POST is let in.
func TestDoor(t *testing.T) {
	t.Parallel()
	a := serve(t, func(c *graph.Config) { c.Development = false })
	const query = `{"query": "mutation { donate(sats: 1) { id } }"}`
	for name, c := range map[string]struct {
		method, path, contentType, body string
		status                          int
	}{
		"GET":             {"GET", "/graphql?query=mutation{donate(sats:1){id}}", "", "", http.StatusMethodNotAllowed},
		"PUT":             {"PUT", "/graphql", "application/json", query, http.StatusMethodNotAllowed},
		"a form":          {"POST", "/graphql", "application/x-www-form-urlencoded", "query=mutation{donate(sats:1){id}}", http.StatusUnsupportedMediaType},
		"multipart":       {"POST", "/graphql", "multipart/form-data; boundary=x", query, http.StatusUnsupportedMediaType},
		"plain text":      {"POST", "/graphql", "text/plain", query, http.StatusUnsupportedMediaType},
		"no type":         {"POST", "/graphql", "", query, http.StatusUnsupportedMediaType},
		"no JSON":         {"POST", "/graphql", "application/json", "mutation { donate }", http.StatusBadRequest},
		"a batch":         {"POST", "/graphql", "application/json", "[" + query + "]", http.StatusBadRequest},
		"nothing":         {"POST", "/graphql", "application/json", "", http.StatusBadRequest},
		"wrong variables": {"POST", "/graphql", "application/json", `{"query": "{ me { creditsMsat } }", "variables": [1]}`, http.StatusBadRequest},
		"another path":    {"POST", "/", "application/json", query, http.StatusNotFound},
	} {
		req, err := http.NewRequestWithContext(a.Ctx, c.method, a.URL+c.path, strings.NewReader(c.body))
		if err != nil {
			t.Fatal(err)
		}
		if c.contentType != "" {
			req.Header.Set("Content-Type", c.contentType)
		}
		r := a.Send(req)
		if r.Status != c.status {
			t.Errorf("%s: %d, want %d: %s", name, r.Status, c.status, r.Raw)
		}
		wantNoLeak(t, name, r)
	}
	if n := a.Count(`SELECT count(*) FROM paid_action`); n != 0 {
		t.Errorf("%d actions came in by a way that is closed", n)
	}
	for query, code := range map[string]string{
		`{ __schema { types { name } } }`:        "GRAPHQL_VALIDATION_FAILED",
		`{ ... { __type(name: "X") { name } } }`: "GRAPHQL_VALIDATION_FAILED",
		`{ itemz { next } }`:                     "GRAPHQL_VALIDATION_FAILED",
		`{ items }`:                              "GRAPHQL_VALIDATION_FAILED",
		`query A { me { creditsMsat } } query B { me { creditsMsat } }`: "GRAPHQL_VALIDATION_FAILED",
	} {
		r := a.Do(nobody, query, nil)
		if r.code() != code || strings.Contains(r.Raw, "Did you mean") {
			t.Errorf("%s: %s", query, r.Raw)
		}
	}

	development := serve(t)
	if r := development.Do(nobody, `{ itemz { next } }`, nil); !strings.Contains(r.Raw, "Did you mean") {
		t.Errorf("no suggestion in development: %s", r.Raw)
	}
	if r := development.Do(nobody, `{ __schema { types { fields { type { ofType { ofType { ofType { ofType { ofType { ofType { ofType { ofType { ofType { ofType { name } } } } } } } } } } } } } } }`, nil); len(r.Errors) > 0 {
		t.Errorf("no introspection in development: %s", r.Raw)
	}
}

// Deferred results are never sent, and so nothing can be deferred.
func TestNothingIsDeferred(t *testing.T) {
	t.Parallel()
	a := serve(t)
	post := a.PostBy(a.Person("author", 100, 0), "read at once")
	r := a.Do(nobody, `query($id: ID!) { item(id: $id) { title ... @defer { author { name } } } }`, vars{"id": post})
	if r.code() != "GRAPHQL_VALIDATION_FAILED" || r.Data != nil || !strings.Contains(r.Errors[0].Message, "@defer") {
		t.Errorf("%s", r.Raw)
	}
	if r := a.Want(nobody, `{ __schema { directives { name } } }`, nil); strings.Contains(r.Raw, "defer") || !strings.Contains(r.Raw, "include") {
		t.Errorf("what is offered: %s", r.Raw)
	}
}

package graph_test

import (
	"context"
	"io"
	"net/http"
	"os"
	"regexp"
	"strings"
	"testing"

	"github.com/a-seed-a7aed72f/holdfast/graph"
)

// Of what breaks inside, only a number is told; the log has the rest under that number.
func TestNothingInternalLeaks(t *testing.T) {
	t.Parallel()
	a := serve(t)
	p := a.Person("somebody", 100, 100)
	post := a.PostBy(p, "post")
	v, _, _ := a.holdPost(p, "pending")
	if _, err := a.Pool.Exec(a.Ctx, `ALTER TABLE item RENAME TO away; ALTER TABLE territory RENAME TO away2; ALTER TABLE notification RENAME TO away3;
		ALTER TABLE posting RENAME TO away4; ALTER TABLE invoice RENAME TO away5; ALTER TABLE balance_delta RENAME TO away6`); err != nil {
		t.Fatal(err)
	}
	for _, query := range []string{
		`{ items { next } }`, `{ item(id: "` + post + `") { id } }`, `{ territory(name: "x") { name } }`, `{ notifications { next } }`,
		`{ me { creditsMsat } }`, `{ rewardsMsat { sats } }`, `{ paidActions { next } }`, `{ paidAction(id: "1") { id } }`,
		`mutation { donate(sats: 1) { id } }`, `mutation { zap(item: "` + post + `", sats: 1) { id } }`, `mutation { createPost(title: "x") { id } }`,
		`mutation { buyCredits(credits: 1) { id } }`, `mutation { retryPaidAction(id: "1") { id } }`, `mutation { cancelInvoice(id: "1") { id } }`,
	} {
		r := a.Do(p, query, nil)
		wantNoLeak(t, query, r)
		if r.code() != "INTERNAL" || r.Errors[0].Extensions.Fault == "" || !strings.Contains(r.Errors[0].Message, r.Errors[0].Extensions.Fault) {
			t.Errorf("%s: %s", query, r.Raw)
			continue
		}
		if log := a.Log.String(); !strings.Contains(log, r.Errors[0].Extensions.Fault) || !strings.Contains(log, "SQLSTATE 42P01") {
			t.Errorf("%s: the log does not have fault %s", query, r.Errors[0].Extensions.Fault)
		}
	}
	s := a.Socket(p)
	s.Subscribe("1", follow, v)
	if r := s.next("1"); r.code() != "INTERNAL" {
		t.Errorf("%s", r.Raw)
	}
	if _, err := a.Pool.Exec(a.Ctx, `ALTER TABLE key_epoch RENAME TO away7`); err != nil {
		t.Fatal(err)
	}
	if r := a.Do(p, `{ me { creditsMsat } }`, nil); r.Status != http.StatusInternalServerError || r.code() != "INTERNAL" {
		t.Errorf("%d %s", r.Status, r.Raw)
	}
}

// What is wrong with what a client has sent is no warning: anybody could fill the log with it.
func TestNobodyFillsTheLog(t *testing.T) {
	t.Parallel()
	a := serve(t)
	p := a.Person("somebody", 100, 100)
	for query, code := range map[string]string{
		`mutation { withdraw(to: "lnbc1nothing", maxFeeSats: 1) { id } }`:     "INVALID_INPUT",
		`mutation { createPost(title: "x", boost: 2100000000000000) { id } }`: "INVALID_AMOUNT",
	} {
		if r := a.Do(p, query, nil); r.code() != code {
			t.Errorf("%s: %s", query, r.Raw)
		}
	}
	if log := a.Log.String(); strings.Contains(log, "level=WARN") || strings.Contains(log, "level=ERROR") {
		t.Errorf("%s", log)
	}
}

// panicking is a part that breaks.
type panicking struct{}

func (panicking) Subscribe(context.Context, int64) <-chan struct{} { panic("at the disco") }

func TestPanics(t *testing.T) {
	t.Parallel()
	a := serve(t, func(c *graph.Config) { c.Updates = panicking{} })
	s := a.Socket(nobody)
	s.Subscribe("1", `subscription { paidActionUpdated(id: "1") { id } }`, nil)
	r := s.next("1")
	if r.code() != "INTERNAL" || strings.Contains(r.Raw, "disco") {
		t.Errorf("%s", r.Raw)
	}
	if log := a.Log.String(); !strings.Contains(log, "at the disco") || !strings.Contains(log, r.Errors[0].Extensions.Fault) {
		t.Error("the log does not have the panic")
	}
}

// What is wrong with the query itself is said in a whole sentence, too: of a variable which one it is, of several
// operations that one has to be chosen.
func TestFaultsOfAQueryAreSaidInSentences(t *testing.T) {
	t.Parallel()
	a := serve(t)
	for _, c := range []struct{ body, code, message string }{
		{`{}`, "GRAPHQL_VALIDATION_FAILED", "The request has no operation."},
		{`{"query": "{ me { user }"}`, "GRAPHQL_PARSE_FAILED", "The query cannot be read: Expected Name, found <EOF>."},
		{`{"query": "{ ` + strings.Repeat("__typename ", 2000) + `}"}`, "GRAPHQL_PARSE_FAILED", "The query cannot be read: exceeded token limit of 2000."},
		{`{"query": "{ items(first: 100) { nodes { comments(first: 100) { nodes { id } } } } }"}`, "COMPLEXITY_LIMIT_EXCEEDED",
			"The query asks for too much at once: operation has complexity 20201, which exceeds the limit of 10000."},
		{`{"query": "{ item(id: 1.5) { id } }"}`, "GRAPHQL_VALIDATION_FAILED", "ID cannot represent a non-string and non-integer value: 1.5."},
		{`{"query": "query($n: Int!) { items(first: $n) { next } }"}`, "GRAPHQL_VALIDATION_FAILED", "The variable n: must be defined."},
		{`{"query": "query($n: [ID!]) { itemPriceMsat(uploads: $n) }", "variables": {"n": ["1", true]}}`, "GRAPHQL_VALIDATION_FAILED", "The variable n[1]: cannot use bool as ID."},
		{`{"query": "query($n: Sats) { itemPriceMsat(boost: $n) }", "variables": {"n": "10"}}`, "INVALID_AMOUNT", "An amount in sats is a whole number, written without quotes."},
		{`{"query": "query A { __typename } query B { __typename }"}`, "GRAPHQL_VALIDATION_FAILED", "The query has several operations: say in operationName which is meant."},
		{`{"query": "query A { __typename }", "operationName": "B"}`, "GRAPHQL_VALIDATION_FAILED", "operationName asks for an operation that the query does not have: B."},
		{`{"query": "query A { __typename }", "operationName": "` + strings.Repeat("B", 1000) + `"}`, "GRAPHQL_VALIDATION_FAILED",
			"operationName asks for an operation that the query does not have: " + strings.Repeat("B", 434) + "…"},
	} {
		for range 2 { // the second time the query is known
			if r := a.Post("", c.body); r.code() != c.code || r.Errors[0].Message != c.message {
				t.Errorf("%.100s: %.300s, want %s %s", c.body, r.Raw, c.code, c.message)
			}
		}
	}
	if r := a.Post("", `{"query": "query A { __typename } query B { me { user { id } } }", "operationName": "B"}`); r.code() != "" {
		t.Errorf("%s", r.Raw)
	}
}

// The playground comes from the binary, and loads nothing from elsewhere.
func TestPlayground(t *testing.T) {
	t.Parallel()
	a := serve(t)
	get := func(path string) (int, http.Header, string) {
		t.Helper()
		req, err := http.NewRequestWithContext(a.Ctx, http.MethodGet, a.URL+path, nil)
		if err != nil {
			t.Fatal(err)
		}
		resp, err := http.DefaultTransport.RoundTrip(req)
		if err != nil {
			t.Fatal(err)
		}
		defer resp.Body.Close()
		body, err := io.ReadAll(resp.Body)
		if err != nil {
			t.Fatal(err)
		}
		return resp.StatusCode, resp.Header, string(body)
	}
	for _, path := range []string{"/playground"} {
		if status, header, _ := get(path); status != http.StatusSeeOther || header.Get("Location") != "/playground/" {
			t.Errorf("%s leads to %d %s", path, status, header.Get("Location"))
		}
	}
	status, header, page := get("/playground/")
	if status != http.StatusOK || !strings.Contains(header.Get("Content-Security-Policy"), "default-src 'none'") {
		t.Fatalf("%d %v", status, header)
	}
	parts := regexp.MustCompile(`(?:src|href)="([^"]*)"`).FindAllStringSubmatch(page, -1)
	if len(parts) < 6 {
		t.Errorf("the page has %d parts", len(parts))
	}
	for _, part := range append(parts, []string{"", "vendor/LICENSES.txt"}) {
		status, _, body := get("/playground/" + part[1])
		if strings.Contains(part[1], "//") || status != http.StatusOK || body == "" {
			t.Errorf("%s: %d", part[1], status)
		}
		if strings.Contains(body, "sourceMappingURL") {
			t.Errorf("%s names a source map", part[1])
		}
	}
	if status, _, _ := get("/playground/../handler.go"); status == http.StatusOK {
		t.Error("the source is served")
	}
	if status, _, _ := get("/nothing"); status != http.StatusNotFound {
		t.Errorf("%d for a page that does not exist", status)
	}
}

// Every example on the page is a valid operation.
func TestPlaygroundExamples(t *testing.T) {
	t.Parallel()
	a := serve(t)
	script, err := os.ReadFile("playground/playground.js")
	if err != nil {
		t.Fatal(err)
	}
	examples := regexp.MustCompile("(?s)`(# .*?)`").FindAllStringSubmatch(string(script), -1)
	if len(examples) < 9 {
		t.Fatalf("%d examples", len(examples))
	}
	for _, example := range examples {
		if strings.Contains(example[1], "subscription ") {
			if name, r := a.Events(nobody, example[1], vars{"id": "1"}).Next(); name != "next" || r.code() != "NOT_FOUND" {
				t.Errorf("%s: %s", example[1], r.Raw)
			}
			continue
		}
		if r := a.Do(nobody, example[1], vars{"id": "1"}); strings.HasPrefix(r.code(), "GRAPHQL_") || r.code() == "INTERNAL" {
			t.Errorf("%s: %s", example[1], r.Raw)
		}
	}
}

func TestConfigIsChecked(t *testing.T) {
	t.Parallel()
	var good graph.Config
	serve(t, func(c *graph.Config) { good = *c })
	for name, spoil := range map[string]func(*graph.Config){
		"no engine":        func(c *graph.Config) { c.Engine = nil },
		"no database":      func(c *graph.Config) { c.Pool = nil },
		"no updates":       func(c *graph.Config) { c.Updates = nil },
		"no wallets":       func(c *graph.Config) { c.Wallets = nil },
		"a negative limit": func(c *graph.Config) { c.Limits.Depth = -1 },
		"a negative body":  func(c *graph.Config) { c.Limits.Body = -1 },
	} {
		c := good
		spoil(&c)
		if _, err := graph.NewHandler(c); err == nil {
			t.Errorf("%s was accepted", name)
		}
	}
}

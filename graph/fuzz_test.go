package graph_test

import (
	"cmp"
	"encoding/json"
	"fmt"
	"net/http"
	"regexp"
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/a-seed-a7aed72f/holdfast/graph"
	"github.com/a-seed-a7aed72f/holdfast/paidaction"
)

// inner matches what must never be told to anybody: our own workings.
var inner = regexp.MustCompile(`(?i)INTERNAL|SQLSTATE|pgx|goroutine|panic|\.go:\d|runtime error`)

// wantPlain fails the test if an answer is not valid, or tells of our own workings.
func wantPlain(t *testing.T, sent string, r answer) {
	t.Helper()
	if r.Status >= http.StatusInternalServerError || !utf8.ValidString(r.Raw) {
		t.Errorf("%s: %d %s", sent, r.Status, r.Raw)
	}
	for _, e := range r.Errors {
		if e.Extensions.Code == "" || e.Message == "" || inner.MatchString(e.Extensions.Code) || inner.MatchString(e.Message) {
			t.Errorf("%s: %+v", sent, e)
		}
	}
}

// A request may be any bytes at all.
func FuzzRequest(f *testing.F) {
	for _, body := range []string{`{"query":"{ me { user { id } } }"}`, `{"query":"mutation { zap(item: \"1\", sats: 99999999999999999999) { id } }"}`, `[]`, `{`, `null`,
		`{"query":"query($x: ID!) { item(id: $x) { id } }","variables":{"x":{"a":[1e400]}}}`, `{"query":"fragment F on Query { ...F } { ...F }"}`,
		`{"query":"{ items(first: -1) { nodes { id } } }"}`, "{\"query\":\"\\u0000\"}", `{"query":"{ __schema { types { name } } }","operationName":"x"}`} {
		f.Add([]byte(body))
	}
	a := serve(f, func(c *graph.Config) { c.Development = false })
	key := a.Person("payer", 1000, 1000).Key
	f.Fuzz(func(t *testing.T, body []byte) {
		wantPlain(t, string(body), a.In(t).Post(key, string(body)))
	})
}

// The variables of paying mutations may have any values: each is refused or done, and the books agree.
func FuzzVariables(f *testing.F) {
	operations := []string{
		`mutation($a: ID!, $b: Sats!, $c: String, $d: PaymentMethod) { zap(item: $a, sats: $b, idempotencyKey: $c, paymentMethod: $d) { id state } }`,
		`mutation($a: String!, $b: String!, $c: String, $d: [Forward!]) { createPost(title: $a, body: $b, territory: $c, forwards: $d) { id state } }`,
		`mutation($a: ID!, $b: String!, $c: String) { createComment(parent: $a, body: $b, idempotencyKey: $c) { id state } }`,
		`mutation($b: Sats!, $c: String, $d: PaymentMethod) { donate(sats: $b, idempotencyKey: $c, paymentMethod: $d) { id state } }`,
		`mutation($a: ID!, $b: Msat!, $c: String) { receive(user: $a, msat: $b, comment: $c) { id state } }`,
		`mutation($a: String!, $b: Sats, $c: String, $d: Sats!) { withdraw(to: $a, sats: $b, comment: $c, maxFeeSats: $d) { id state } }`,
		`mutation($a: ID!, $c: String) { retryPaidAction(id: $a, secret: $c) { id } }`,
		`query($a: ID!, $c: String) { paidAction(id: $a, secret: $c) { id } item(id: $a) { id } }`,
	}
	for i := range operations {
		for _, values := range []string{`{"a":"1","b":1,"c":"x","d":null}`, `{"a":1,"b":-1,"c":"\u0000","d":"P2P"}`, `{"a":"9223372036854775808","b":9223372036854775807}`,
			`{"a":"","b":0.5,"c":"` + "☃\u202e" + `","d":[{"user":1,"pct":101},{"user":1,"pct":-1}]}`, `{"a":"text","b":"1000","c":null,"d":1}`, `{"a":{},"b":[],"d":1e300}`} {
			f.Add(i, []byte(values))
		}
	}
	a := serve(f, func(c *graph.Config) { c.Development = false })
	payer := a.Person("payer", 1000, 1000)
	a.PostBy(a.Person("author", 1000, 0), "a post")
	f.Fuzz(func(t *testing.T, operation int, values []byte) {
		if !json.Valid(values) {
			return
		}
		a := a.In(t)
		sent := fmt.Sprintf(`{"query":%q,"variables":%s}`, operations[max(operation, -(operation+1))%len(operations)], values)
		wantPlain(t, sent, a.Post(payer.Key, sent))
		a.WantConserved()
	})
}

// An amount is read exactly, or refused.
func FuzzMsat(f *testing.F) {
	for _, text := range []string{"0", "1", "-1", "9223372036854775807", "9223372036854775808", "007", "+1", "1_000", "1e3", " 1", "٣"} {
		f.Add(text)
	}
	f.Fuzz(func(t *testing.T, text string) {
		m, err := paidaction.ParseMsat(text)
		if digits := strings.TrimLeft(text, "0"); err == nil && m.String() != cmp.Or(digits, "0") {
			t.Errorf("%q was read as %s", text, m)
		}
	})
}

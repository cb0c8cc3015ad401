package graph_test

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/a-seed-a7aed72f/holdfast/ledger"
)

// traces are the tables that would show it if anything were charged or done.
func (a *api) traces() string {
	a.Helper()
	var s strings.Builder
	for _, table := range []string{"paid_action", "action_history", "invoice", "posting", "balance_delta", "item", "item_fingerprint", "poll_option", "poll_vote", "zap",
		"donation", "test_job"} {
		fmt.Fprintf(&s, "%s %d\n", table, a.Count("SELECT count(*) FROM "+table))
	}
	fmt.Fprintf(&s, "balances %d", a.Count("SELECT coalesce(sum(abs(balance)), 0)::bigint FROM account"))
	return s.String()
}

// Each bad input has its code and a sentence, and leaves nothing behind (spec 02 §2.5).
func TestBadInput(t *testing.T) {
	t.Parallel()
	a := serve(t)
	author := a.Person("author", 1000, 1000)
	payer := a.Person("payer", 1000, 1000)
	poor := a.Person("poor", 0, 0)
	post := a.PostBy(author, "paid")
	own := a.PostBy(payer, "own")
	paid := a.Want(payer, `mutation { donate(sats: 1) { id state } }`, nil).text("donate", "id")
	unpaid := a.Want(poor, `mutation { createPost(title: "unpaid") { id state result { item { id } } } }`, nil)
	unpaidItem, pending := unpaid.text("createPost", "result", "item", "id"), unpaid.text("createPost", "id")
	a.Want(author, `mutation { createBio(bio: "the author") { id } }`, nil)
	option := a.Want(author, `mutation { createPoll(title: "which?", options: ["a", "b"]) { result { item { poll { options { id } } } } } }`, nil).
		at("createPoll", "result", "item", "poll", "options").([]any)[0].(map[string]any)["id"].(string)
	a.Want(author, `mutation($o: ID!) { pollVote(option: $o) { id } }`, vars{"o": option})
	const usedKey = "a key that was used before"
	a.Want(payer, `mutation($k: String) { donate(sats: 2, idempotencyKey: $k) { id } }`, vars{"k": usedKey})

	five := make([]string, 6)
	for i := range five {
		five[i] = fmt.Sprintf(`{user: "%d", pct: 1}`, a.Person(fmt.Sprintf("forwardee%d", i), 0, 0).ID)
	}
	cases := []struct {
		name, query string
		vars        vars
		as          person
		code        string
	}{
		{"retry of what is paid", `mutation { retryPaidAction(id: "` + paid + `") { id } }`, nil, payer, "NOT_RETRYABLE"},
		{"retry of what is pending", `mutation { retryPaidAction(id: "` + pending + `") { id } }`, nil, poor, "NOT_RETRYABLE"},
		{"retry of another's", `mutation { retryPaidAction(id: "` + paid + `") { id } }`, nil, poor, "NOT_FOUND"},
		{"retry of nothing", `mutation { retryPaidAction(id: "99999") { id } }`, nil, poor, "NOT_FOUND"},
		{"cancel of what is paid", `mutation { cancelInvoice(id: "` + paid + `") { id } }`, nil, payer, "NOT_CANCELABLE"},
		{"cancel of another's", `mutation { cancelInvoice(id: "` + pending + `") { id } }`, nil, payer, "NOT_FOUND"},
		{"a wrong secret", `mutation { cancelInvoice(id: "` + pending + `", secret: "` + strings.Repeat("0", 64) + `") { id } }`, nil, nobody, "NOT_FOUND"},

		{"zap of one's own", `mutation { zap(item: "` + own + `", sats: 1) { id } }`, nil, payer, "FORBIDDEN"},
		{"zap of what is not paid", `mutation { zap(item: "` + unpaidItem + `", sats: 1) { id } }`, nil, payer, "NOT_FOUND"},
		{"zap beyond the limit", `mutation { zap(item: "` + post + `", sats: 1000001) { id } }`, nil, payer, "INVALID_AMOUNT"},
		{"comment on nothing", `mutation { createComment(parent: "99999", body: "x") { id } }`, nil, payer, "NOT_FOUND"},
		{"comment on what is not paid", `mutation { createComment(parent: "` + unpaidItem + `", body: "x") { id } }`, nil, payer, "NOT_FOUND"},
		{"empty comment", `mutation { createComment(parent: "` + post + `", body: " ") { id } }`, nil, payer, "INVALID_INPUT"},
		{"no title", `mutation { createPost(title: " ") { id } }`, nil, payer, "INVALID_INPUT"},
		{"title too long", `mutation($x: String!) { createPost(title: $x) { id } }`, vars{"x": strings.Repeat("ä", 141)}, payer, "INVALID_INPUT"},
		{"text too long", `mutation($x: String!) { createPost(title: "x", body: $x) { id } }`, vars{"x": strings.Repeat("a", 40_001)}, payer, "INVALID_INPUT"},
		{"a character that cannot be stored", `mutation($x: String!) { createPost(title: "x", body: $x) { id } }`, vars{"x": "a\x00b"}, payer, "INVALID_INPUT"},
		{"unknown territory", `mutation { createPost(title: "x", territory: "nowhere") { id } }`, nil, payer, "NOT_FOUND"},
		{"impossible territory", `mutation($x: String!) { createPost(title: "x", territory: $x) { id } }`, vars{"x": "a\x00b"}, payer, "INVALID_INPUT"},
		{"forwards over 100 percent", `mutation { createPost(title: "x", forwards: [{user: "` + fmt.Sprint(author.ID) + `", pct: 60}, {user: "` + fmt.Sprint(poor.ID) + `", pct: 60}]) { id } }`, nil, payer, "INVALID_INPUT"},
		{"forward to one twice", `mutation { createPost(title: "x", forwards: [{user: "` + fmt.Sprint(author.ID) + `", pct: 1}, {user: "` + fmt.Sprint(author.ID) + `", pct: 1}]) { id } }`, nil, payer, "INVALID_INPUT"},
		{"forward to oneself", `mutation { createPost(title: "x", forwards: [{user: "` + fmt.Sprint(payer.ID) + `", pct: 1}]) { id } }`, nil, payer, "INVALID_INPUT"},
		{"forward of nothing", `mutation { createPost(title: "x", forwards: [{user: "` + fmt.Sprint(author.ID) + `", pct: 0}]) { id } }`, nil, payer, "INVALID_INPUT"},
		{"forward to nobody", `mutation { createPost(title: "x", forwards: [{user: "99999", pct: 1}]) { id } }`, nil, payer, "NOT_FOUND"},
		{"too many forwards", `mutation { createPost(title: "x", forwards: [` + strings.Join(five, ",") + `]) { id } }`, nil, payer, "INVALID_INPUT"},
		{"the same again", `mutation { createPost(title: "unpaid") { id } }`, nil, poor, "DUPLICATE"},

		{"a link to nowhere", `mutation { createLink(title: "x", url: "") { id } }`, nil, payer, "INVALID_INPUT"},
		{"a link to a script", `mutation { createLink(title: "x", url: "javascript:alert(1)") { id } }`, nil, payer, "INVALID_INPUT"},
		{"a poll with one option", `mutation { createPoll(title: "x", options: ["a"]) { id } }`, nil, payer, "INVALID_INPUT"},
		{"a poll that is over", `mutation { createPoll(title: "x", options: ["a", "b"], closesAt: "2000-01-01T00:00:00Z") { id } }`, nil, payer, "INVALID_INPUT"},
		{"a poll until no moment", `mutation { createPoll(title: "x", options: ["a", "b"], closesAt: "tomorrow") { id } }`, nil, payer, "INVALID_INPUT"},
		{"a poll until a day", `mutation($t: Time) { createPoll(title: "x", options: ["a", "b"], closesAt: $t) { id } }`, vars{"t": "2100-01-31"}, payer, "INVALID_INPUT"},
		{"a poll until a number", `mutation($t: Time) { createPoll(title: "x", options: ["a", "b"], closesAt: $t) { id } }`, vars{"t": 4102444800}, payer, "INVALID_INPUT"},
		{"a job of nobody", `mutation { createJob(title: "x", company: "") { id } }`, nil, payer, "INVALID_INPUT"},
		{"an empty bio", `mutation { createBio(bio: "") { id } }`, nil, payer, "INVALID_INPUT"},
		{"a bio without signing in", `mutation { createBio(bio: "x") { id } }`, nil, nobody, "UNAUTHENTICATED"},
		{"a second bio", `mutation { createBio(bio: "x") { id } }`, nil, author, "BIO_EXISTS"},
		{"a vote without signing in", `mutation { pollVote(option: "` + option + `") { id } }`, nil, nobody, "UNAUTHENTICATED"},
		{"a second vote", `mutation { pollVote(option: "` + option + `") { id } }`, nil, author, "ALREADY_VOTED"},
		{"a vote held back", `mutation { pollVote(option: "` + option + `", paymentMethod: PESSIMISTIC) { id } }`, nil, payer, "METHOD_UNAVAILABLE"},

		{"credits without signing in", `mutation { buyCredits(credits: 1) { id } }`, nil, nobody, "UNAUTHENTICATED"},
		{"credits for credits", `mutation { buyCredits(credits: 1, paymentMethod: FEE_CREDIT) { id } }`, nil, payer, "METHOD_UNAVAILABLE"},
		{"optimism without signing in", `mutation { createPost(title: "x", paymentMethod: OPTIMISTIC) { id } }`, nil, nobody, "METHOD_UNAVAILABLE"},
		{"a withdrawal is no payment", `mutation { donate(sats: 1, paymentMethod: OUTGOING) { id } }`, nil, payer, "METHOD_UNAVAILABLE"},
		{"nothing is free", `mutation { donate(sats: 1, paymentMethod: ZERO_COST) { id } }`, nil, payer, "METHOD_UNAVAILABLE"},
		{"balance too small", `mutation { donate(sats: 2000, paymentMethod: FEE_CREDIT) { id } }`, nil, payer, "INSUFFICIENT_FUNDS"},
		{"unknown method", `mutation { donate(sats: 1, paymentMethod: CASH) { id } }`, nil, payer, "GRAPHQL_VALIDATION_FAILED"},
		{"method in small letters", `mutation($m: PaymentMethod) { donate(sats: 1, paymentMethod: $m) { id } }`, vars{"m": "fee_credit"}, payer, "INVALID_INPUT"},

		{"key too long", `mutation($k: String) { donate(sats: 1, idempotencyKey: $k) { id } }`, vars{"k": strings.Repeat("k", 256)}, payer, "INVALID_INPUT"},
		{"key that cannot be stored", `mutation($k: String) { donate(sats: 1, idempotencyKey: $k) { id } }`, vars{"k": "k\x00"}, payer, "INVALID_INPUT"},
		{"dearer than agreed to", `mutation { donate(sats: 10, maxCostSats: 9) { id } }`, nil, payer, "PRICE_CHANGED"},
		{"the most below zero", `mutation { donate(sats: 1, maxCostSats: -1) { id } }`, nil, payer, "INVALID_AMOUNT"},
		{"empty key", `mutation { donate(sats: 1, idempotencyKey: "") { id } }`, nil, payer, "INVALID_INPUT"},
		{"guessable key without signing in", `mutation { donate(sats: 1, idempotencyKey: "short") { id } }`, nil, nobody, "INVALID_INPUT"},
		{"key used for something else", `mutation($k: String) { donate(sats: 3, idempotencyKey: $k) { id } }`, vars{"k": usedKey}, payer, "IDEMPOTENCY_CONFLICT"},
		{"overflow in a fragment", `mutation { ...F } fragment F on Mutation { donate(sats: 99999999999999999999) { id } }`, nil, payer, "INVALID_AMOUNT"},
		{"overflow in an inline fragment", `mutation { ... on Mutation { donate(sats: 99999999999999999999) { id } } }`, nil, payer, "INVALID_AMOUNT"},
		{"overflow in a list", `mutation { donate(sats: [99999999999999999999]) { id } }`, nil, payer, "INVALID_AMOUNT"},
		{"an argument that does not exist", `mutation { donate(sats: 1, tip: 1) { id } }`, nil, payer, "GRAPHQL_VALIDATION_FAILED"},
		{"no query", `mutation {`, nil, payer, "GRAPHQL_PARSE_FAILED"},
	}
	for name, field := range map[string]string{
		"donate": "donate(sats: %s) { id }", "credits": "buyCredits(credits: %s) { id }",
		"bounty": `createBounty(title: "x", bounty: %s) { id }`, "poll": `createPoll(title: "x", options: ["a", "b"], price: %s) { id }`, "zap": `zap(item: "` + post + `", sats: %s) { id }`,
	} {
		for amount, what := range map[string]string{
			"0": "zero", "-1": "negative", "1.5": "fractional", "1e3": "exponent", `"1"`: "text", "true": "boolean",
			"9223372036854775807": "more than there is", "-9223372036854775808": "least", "99999999999999999999": "overflow",
			"1e999": "overflowing exponent", "[1]": "list", "{a: 1}": "object",
		} {
			cases = append(cases, struct {
				name, query string
				vars        vars
				as          person
				code        string
			}{name + " " + what, "mutation { " + fmt.Sprintf(field, amount) + " }", nil, payer, "INVALID_AMOUNT"})
		}
		for what, amount := range map[string]any{
			"zero": 0, "negative": -1, "fractional": 0.5, "overflow": 1e20, "text": "1", "huge": 1e300, "boolean": true, "list": []int{1},
		} {
			cases = append(cases, struct {
				name, query string
				vars        vars
				as          person
				code        string
			}{name + " variable " + what, "mutation($n: Sats!) { " + fmt.Sprintf(field, "$n") + " }", vars{"n": amount}, payer, "INVALID_AMOUNT"})
		}
	}
	for _, id := range []string{`"0"`, `"-1"`, `"99999"`, `"abc"`, `"1.0"`, `""`, `" 1"`, `"99999999999999999999"`, `0`, `"9223372036854775807"`} {
		for _, field := range []string{`zap(item: %s, sats: 1) { id }`, `createComment(parent: %s, body: "x") { id }`, `pollVote(option: %s) { id }`, `cancelInvoice(id: %s) { id }`} {
			cases = append(cases, struct {
				name, query string
				vars        vars
				as          person
				code        string
			}{fmt.Sprintf(field, id), "mutation { " + fmt.Sprintf(field, id) + " }", nil, payer, "NOT_FOUND"})
		}
	}

	before := a.traces()
	for _, c := range cases {
		r := a.Do(c.as, c.query, c.vars)
		if r.code() != c.code {
			t.Errorf("%s: code %q, want %s: %s", c.name, r.code(), c.code, r.Raw)
			continue
		}
		if said := r.Errors[0].Message; strings.TrimRight(said, ".?") == said {
			t.Errorf("%s: %q is no sentence", c.name, said)
		}
		wantNoLeak(t, c.name, r)
		if now := a.traces(); now != before {
			t.Fatalf("%s left something behind:\n%s\nbefore:\n%s", c.name, now, before)
		}
	}
}

// wantNoLeak fails the test if an answer shows the inside.
func wantNoLeak(t *testing.T, name string, r answer) {
	t.Helper()
	for _, inside := range []string{"SQLSTATE", "SELECT", "INSERT", "pgx", "pq:", ".go:", "panic", "goroutine", "strconv", "json:", "paidaction", "context "} {
		if strings.Contains(r.Raw, inside) {
			t.Errorf("%s shows %q: %s", name, inside, r.Raw)
		}
	}
}

// The same key and arguments give the same action, however they are sent; it is charged once.
func TestIdempotency(t *testing.T) {
	t.Parallel()
	a := serve(t)
	payer := a.Person("payer", 100, 0)
	const donate = `mutation($k: String) { donate(sats: 10, idempotencyKey: $k) { id state secret invoice { bolt11 } } }`

	first := a.Want(payer, donate, vars{"k": "once"})
	again := a.Want(payer, `mutation { donate(idempotencyKey: "once", sats: 10) { state id secret invoice { bolt11 } } }`, nil)
	if first.text("donate", "id") != again.text("donate", "id") || first.text("donate", "state") != "PAID" {
		t.Errorf("%s and %s", first.Raw, again.Raw)
	}
	if got := a.Want(payer, `{ me { creditsMsat } }`, nil).text("me", "creditsMsat"); got != "90000" {
		t.Errorf("%s msat are left of 100000 after a donation of 10 sats", got)
	}
	if other := a.Want(a.Person("other", 100, 0), donate, vars{"k": "once"}); other.text("donate", "id") == first.text("donate", "id") {
		t.Error("two people share a key")
	}

	// Anonymous payers get their secret again.
	random := strings.Repeat("r4nd0m", 5)
	first, again = a.Want(nobody, donate, vars{"k": random}), a.Want(nobody, donate, vars{"k": random})
	if first.Raw != again.Raw || first.text("donate", "secret") == "" || first.text("donate", "invoice", "bolt11") == "" {
		t.Errorf("%s and %s", first.Raw, again.Raw)
	}
}

// What failed can be retried by its payer, and by nobody else. Only the payer can cancel it, too.
func TestCancelAndRetry(t *testing.T) {
	t.Parallel()
	a := serve(t)
	const post = `mutation { createPost(title: "again") { id secret } }`
	for _, as := range []person{a.Person("payer", 0, 0), nobody} {
		a.Clock.Advance(time.Hour)
		r := a.Want(as, post, nil)
		v := vars{"id": r.text("createPost", "id"), "s": r.at("createPost", "secret")}
		if as == nobody {
			if r := a.Do(as, `mutation($id: ID!) { cancelInvoice(id: $id) { id } }`, vars{"id": v["id"]}); r.code() != "NOT_FOUND" {
				t.Errorf("cancelled without the secret: %s", r.Raw)
			}
		}
		r = a.Want(as, `mutation($id: ID!, $s: String) { cancelInvoice(id: $id, secret: $s) { state changedAt deadline failure { code message } } }`, v)
		if r.text("cancelInvoice", "state") != "FAILED" || r.text("cancelInvoice", "failure", "code") != "CANCELED" {
			t.Fatalf("not cancelled: %s", r.Raw)
		}
		changed, _ := time.Parse(time.RFC3339, r.text("cancelInvoice", "changedAt"))
		if until, err := time.Parse(time.RFC3339, r.text("cancelInvoice", "deadline")); err != nil || !until.Equal(changed.Add(time.Hour)) {
			t.Errorf("it may be tried again until %v, error %v: %s", until, err, r.Raw)
		}
		if r := a.Do(as, `mutation($id: ID!, $s: String) { retryPaidAction(id: $id, secret: $s, maxCostSats: 0) { id } }`, v); r.code() != "PRICE_CHANGED" {
			t.Errorf("tried again for more than was agreed to: %s", r.Raw)
		} else if cost := r.Errors[0].Extensions.CostMsat; cost == "" || cost == "0" {
			t.Errorf("it is not told what it costs: %s", r.Raw)
		}
		if r := a.Do(as, `mutation($id: ID!, $s: String) { retryPaidAction(id: $id, secret: $s, idempotencyKey: "") { id } }`, v); r.code() != "INVALID_INPUT" {
			t.Errorf("an empty key: %s", r.Raw)
		}
		r = a.Want(as, `mutation($id: ID!, $s: String) { retryPaidAction(id: $id, secret: $s) { __typename id attempt genesisId secret state invoice { bolt11 } } }`, v)
		if r.at("retryPaidAction", "attempt") != 2.0 || r.at("retryPaidAction", "genesisId") != v["id"] ||
			r.text("retryPaidAction", "__typename") != "ItemCreateAction" || r.at("retryPaidAction", "secret") != v["s"] {
			t.Errorf("not tried again: %s", r.Raw)
		}
		if again := a.Do(as, `mutation($id: ID!, $s: String) { retryPaidAction(id: $id, secret: $s) { id } }`, v); again.code() != "ALREADY_RETRIED" {
			t.Errorf("tried again twice: %s", again.Raw)
		} else if id := again.Errors[0].Extensions.SuccessorID; id == "" || id != r.text("retryPaidAction", "id") {
			t.Errorf("it is not told which attempt is the newer one: %s", again.Raw)
		}
		old := a.Want(as, `query($id: ID!, $s: String) { paidAction(id: $id, secret: $s) { state successorId deadline } }`, v)
		if old.text("paidAction", "state") != "RETRYING" || old.at("paidAction", "deadline") != nil || old.at("paidAction", "successorId") != r.at("retryPaidAction", "id") {
			t.Errorf("the first attempt does not name the second: %s", old.Raw)
		}
		a.PayInvoice(r.text("retryPaidAction", "invoice", "bolt11"))
		for range 3 {
			a.Advance(number(t, r.text("retryPaidAction", "id")))
		}
		a.WantState(number(t, r.text("retryPaidAction", "id")), "PAID")
	}
}

// If one request has several payments, each gets its answer: a client that is told only of a refusal would pay again
// for what was done.
func TestARefusalHidesNoOtherAnswer(t *testing.T) {
	t.Parallel()
	a := serve(t)
	payer := a.Person("payer", 100, 0)
	r := a.Do(payer, `mutation { first: donate(sats: 1) { state } refused: donate(sats: 1000, paymentMethod: FEE_CREDIT) { state } last: donate(sats: 2) { state } }`, nil)
	if r.text("first", "state") != "PAID" || r.at("refused") != nil || r.text("last", "state") != "PAID" || len(r.Errors) != 1 || r.code() != "INSUFFICIENT_FUNDS" ||
		fmt.Sprint(r.Errors[0].Path) != "[refused]" {
		t.Errorf("%s", r.Raw)
	}
	a.WantBalance(ledger.UserCredits(payer.ID), 97_000)
}

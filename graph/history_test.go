package graph_test

import (
	"fmt"
	"math/rand/v2"
	"strings"
	"testing"
	"time"

	"github.com/a-seed-a7aed72f/holdfast/ledger"
)

const historyPage = `query($first: Int!, $after: String) { me { history(first: $first, after: $after) { next nodes { at
	action { id kind state paymentMethod costMsat } received { msat asset direct reason kind item { id } } } } } }`

// history follows the pages of somebody's history to the end.
func (a *api) history(as person, first int) (lines []string) {
	a.Helper()
	v := vars{"first": first}
	for {
		r := a.Want(as, historyPage, v)
		nodes, _ := r.at("me", "history", "nodes").([]any)
		if len(nodes) > first {
			a.Fatalf("%d entries where %d were asked for", len(nodes), first)
		}
		for _, n := range nodes {
			entry := n.(map[string]any)
			switch action, received := entry["action"], entry["received"]; {
			case action != nil && received == nil:
				x := action.(map[string]any)
				lines = append(lines, fmt.Sprintf("out %v %v by %v: %v", x["costMsat"], x["kind"], x["paymentMethod"], x["state"]))
			case received != nil && action == nil:
				x := received.(map[string]any)
				item, _ := x["item"].(map[string]any)
				lines = append(lines, fmt.Sprintf("in %v %v direct %v: %v, %v of %v", x["msat"], x["asset"], x["direct"], x["reason"], x["kind"], item["id"]))
			default:
				a.Fatalf("an entry is one of the two: %v", entry)
			}
		}
		v["after"] = r.at("me", "history", "next")
		if v["after"] == nil {
			return lines
		}
	}
}

// A history has what its owner paid for and was paid: from balances and by invoice, in both assets and directly to
// their wallet.
func TestAHistoryHasAllThatItsOwnerPaidAndWasPaid(t *testing.T) {
	t.Parallel()
	a := serve(t)
	author, fan := a.Person("author", 100, 0), a.Person("fan", 100, 0)
	a.Clock.Advance(time.Second)
	post := a.PostBy(author, "post")
	step := func(as person, query string) answer {
		t.Helper()
		a.Clock.Advance(time.Minute)
		r := a.Want(as, query, vars{"p": post, "u": author.ID})
		a.Drain()
		return r
	}
	step(fan, `mutation($p: ID!) { zap(item: $p, sats: 10) { id } }`)
	given := step(nobody, `mutation($u: ID!) { receive(user: $u, msat: "20000", paymentMethod: PESSIMISTIC) { id invoice { bolt11 } } }`)
	a.PayInvoice(given.text("receive", "invoice", "bolt11"))
	for range 3 {
		a.Advance(number(t, given.text("receive", "id")))
	}
	step(author, `mutation { donate(sats: 1, paymentMethod: REWARD_SATS) { id } }`)
	step(author, `mutation { createPost(title: "unpaid", paymentMethod: OPTIMISTIC) { id } }`)
	a.Wallets.Add(author.ID)
	direct := step(fan, `mutation($p: ID!) { zap(item: $p, sats: 100, paymentMethod: P2P) { id invoice { bolt11 } } }`)
	a.PayInvoice(direct.text("zap", "invoice", "bolt11"))
	a.Advance(number(t, direct.text("zap", "id")))
	s := a.Socket(fan)
	s.Subscribe("1", follow, vars{"id": direct.text("zap", "id")})
	a.Run(a.Relay)
	for state := ""; state != "PAID"; {
		state = s.next("1").text("paidActionUpdated", "state")
	}

	want := []string{
		"in 70000 SATS direct true: paid directly, ZAP of " + post,
		"out 1000 ITEM_CREATE by OPTIMISTIC: PENDING",
		"out 1000 DONATE by REWARD_SATS: PAID",
		"in 18000 SATS direct false: received, RECEIVE of <nil>",
		"in 7000 CREDITS direct false: zap, ZAP of " + post,
		"out 1000 ITEM_CREATE by FEE_CREDIT: PAID",
		"in 100000 CREDITS direct false: deposit, <nil> of <nil>",
	}
	for _, first := range []int{1, 2, 3, 100} {
		if got := a.history(author, first); strings.Join(got, "\n") != strings.Join(want, "\n") {
			t.Errorf("%d at a time:\n%s\nwant\n%s", first, strings.Join(got, "\n"), strings.Join(want, "\n"))
		}
	}
	fans := []string{
		"out 100000 ZAP by P2P: PAID",
		"out 10000 ZAP by FEE_CREDIT: PAID",
		"in 100000 CREDITS direct false: deposit, <nil> of <nil>",
	}
	for _, first := range []int{1, 100} { // whoever came after others has nothing of theirs
		if got := a.history(fan, first); strings.Join(got, "\n") != strings.Join(fans, "\n") {
			t.Errorf("%d at a time:\n%s\nwant\n%s", first, strings.Join(got, "\n"), strings.Join(fans, "\n"))
		}
	}
	if r := a.Want(author, historyPage, vars{"first": 100}); strings.Contains(r.Raw, "fan") {
		t.Errorf("it names who paid: %s", r.Raw)
	}
	for _, after := range []string{"", "1", "1-2-3", "1-2-3-4-5", "a-b-c-d", "1-2-3-99999999999999999999"} {
		if r := a.Do(author, historyPage, vars{"first": 1, "after": after}); r.code() != "INVALID_INPUT" {
			t.Errorf("after %q: %s", after, r.Raw)
		}
	}
	if r := a.Do(author, historyPage, vars{"first": 101}); r.code() != "INVALID_INPUT" {
		t.Errorf("%s", r.Raw)
	}
	if r := a.Want(nobody, historyPage, vars{"first": 1}); r.at("me") != nil {
		t.Errorf("%s", r.Raw)
	}
}

// Pages have each entry once, even if clocks went back, so that ids and times are in different orders.
func TestHistoryHasNoGaps(t *testing.T) {
	t.Parallel()
	a := serve(t)
	p := a.Person("somebody", 0, 0)
	random := rand.New(rand.NewPCG(1, 2))
	const entries = 60
	for i := range entries {
		to := []ledger.Account{ledger.UserCredits(p.ID), ledger.UserSats(p.ID)}[random.IntN(2)]
		from := map[ledger.Asset]ledger.Account{ledger.Credits: ledger.IssuedCredits, ledger.Sats: ledger.Lightning}[to.Asset()]
		at := a.Clock.Now().Add(time.Duration(random.IntN(20)) * time.Second)
		if _, err := a.Pool.Exec(a.Ctx, `INSERT INTO posting (from_account, to_account, msat, reason, at) VALUES ($1, $2, $3, 'test', $4)`,
			from, to, i+1, at); err != nil {
			t.Fatal(err)
		}
	}
	for _, first := range []int{1, 2, 7, 59, 60, 61} {
		seen := map[string]bool{}
		for _, line := range a.history(p, first) {
			if seen[line] {
				t.Errorf("%d at a time: twice %s", first, line)
			}
			seen[line] = true
		}
		if len(seen) != entries {
			t.Errorf("%d at a time: %d of %d", first, len(seen), entries)
		}
	}
}

// What comes while somebody reads page after page is not put among what is older, from whichever balance.
func TestWhatComesMeanwhileIsNotInTheHistoryBeingRead(t *testing.T) {
	t.Parallel()
	a := serve(t)
	for name, before := range map[string][]bool{ // whether to sats rather than credits, oldest first
		"nothing had come there": {false, false, false},
		"it is not reached yet":  {true, false, false},
		"all of it was read":     {false, false, true},
	} {
		p := a.Person(strings.ReplaceAll(name, " ", "_"), 0, 0)
		comes := func(sats bool, msat int) {
			t.Helper()
			from, to := ledger.IssuedCredits, ledger.UserCredits(p.ID)
			if sats {
				from, to = ledger.Lightning, ledger.UserSats(p.ID)
			}
			a.Clock.Advance(time.Second)
			if _, err := a.Pool.Exec(a.Ctx, `INSERT INTO posting (from_account, to_account, msat, reason, at) VALUES ($1, $2, $3, 'test', $4)`,
				from, to, msat, a.Clock.Now()); err != nil {
				t.Fatal(err)
			}
		}
		for i, sats := range before {
			comes(sats, i+1)
		}
		read := ""
		for v := (vars{"first": 1}); ; {
			r := a.Want(p, `query($first: Int!, $after: String) { me { history(first: $first, after: $after) { next nodes { received { msat } } } } }`, v)
			for _, n := range r.at("me", "history", "nodes").([]any) {
				read += n.(map[string]any)["received"].(map[string]any)["msat"].(string)
			}
			if v["after"] = r.at("me", "history", "next"); v["after"] == nil {
				break
			}
			comes(true, 7)
			comes(false, 8)
		}
		if read != "321" {
			t.Errorf("%s: the history reads %s", name, read)
		}
	}
}

// A profile counts what was paid for, and lists what the reader may see.
func TestProfile(t *testing.T) {
	t.Parallel()
	a := serve(t)
	author, other := a.Person("author", 1000, 0), a.Person("other", 1000, 0)
	first := a.PostBy(author, "first")
	second := a.PostBy(author, "second")
	item := func(as person, query string) string {
		t.Helper()
		a.Clock.Advance(11 * time.Minute)
		r := a.Want(as, query, vars{"p": first})
		for _, field := range r.Data {
			return field.(map[string]any)["result"].(map[string]any)["item"].(map[string]any)["id"].(string)
		}
		return ""
	}
	comment := item(author, `mutation($p: ID!) { createComment(parent: $p, body: "paid") { result { item { id } } } }`)
	others := item(other, `mutation($p: ID!) { createComment(parent: $p, body: "of another") { result { item { id } } } }`)
	waits := item(other, `mutation { createPost(title: "waits", paymentMethod: OPTIMISTIC) { result { item { id } } } }`)
	pending := item(author, `mutation { createPost(title: "pending", paymentMethod: OPTIMISTIC) { result { item { id } } } }`)
	bio := item(author, `mutation { createBio(bio: "I write.") { result { item { id } } } }`)
	const profile = `query($n: String!, $first: Int!, $after: ID) { user(name: $n) { id name bio { id body } postCount commentCount items(first: $first, after: $after) { nodes { id } next } } }`
	for _, c := range []struct {
		as   person
		of   string
		want []string
	}{
		{author, "author", []string{pending, comment, second, first}}, {other, "author", []string{comment, second, first}}, {nobody, "author", []string{comment, second, first}},
		{other, "other", []string{waits, others}}, {nobody, "other", []string{others}}, {author, "other", []string{others}}, // who came later has nothing of those before
	} {
		for _, size := range []int{1, 2, 100} {
			var got []string
			v := vars{"n": c.of, "first": size}
			for more := true; more; more = v["after"] != nil {
				r := a.Want(c.as, profile, v)
				if c.of == "author" && (r.text("user", "bio", "id") != bio || r.text("user", "bio", "body") != "I write." || r.at("user", "postCount") != 2.0 || r.at("user", "commentCount") != 1.0) {
					t.Errorf("%s", r.Raw)
				}
				for _, n := range r.at("user", "items", "nodes").([]any) {
					got = append(got, n.(map[string]any)["id"].(string))
				}
				v["after"] = r.at("user", "items", "next")
			}
			if strings.Join(got, " ") != strings.Join(c.want, " ") {
				t.Errorf("of %s for user %d, %d at a time: %v, want %v", c.of, c.as.ID, size, got, c.want)
			}
		}
	}
	for _, name := range []string{"nobody", "", "No Name", "a\x00b"} {
		if r := a.Want(nobody, profile, vars{"n": name, "first": 1}); r.at("user") != nil {
			t.Errorf("%q: %s", name, r.Raw)
		}
	}
}

package graph_test

import (
	"fmt"
	"strings"
	"testing"
	"time"
)

// Each kind of item comes back with what it has, and without what it has not.
func TestKindsOfItems(t *testing.T) {
	t.Parallel()
	a := serve(t)
	author := a.Person("author", 1_000_000, 0)
	const fields = `{ state result { item { kind title body url poll { price closesAt options { text votes } myVote { state } }
		bounty { sats paidAt paidTo { id } } job { company location } } } }`
	for mutation, want := range map[string]string{
		`createPost(title: "t", body: "b")`: `"kind":"POST","title":"t","body":"b","url":null,"poll":null,"bounty":null,"job":null`,
		`createLink(title: "t", url: "https://example.org/")`: `"kind":"LINK","title":"t","body":"","url":"https://example.org/",` +
			`"poll":null,"bounty":null,"job":null`,
		`createPoll(title: "t", options: ["a", "b"])`: `"kind":"POLL","title":"t","body":"","url":null,"poll":{"price":1,"closesAt":null,` +
			`"options":[{"text":"a","votes":0},{"text":"b","votes":0}],"myVote":null},"bounty":null,"job":null`,
		`createBounty(title: "t", bounty: 100)`: `"kind":"BOUNTY","title":"t","body":"","url":null,"poll":null,` +
			`"bounty":{"sats":100,"paidAt":null,"paidTo":null},"job":null`,
		`createJob(title: "t", company: "c")`: `"kind":"JOB","title":"t","body":"","url":null,"poll":null,"bounty":null,` +
			`"job":{"company":"c","location":""}`,
		`createBio(bio: "me")`: `"kind":"BIO","title":null,"body":"me","url":null,"poll":null,"bounty":null,"job":null`,
	} {
		if r := a.Want(author, "mutation { "+mutation+fields+" }", nil); !strings.Contains(r.Raw, `"state":"PAID","result":{"item":{`+want+`}}`) {
			t.Errorf("%s: %s", mutation, r.Raw)
		}
	}
	closes := a.Clock.Now().Add(time.Hour).Format(time.RFC3339)
	r := a.Want(author, `mutation($o: [String!]!, $p: Sats!, $c: Time) { createPoll(title: "u", options: $o, price: $p, closesAt: $c) { result { item { poll { price closesAt } } } } }`,
		vars{"o": []string{"a", "b"}, "p": 7, "c": closes})
	if r.at("createPoll", "result", "item", "poll", "price") != 7.0 || r.text("createPoll", "result", "item", "poll", "closesAt") != closes {
		t.Errorf("%s", r.Raw)
	}
}

// Whoever zaps an item sees who gets it, also once its author has changed that.
func TestEverybodySeesWhereZapsGo(t *testing.T) {
	t.Parallel()
	a := serve(t)
	author, bob, carol := a.Person("author", 1000, 0), a.Person("bob", 0, 0), a.Person("carol", 0, 0)
	id := a.Want(author, `mutation($f: [Forward!]) { createJob(title: "t", company: "c", forwards: $f) { result { item { id } } } }`,
		vars{"f": []vars{{"user": bob.ID, "pct": 20}, {"user": carol.ID, "pct": 30}}}).text("createJob", "result", "item", "id")
	want := func(forwards string) {
		t.Helper()
		for _, as := range []person{author, bob, nobody} {
			if r := a.Want(as, `query($id: ID!) { item(id: $id) { forwards { user { name } pct } } }`, vars{"id": id}); !strings.Contains(r.Raw, `{"forwards":[`+forwards+`]}`) {
				t.Errorf("%s, want %s", r.Raw, forwards)
			}
		}
	}
	want(`{"user":{"name":"bob"},"pct":20},{"user":{"name":"carol"},"pct":30}`)
	a.Want(author, `mutation($id: ID!, $f: [Forward!]) { updateItem(item: $id, forwards: $f) { id } }`, vars{"id": id, "f": []vars{{"user": bob.ID, "pct": 100}}})
	want(`{"user":{"name":"bob"},"pct":100}`)
	a.Want(author, `mutation($id: ID!) { updateItem(item: $id, forwards: []) { id } }`, vars{"id": id})
	want("")
}

// Nobody else learns how somebody voted, however they ask.
func TestNobodySeesAnothersVote(t *testing.T) {
	t.Parallel()
	a := serve(t)
	author, voter, poor := a.Person("author", 100, 0), a.Person("voter", 100, 0), a.Person("poor", 0, 0)
	const poll = `{ item { id poll { options { id text votes } myVote { state option { text votes } } } } }`
	made := a.Want(author, `mutation { createPoll(title: "which?", options: ["a", "b"], price: 3) { result `+poll+` } }`, nil)
	id := made.text("createPoll", "result", "item", "id")
	options := made.at("createPoll", "result", "item", "poll", "options").([]any)
	vote := func(as person, option int) answer {
		return a.Want(as, `mutation($o: ID!) { pollVote(option: $o) { kind costSats state result { option `+strings.Trim(poll, "{}")+` } } }`,
			vars{"o": options[option].(map[string]any)["id"]})
	}
	if r := vote(voter, 0); r.text("pollVote", "state") != "PAID" || r.text("pollVote", "result", "item", "poll", "myVote", "option", "text") != "a" {
		t.Errorf("%s", r.Raw)
	}
	if r := vote(poor, 1); r.text("pollVote", "state") != "PENDING" || r.text("pollVote", "result", "item", "poll", "myVote", "state") != "PENDING" {
		t.Errorf("%s", r.Raw)
	}
	for _, c := range []struct {
		as   person
		mine string
	}{
		{voter, `{"state":"PAID","option":{"text":"a","votes":1}}`}, {poor, `{"state":"PENDING","option":{"text":"b","votes":0}}`}, {author, "null"}, {nobody, "null"},
	} {
		r := a.Want(c.as, `query($id: ID!) { item(id: $id) { poll { options { text votes } myVote { state option { text votes } } } } }`, vars{"id": id})
		if want := `{"options":[{"text":"a","votes":1},{"text":"b","votes":0}],"myVote":` + c.mine + `}`; !strings.Contains(r.Raw, want) {
			t.Errorf("%s, want %s", r.Raw, want)
		}
	}
}

func TestBountyShowsToWhomItWasPaid(t *testing.T) {
	t.Parallel()
	a := serve(t)
	owner, hunter := a.Person("owner", 1000, 0), a.Person("hunter", 100, 0)
	id := a.Want(owner, `mutation { createBounty(title: "who knows?", bounty: 50) { result { item { id } } } }`, nil).text("createBounty", "result", "item", "id")
	comment := a.Want(hunter, `mutation($p: ID!) { createComment(parent: $p, body: "I do") { result { item { id } } } }`, vars{"p": id}).
		text("createComment", "result", "item", "id")
	a.Want(owner, `mutation($c: ID!) { zap(item: $c, sats: 50) { id } }`, vars{"c": comment})
	r := a.Want(nobody, `query($id: ID!) { item(id: $id) { bounty { sats paidAt paidTo { id author { name } } } } }`, vars{"id": id})
	if r.text("item", "bounty", "paidTo", "id") != comment || r.text("item", "bounty", "paidTo", "author", "name") != "hunter" ||
		r.text("item", "bounty", "paidAt") != a.Clock.Now().Format(time.RFC3339) {
		t.Errorf("%s", r.Raw)
	}
}

// A hundred polls and bounties need no more queries than one.
func TestListsOfPollsTakeFewQueries(t *testing.T) {
	t.Parallel()
	asked := &recorder{}
	a := serve(t, recorded(t, asked))
	reader := a.Person("reader", 1, 0)
	a.Want(reader, `mutation { donate(sats: 1) { id } }`, nil)
	if _, err := a.Pool.Exec(a.Ctx, `
		WITH polls AS (INSERT INTO item (kind, author_id, action_id, state, ancestors, title, body, created_at, poll_msat)
			SELECT 'POLL', $1, 1, 'PAID', '{}', 'poll', '', $2, 1000 FROM generate_series(1, 50) RETURNING id),
		bounties AS (INSERT INTO item (kind, author_id, action_id, state, ancestors, title, body, created_at, bounty_msat)
			SELECT 'BOUNTY', $1, 1, 'PAID', '{}', 'bounty', '', $2, 1000 FROM generate_series(1, 50) RETURNING id),
		paid AS (INSERT INTO bounty_payment SELECT bounties.id, 1, polls.id, $1, $2 FROM bounties JOIN polls ON bounties.id = polls.id + 50)
		INSERT INTO poll_option (item_id, position, text) SELECT id, n, 'option ' || n FROM polls, generate_series(1, 10) n`,
		reader.ID, a.Clock.Now()); err != nil {
		t.Fatal(err)
	}
	asked.take()
	r := a.Want(reader, `{ items(first: 100) { nodes { poll { options { text votes } myVote { state } } bounty { paidTo { author { name } } } } } }`, nil)
	n := len(asked.take())
	t.Logf("%d queries", n)
	if got := fmt.Sprint(strings.Count(r.Raw, `"text"`), strings.Count(r.Raw, `"reader"`)); got != "500 50" {
		t.Errorf("%s options and names: %s", got, r.Raw)
	}
	if n > 12 { // the key, the ids, the items, the polls, the comments, the users; on a busy machine loaders may go twice
		t.Errorf("%d queries", n)
	}
}

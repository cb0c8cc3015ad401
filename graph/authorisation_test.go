package graph_test

import (
	"encoding/json"
	"fmt"
	"net/url"
	"os"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/vektah/gqlparser/v2"
	"github.com/vektah/gqlparser/v2/ast"

	"github.com/a-seed-a7aed72f/holdfast/community"
	"github.com/a-seed-a7aed72f/holdfast/graph"
	"github.com/a-seed-a7aed72f/holdfast/internal/db"
	"github.com/a-seed-a7aed72f/holdfast/lightning/simnode"
)

// What can come of a request, besides a code.
const (
	ok    = "ok"
	null  = "null"  // there is nothing for this caller
	empty = "empty" // a list of nothing
)

// authorised is the matrix. For each field that can be asked for, it has the scope that its key needs (none: every key is
// good for it), and the outcome for the owner of the thing, for somebody else with as good a key, and for somebody without a key. They ask in the
// opposite order: what can be done only once, somebody else has done before the owner. Words in braces stand for things that exist: see setting.
var authorised = []struct{ field, scope, operation, owner, other, anonymous string }{
	{"Query.me", "READ", `{ me { creditsMsat history { nodes { at } } } }`, ok, ok, null},
	{"Query.paidAction", "READ", `{ paidAction(id: "{paid}") { id } }`, ok, "NOT_FOUND", "NOT_FOUND"},
	{"Query.paidActions", "READ", `{ paidActions { nodes { id } } }`, ok, empty, "UNAUTHENTICATED"},
	{"Query.item", "READ", `{ item(id: "{unpaid item}") { id } }`, ok, null, null},
	{"Query.items", "READ", `{ items { nodes { id } } }`, ok, ok, ok},
	{"Query.itemPriceMsat", "READ", `{ itemPriceMsat(parent: "{item}") }`, ok, ok, ok},
	{"Query.territory", "READ", `{ territory(name: "mine") { name } }`, ok, ok, ok},
	{"Query.territories", "READ", `{ territories { nodes { name } } }`, ok, ok, ok},
	{"Query.user", "READ", `{ user(name: "owner") { name } }`, ok, ok, ok},
	{"Query.rewardsMsat", "READ", `{ rewardsMsat { sats } }`, ok, ok, ok},
	{"Query.rewards", "READ", `{ rewards { day } }`, null, null, null},
	{"Query.invites", "READ", `{ invites { nodes { code } } }`, ok, empty, "UNAUTHENTICATED"},
	{"Query.preferences", "READ", `{ preferences { dropInvoicesAfterDays } }`, ok, ok, "UNAUTHENTICATED"},
	{"Query.notifications", "READ", `{ notifications { nodes { id } } }`, ok, empty, "UNAUTHENTICATED"},
	{"Query.wallets", "READ", `{ wallets { id } }`, ok, empty, "UNAUTHENTICATED"},
	{"Subscription.paidActionUpdated", "READ", `subscription { paidActionUpdated(id: "{paid}") { id } }`, ok, "NOT_FOUND", "NOT_FOUND"},

	{"Mutation.createPost", "SPEND", `mutation { createPost(title: "a post of {who}") { id } }`, ok, ok, ok},
	{"Mutation.createComment", "SPEND", `mutation { createComment(parent: "{item}", body: "a comment of {who}") { id } }`, ok, ok, ok},
	{"Mutation.createLink", "SPEND", `mutation { createLink(title: "a link of {who}", url: "https://example.org") { id } }`, ok, ok, ok},
	{"Mutation.createPoll", "SPEND", `mutation { createPoll(title: "a poll of {who}", options: ["a", "b"]) { id } }`, ok, ok, ok},
	{"Mutation.createBounty", "SPEND", `mutation { createBounty(title: "a bounty of {who}", bounty: 5) { id } }`, ok, ok, "UNAUTHENTICATED"},
	{"Mutation.createJob", "SPEND", `mutation { createJob(title: "a job of {who}", company: "x") { id } }`, ok, ok, ok},
	{"Mutation.createBio", "SPEND", `mutation { createBio(bio: "of {who}") { id } }`, ok, ok, "UNAUTHENTICATED"},
	{"Mutation.pollVote", "SPEND", `mutation { pollVote(option: "{option}") { id } }`, ok, ok, "UNAUTHENTICATED"},
	{"Mutation.updateItem", "SPEND", `mutation { updateItem(item: "{own item}", body: "by {who}") { id } }`, ok, "FORBIDDEN", "FORBIDDEN"},
	{"Mutation.zap", "SPEND", `mutation { zap(item: "{item}", sats: 1) { id } }`, ok, ok, ok},
	{"Mutation.downZap", "SPEND", `mutation { downZap(item: "{item}", sats: 1) { id } }`, ok, ok, "UNAUTHENTICATED"},
	{"Mutation.boost", "SPEND", `mutation { boost(item: "{item}", sats: 10000) { id } }`, ok, ok, "UNAUTHENTICATED"},
	{"Mutation.donate", "SPEND", `mutation { donate(sats: 1) { id } }`, ok, ok, ok},
	{"Mutation.buyCredits", "SPEND", `mutation { buyCredits(credits: 1) { id } }`, ok, ok, "UNAUTHENTICATED"},
	{"Mutation.territoryCreate", "SPEND", `mutation { territoryCreate(name: "of_{who}", baseCostSats: 10, replyCostSats: 1, billing: MONTHLY) { id } }`, ok, ok, "UNAUTHENTICATED"},
	{"Mutation.territoryUpdate", "SPEND", `mutation { territoryUpdate(name: "mine", description: "by {who}") { id } }`, ok, "FORBIDDEN", "UNAUTHENTICATED"},
	{"Mutation.territoryBilling", "SPEND", `mutation { territoryBilling(name: "mine") { id } }`, ok, "FORBIDDEN", "UNAUTHENTICATED"},
	{"Mutation.territoryUnarchive", "SPEND", `mutation { territoryUnarchive(name: "stopped_{who}", billing: MONTHLY) { id } }`, ok, ok, "UNAUTHENTICATED"},
	{"Mutation.receive", "SPEND", `mutation { receive(user: "{author}", msat: "1000") { id } }`, ok, ok, ok},
	{"Mutation.withdraw", "WITHDRAW", `mutation { withdraw(to: "{invoice for {who}}", maxFeeSats: 1) { id } }`, ok, ok, "UNAUTHENTICATED"},
	{"Mutation.retryPaidAction", "SPEND", `mutation { retryPaidAction(id: "{failed}") { id } }`, ok, "NOT_FOUND", "NOT_FOUND"},
	{"Mutation.cancelInvoice", "SPEND", `mutation { cancelInvoice(id: "{unpaid}") { id } }`, ok, "NOT_FOUND", "NOT_FOUND"},
	{"Mutation.walletSave", "SETTINGS", `mutation { walletSave(id: "{wallet}", settings: {lnbits: {url: "{wallet's url}", key: "` + lnbitsKey + `"}}) { id } }`, ok, "NOT_FOUND", "UNAUTHENTICATED"},
	{"Mutation.walletEnable", "SETTINGS", `mutation { walletEnable(id: "{wallet}", enabled: false) { id } }`, ok, "NOT_FOUND", "UNAUTHENTICATED"},
	{"Mutation.walletsReorder", "SETTINGS", `mutation { walletsReorder(ids: ["{wallet}"]) { id } }`, ok, "INVALID_INPUT", "UNAUTHENTICATED"},
	{"Mutation.walletRemove", "SETTINGS", `mutation { walletRemove(id: "{wallet}") { id } }`, empty, "NOT_FOUND", "UNAUTHENTICATED"},
	{"Mutation.createInvite", "WITHDRAW", `mutation { createInvite(giftCredits: 1, limit: 1) { code } }`, ok, ok, "UNAUTHENTICATED"},
	{"Mutation.revokeInvite", "WITHDRAW", `mutation { revokeInvite(code: "{own invite}") { code } }`, ok, "NOT_FOUND", "UNAUTHENTICATED"},
	{"Mutation.redeemInvite", "SPEND", `mutation { redeemInvite(code: "{invite}") { giftMsat } }`, ok, ok, "UNAUTHENTICATED"},
	{"Mutation.setPreferences", "SETTINGS", `mutation { setPreferences(dropInvoicesAfterDays: 9) { dropInvoicesAfterDays } }`, ok, ok, "UNAUTHENTICATED"},
	{"Mutation.notificationsSeen", "READ", `mutation { notificationsSeen(upTo: "{notification}") { unseenNotifications } }`, ok, ok, "UNAUTHENTICATED"},
	{"Mutation.signUp", "SETTINGS", `mutation { signUp(name: "newcomer_{who}") { key } }`, "FORBIDDEN", "FORBIDDEN", "FORBIDDEN"}, // in production
	{"Mutation.signIn", "SETTINGS", `mutation { signIn { lnurl } }`, ok, ok, ok},
	{"Mutation.signedIn", "SETTINGS", `mutation { signedIn(secret: "{who}") { key } }`, "NOT_FOUND", "NOT_FOUND", "NOT_FOUND"},
	{"Mutation.linkWalletKey", "SETTINGS", `mutation { linkWalletKey { lnurl } }`, ok, ok, "UNAUTHENTICATED"},
	{"Query.webhooks", "READ", `{ webhooks { id messages { nodes { id } } } }`, ok, empty, "UNAUTHENTICATED"},
	{"Mutation.webhookCreate", "SETTINGS", `mutation { webhookCreate(url: "https://{who}.example", events: ["action.paid"]) { secret } }`, ok, ok, "UNAUTHENTICATED"},
	{"Mutation.webhookRotate", "SETTINGS", `mutation { webhookRotate(id: "{webhook}") { secret } }`, ok, "NOT_FOUND", "UNAUTHENTICATED"},
	{"Mutation.webhookEnable", "SETTINGS", `mutation { webhookEnable(id: "{webhook}", enabled: true) { id } }`, ok, "NOT_FOUND", "UNAUTHENTICATED"},
	{"Mutation.webhookTest", "SETTINGS", `mutation { webhookTest(id: "{webhook}") { id } }`, ok, "NOT_FOUND", "UNAUTHENTICATED"},
	{"Mutation.webhookRedeliver", "SETTINGS", `mutation { webhookRedeliver(message: "{message}") { id } }`, ok, "NOT_FOUND", "UNAUTHENTICATED"},
	{"Mutation.webhookRemove", "SETTINGS", `mutation { webhookRemove(id: "{webhook}") { id } }`, ok, "NOT_FOUND", "UNAUTHENTICATED"}, // one is left
	{"Mutation.signOut", "", `mutation { signOut { name } }`, ok, ok, "UNAUTHENTICATED"},                                             // the last row: afterwards the key is no longer good
}

// Every field of the API × everybody who can ask for it: the outcome, and that a refusal changes nothing at all. It
// fails for a new field of the schema that has no row here, or whose key needs another scope than its row says.
func TestAuthorisation(t *testing.T) {
	t.Parallel()
	missing := rootFields(t)
	s := newSetting(t)
	before := s.fingerprint()
	for _, row := range authorised {
		if got := missing[row.field]; got != row.scope {
			t.Errorf("%s needs %q by the schema, %q by the matrix", row.field, got, row.scope)
		}
		delete(missing, row.field)
		lacking, without := "a key without "+row.scope, "FORBIDDEN"
		if row.scope == "" {
			lacking, without = "a key that may do little", row.owner
		}
		for _, c := range []struct {
			name, want string
			as         person
		}{
			{"anonymous", row.anonymous, nobody}, {"an unknown key", "UNAUTHENTICATED", person{Key: "hf_unknown"}}, {"a revoked key", "UNAUTHENTICATED", s.revoked},
			{lacking, without, s.without[row.scope]}, {"other", row.other, s.other}, {"owner", row.owner, s.owner},
		} {
			r := s.ask(c.as, s.filled(row.operation, c.name))
			if got := outcome(r); got != c.want {
				t.Errorf("%s by %s: %s, want %s: %s", row.field, c.name, got, c.want, r.Raw)
			}
			now := s.fingerprint()
			if c.want != ok && c.want != empty && now != before {
				t.Errorf("%s by %s was refused, and changed something", row.field, c.name)
			}
			before = now
			wantNoLeak(t, row.field, r)
		}
	}
	for field := range missing {
		t.Errorf("%s is not in the matrix: add a row to authorised", field)
	}
	s.Drain()
	s.WantConserved()
}

// rootFields returns the fields that can be asked for, with the scope that each needs.
func rootFields(t testing.TB) map[string]string {
	t.Helper()
	parsed := parsedSchema(t)
	fields := map[string]string{}
	for _, of := range []*ast.Definition{parsed.Query, parsed.Mutation, parsed.Subscription} {
		for _, f := range of.Fields {
			if strings.HasPrefix(f.Name, "__") {
				continue
			}
			scope := ""
			if needs := f.Directives.ForName("needs"); needs != nil {
				scope = needs.Arguments.ForName("scope").Value.Raw
			}
			fields[of.Name+"."+f.Name] = scope
		}
	}
	// For an interface's field, @needs would be looked up at the interface, and that of its types would be missed.
	for _, of := range parsed.Types {
		for _, f := range of.Fields {
			if f.Directives.ForName("needs") != nil && (of.Kind == ast.Interface || len(of.Interfaces) > 0) {
				t.Errorf("%s.%s: @needs is not heeded on an interface's fields", of.Name, f.Name)
			}
		}
	}
	return fields
}

func parsedSchema(t testing.TB) *ast.Schema {
	t.Helper()
	text, err := os.ReadFile("../schema.graphql")
	if err != nil {
		t.Fatal(err)
	}
	parsed, err := gqlparser.LoadSchema(&ast.Source{Name: "schema.graphql", Input: string(text)})
	if err != nil {
		t.Fatal(err)
	}
	return parsed
}

// setting is an API in production mode with something of everything.
type setting struct {
	*api
	owner, other, revoked person
	without               map[string]person // the owner, with a key that has all scopes but this
	named                 map[string]string // what {…} in an operation stands for
}

func newSetting(t testing.TB, change ...func(*graph.Config)) *setting {
	t.Helper()
	s := &setting{api: serve(t, append(change, func(c *graph.Config) {
		c.Development, c.Public = false, &url.URL{Scheme: "https", Host: "holdfast.example"}
	})...), without: map[string]person{}, named: map[string]string{}}
	const rich = 1_000_000_000 // sats: each post soon after another costs ten times as much
	author := s.Person("author", rich, 0)
	s.stopped(author, "stopped_owner", "stopped_other")
	s.owner, s.other = s.Person("owner", rich, rich), s.Person("other", rich, rich)
	for _, scope := range graph.Scopes {
		s.without[scope] = s.key("owner", slices.DeleteFunc(slices.Clone(graph.Scopes), func(has string) bool { return has == scope })...)
	}
	s.without[""] = s.key("owner", graph.ScopeSpend)
	s.revoked = s.key("owner", graph.Scopes...)
	s.revoke(s.revoked)

	one := func(as person, operation string, path ...string) string {
		t.Helper()
		text := s.Want(as, operation, nil).text(path...)
		if text == "" {
			t.Fatalf("%s has no %v", operation, path)
		}
		return text
	}
	s.named["author"] = fmt.Sprint(author.ID)
	s.named["item"] = s.PostBy(author, "of the author")
	s.named["own item"] = one(s.owner, `mutation { it: createPost(title: "of the owner", paymentMethod: FEE_CREDIT) { result { item { id } } } }`, "it", "result", "item", "id")
	s.named["paid"] = one(s.owner, `mutation { donate(sats: 1) { id } }`, "donate", "id")
	s.Want(author, `mutation { createComment(parent: "`+s.named["own item"]+`", body: "a reply") { id } }`, nil)
	s.named["option"] = s.Want(author, `mutation { createPoll(title: "which?", options: ["a", "b"]) { result { item { poll { options { id } } } } } }`, nil).
		at("createPoll", "result", "item", "poll", "options").([]any)[0].(map[string]any)["id"].(string)
	s.named["failed"] = one(s.owner, `mutation { it: createPost(title: "failed", paymentMethod: OPTIMISTIC) { id } }`, "it", "id")
	s.Want(s.owner, `mutation { cancelInvoice(id: "`+s.named["failed"]+`") { id } }`, nil)
	unpaid := s.Want(s.owner, `mutation { it: createPost(title: "unpaid", paymentMethod: OPTIMISTIC) { id result { item { id } } } }`, nil)
	s.named["unpaid"], s.named["unpaid item"] = unpaid.text("it", "id"), unpaid.text("it", "result", "item", "id")
	s.Want(s.owner, `mutation { territoryCreate(name: "mine", baseCostSats: 10, replyCostSats: 1, billing: MONTHLY) { id } }`, nil)
	wallet := newLNbits(t)
	s.named["wallet"], s.named["wallet's url"] = s.saveWallet(s.owner, wallet.URL, "the owner's"), wallet.URL
	s.named["webhook"] = one(s.owner, `mutation { webhookCreate(url: "https://owner.example") { webhook { id } } }`, "webhookCreate", "webhook", "id")
	s.named["message"] = one(s.owner, `mutation { webhookTest(id: "`+s.named["webhook"]+`") { id } }`, "webhookTest", "id")
	if _, err := s.Pool.Exec(s.Ctx, `UPDATE webhook_message SET queued_at = $1, ended_at = $1`, s.Clock.Now()); err != nil {
		t.Fatal(err)
	}
	s.named["own invite"] = one(s.owner, `mutation { createInvite(giftCredits: 1, limit: 1) { code } }`, "createInvite", "code")
	s.named["invite"] = one(author, `mutation { createInvite(giftCredits: 1, limit: 5) { code } }`, "createInvite", "code")
	carol := s.Network.AddReceiver("carol")
	for _, who := range []string{"owner", "other", "anonymous"} {
		s.named["invoice for "+who] = carol.Issue(simnode.Ask{Amount: 50_000, Act: simnode.Holds}).Bolt11
	}
	s.Drain()
	s.named["notification"] = s.Want(s.owner, `{ notifications { nodes { id } } }`, nil).at("notifications", "nodes").([]any)[0].(map[string]any)["id"].(string)
	return s
}

// stopped founds territories that nobody has paid for since.
func (a *api) stopped(founder person, names ...string) {
	a.Helper()
	for _, name := range names {
		a.Want(founder, `mutation($n: String!) { territoryCreate(name: $n, baseCostSats: 10, replyCostSats: 1, billing: MONTHLY) { id } }`, vars{"n": name})
	}
	for range 2 { // it is due; then its grace is over
		a.Clock.Advance(60 * 24 * time.Hour)
		if err := community.BillTerritories(a.Ctx, a.Engine, community.DefaultSettings()); err != nil {
			a.Fatal(err)
		}
	}
}

// filled returns an operation with the names in braces filled in.
func (s *setting) filled(operation, who string) string {
	operation = strings.ReplaceAll(operation, "{who}", strings.Fields(who)[0])
	for name, value := range s.named {
		operation = strings.ReplaceAll(operation, "{"+name+"}", value)
	}
	return operation
}

// key makes a further key for somebody.
func (a *api) key(name string, scopes ...string) person {
	a.Helper()
	_, key, err := graph.AddKey(a.Ctx, a.Pool, name, scopes, a.Clock.Now())
	if err != nil {
		a.Fatal(err)
	}
	return person{Key: key}
}

func (a *api) revoke(p person) {
	a.Helper()
	n, err := db.New(a.Pool).RevokeKey(a.Ctx, db.RevokeKeyParams{At: new(a.Clock.Now()), KeyHash: graph.HashKey(p.Key)})
	if err != nil || n != 1 {
		a.Fatalf("revoked %d keys, %v", n, err)
	}
}

// ask sends the operation, a subscription over server-sent events.
func (a *api) ask(as person, operation string) answer {
	a.Helper()
	if !strings.HasPrefix(operation, "subscription") {
		return a.Do(as, operation, nil)
	}
	body, err := json.Marshal(map[string]any{"query": operation})
	if err != nil {
		a.Fatal(err)
	}
	r := a.Post(as.Key, string(body), "Accept", "text/event-stream")
	if _, data, sent := strings.Cut(r.Raw, "data: "); sent {
		data, _, _ = strings.Cut(data, "\n")
		if err := json.Unmarshal([]byte(data), &r); err != nil {
			a.Fatal(err)
		}
	}
	return r
}

// outcome is what came of asking for one field.
func outcome(r answer) string {
	if code := r.code(); code != "" {
		return code
	}
	for _, value := range r.Data {
		if page, is := value.(map[string]any); is && page["nodes"] != nil {
			value = page["nodes"]
		}
		switch list, isList := value.([]any); {
		case value == nil:
			return null
		case isList && len(list) == 0:
			return empty
		}
		return ok
	}
	return "nothing"
}

// fingerprint changes with any row of any table.
func (a *api) fingerprint() string {
	a.Helper()
	var query, all string
	err := a.Pool.QueryRow(a.Ctx, `SELECT string_agg(format('SELECT %L || count(*) || md5(coalesce(string_agg(t::text, '','' ORDER BY t::text), '''')) AS row FROM %I AS t',
		tablename, tablename), ' UNION ALL ' ORDER BY tablename) FROM pg_tables WHERE schemaname = 'public'`).Scan(&query)
	if err == nil {
		err = a.Pool.QueryRow(a.Ctx, `SELECT string_agg(row, ' ' ORDER BY row) FROM (`+query+`) AS rows`).Scan(&all)
	}
	if err != nil {
		a.Fatal(err)
	}
	return all
}

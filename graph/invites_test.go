package graph_test

import (
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/a-seed-a7aed72f/holdfast/graph"
)

// An invite is made, given away, redeemed and revoked. The newcomer sees the gift, and the inviter sees the action that
// paid for it.
func TestAnInviteGivesToEachNewcomerOnce(t *testing.T) {
	t.Parallel()
	a := serve(t)
	inviter, other, newcomer := a.Person("inviter", 100, 0), a.Person("other", 0, 0), a.Person("newcomer", 0, 0)
	const redeem = `mutation($c: String!) { redeemInvite(code: $c) { giftMsat } }`
	made := a.Want(inviter, `mutation { createInvite(giftCredits: 60, limit: 3) { code giftMsat usesLimit used revokedAt } }`, nil)
	code := made.text("createInvite", "code")
	if len(code) != 32 || made.text("createInvite", "giftMsat") != "60000" || made.at("createInvite", "usesLimit") != 3.0 {
		t.Fatalf("%s", made.Raw)
	}

	got := a.Want(newcomer, redeem, vars{"c": code})
	again := a.Want(newcomer, redeem, vars{"c": code}) // the answer was lost: the same again, and nothing more
	if got.Raw != `{"data":{"redeemInvite":{"giftMsat":"60000"}}}` || again.Raw != got.Raw {
		t.Errorf("%s, then %s", got.Raw, again.Raw)
	}
	if me := a.Want(newcomer, `{ me { creditsMsat } paidActions { nodes { id } } }`, nil); me.text("me", "creditsMsat") != "60000" ||
		len(me.at("paidActions", "nodes").([]any)) != 0 {
		t.Errorf("the newcomer has %s", me.Raw)
	}
	list := a.Want(inviter, `{ paidActions { nodes { __typename id costMsat ... on InviteGiftAction { result { msat user { name } } } } }
		invites { nodes { code used } next } }`, nil)
	action := list.at("paidActions", "nodes").([]any)[0].(map[string]any)
	if action["__typename"] != "InviteGiftAction" || action["result"].(map[string]any)["user"].(map[string]any)["name"] != "newcomer" ||
		list.at("invites", "nodes").([]any)[0].(map[string]any)["used"] != 1.0 {
		t.Errorf("the inviter sees %s", list.Raw)
	}
	if r := a.Do(newcomer, `query($id: ID!) { paidAction(id: $id) { id } }`, vars{"id": action["id"]}); r.code() != "NOT_FOUND" {
		t.Errorf("the newcomer sees the inviter's action: %s", r.Raw)
	}
	if mine := a.Want(other, `{ invites { nodes { code } } }`, nil); len(mine.at("invites", "nodes").([]any)) != 0 {
		t.Errorf("somebody else sees %s", mine.Raw)
	}

	// Each of these is refused with its code, and nothing changes.
	second := a.Want(inviter, `mutation { createInvite(giftCredits: 1, limit: 1) { code } }`, nil).text("createInvite", "code")
	late := a.Person("late", 0, 0)
	before := a.traces()
	for name, c := range map[string]struct {
		as    person
		query string
		code  string
		want  string
	}{
		"without signing in":      {nobody, redeem, code, "UNAUTHENTICATED"},
		"unknown":                 {other, redeem, strings.Repeat("0", 32), "NOT_FOUND"},
		"impossible":              {other, redeem, "a\x00b", "NOT_FOUND"},
		"one's own":               {inviter, redeem, code, "FORBIDDEN"},
		"a second":                {newcomer, redeem, second, "DUPLICATE"},
		"more than is left":       {other, redeem, code, "INSUFFICIENT_FUNDS"},
		"revoke somebody else's":  {other, `mutation($c: String!) { revokeInvite(code: $c) { code } }`, code, "NOT_FOUND"},
		"no gift":                 {inviter, `mutation { createInvite(giftCredits: 0, limit: 1) { code } }`, "", "INVALID_AMOUNT"},
		"for nobody":              {inviter, `mutation { createInvite(giftCredits: 1, limit: 0) { code } }`, "", "INVALID_INPUT"},
		"made without signing in": {nobody, `mutation { createInvite(giftCredits: 1, limit: 1) { code } }`, "", "UNAUTHENTICATED"},
		"listed":                  {nobody, `{ invites { next } }`, "", "UNAUTHENTICATED"},
	} {
		var v vars
		if c.code != "" {
			v = vars{"c": c.code}
		}
		r := a.Do(c.as, c.query, v)
		if r.code() != c.want {
			t.Errorf("%s: %q, want %s: %s", name, r.code(), c.want, r.Raw)
		}
		wantNoLeak(t, name, r)
	}
	if now := a.traces(); now != before {
		t.Errorf("left behind:\n%s\nbefore:\n%s", now, before)
	}
	revoked := a.Want(inviter, `mutation($c: String!) { revokeInvite(code: $c) { revokedAt } }`, vars{"c": second})
	if revoked.text("revokeInvite", "revokedAt") == "" {
		t.Errorf("%s", revoked.Raw)
	}
	if r := a.Do(late, redeem, vars{"c": second}); r.code() != "FORBIDDEN" {
		t.Errorf("taken back, and %s", r.Raw)
	}
	a.Clock.Advance(25 * time.Hour)
	if r := a.Do(late, redeem, vars{"c": code}); r.code() != "FORBIDDEN" {
		t.Errorf("no newcomer any more, and %s", r.Raw)
	}
	if r := a.Want(newcomer, redeem, vars{"c": code}); r.Raw != got.Raw {
		t.Errorf("what was redeemed once became %s", r.Raw)
	}
}

// However many redeem somebody's invites at once, the inviter pays meanwhile.
func TestThoseWhoRedeemAnInviteDoNotHoldUpItsInviter(t *testing.T) {
	t.Parallel()
	a := serve(t)
	inviter := a.Person("inviter", 100, 0)
	code := a.Want(inviter, `mutation { createInvite(giftCredits: 1, limit: 3) { code } }`, nil).text("createInvite", "code")
	slow, err := a.Pool.Begin(a.Ctx)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = slow.Rollback(a.Ctx) }()
	if _, err := slow.Exec(a.Ctx, `SELECT FROM invite FOR UPDATE`); err != nil {
		t.Fatal(err)
	}
	var redeeming sync.WaitGroup
	for _, name := range []string{"one", "two", "three"} {
		newcomer := a.Person(name, 0, 0)
		redeeming.Go(func() {
			if r := a.Do(newcomer, `mutation($c: String!) { redeemInvite(code: $c) { giftMsat } }`, vars{"c": code}); r.code() != "" {
				t.Errorf("%s", r.Raw)
			}
		})
	}
	a.AwaitBlocked(2)
	a.Want(inviter, `mutation { donate(sats: 1, paymentMethod: FEE_CREDIT) { id } }`, nil)
	if err := slow.Commit(a.Ctx); err != nil {
		t.Fatal(err)
	}
	redeeming.Wait()
}

// Whoever knows an invite's code has its gift: a key that may only read sees which invites there are, and not the codes.
func TestAKeyThatMayOnlyReadGivesNoInviteAway(t *testing.T) {
	t.Parallel()
	a := serve(t)
	inviter, thief := a.Person("inviter", 100, 0), a.Person("thief", 0, 0)
	a.Want(inviter, `mutation { createInvite(giftCredits: 60, limit: 1) { code } }`, nil)
	reads := a.key("inviter", graph.ScopeRead)
	if r := a.Want(reads, `{ invites { nodes { giftMsat used } } }`, nil); len(r.at("invites", "nodes").([]any)) != 1 {
		t.Errorf("%s", r.Raw)
	}
	r := a.Do(reads, `{ invites { nodes { code } } }`, nil)
	if r.code() != "FORBIDDEN" {
		t.Errorf("%s", r.Raw)
		code := r.at("invites", "nodes").([]any)[0].(map[string]any)["code"]
		a.Want(thief, `mutation($c: String!) { redeemInvite(code: $c) { giftMsat } }`, vars{"c": code})
	}
	if me := a.Want(inviter, `{ me { creditsMsat } }`, nil); me.text("me", "creditsMsat") != "100000" {
		t.Errorf("the inviter has %s", me.Raw)
	}
	both := a.key("inviter", graph.ScopeRead, graph.ScopeWithdraw)
	if r := a.Want(both, `{ invites { nodes { code } } }`, nil); len(r.at("invites", "nodes").([]any)) != 1 {
		t.Errorf("%s", r.Raw)
	}
}

func TestPreferences(t *testing.T) {
	t.Parallel()
	a := serve(t)
	user := a.Person("user", 0, 0)
	want := func(days any) {
		t.Helper()
		if r := a.Want(user, `{ preferences { dropInvoicesAfterDays } }`, nil); r.at("preferences", "dropInvoicesAfterDays") != days {
			t.Errorf("%s, want %v", r.Raw, days)
		}
	}
	want(nil)
	a.Want(user, `mutation { setPreferences(dropInvoicesAfterDays: 30) { dropInvoicesAfterDays } }`, nil)
	want(30.0)
	if r := a.Do(user, `mutation { setPreferences(dropInvoicesAfterDays: 0) { dropInvoicesAfterDays } }`, nil); r.code() != "INVALID_INPUT" {
		t.Errorf("%s", r.Raw)
	}
	want(30.0)
	a.Want(user, `mutation { setPreferences(dropInvoicesAfterDays: null) { dropInvoicesAfterDays } }`, nil)
	want(nil)
	a.Want(user, `mutation { setPreferences(hideInvoiceDescriptions: true) { hideInvoiceDescriptions } }`, nil)
	if r := a.Want(user, `{ preferences { dropInvoicesAfterDays hideInvoiceDescriptions } }`, nil); r.at("preferences", "hideInvoiceDescriptions") != true {
		t.Errorf("%s", r.Raw)
	}
	want(nil)
	if r := a.Want(user, `mutation { setPreferences { hideInvoiceDescriptions } }`, nil); r.at("setPreferences", "hideInvoiceDescriptions") != false {
		t.Errorf("what is left out keeps its value: %s", r.Raw)
	}
	for _, query := range []string{`{ preferences { dropInvoicesAfterDays } }`, `mutation { setPreferences { dropInvoicesAfterDays } }`} {
		if r := a.Do(nobody, query, nil); r.code() != "UNAUTHENTICATED" {
			t.Errorf("%s", r.Raw)
		}
	}
}

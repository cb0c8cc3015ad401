package community_test

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/a-seed-a7aed72f/holdfast/community"
	"github.com/a-seed-a7aed72f/holdfast/internal/db"
	"github.com/a-seed-a7aed72f/holdfast/internal/enginetest"
	"github.com/a-seed-a7aed72f/holdfast/ledger"
	"github.com/a-seed-a7aed72f/holdfast/lightning/simnode"
	"github.com/a-seed-a7aed72f/holdfast/paidaction"
)

func update(w *enginetest.World, user int64, a community.ItemUpdateArgs) *paidaction.PaidAction {
	w.Helper()
	return w.Pay(user, community.KindItemUpdate, a, "")
}

// text is what everybody reads: title and body.
func text(w *enginetest.World, id int64) string {
	w.Helper()
	i := item(w, id)
	if i.Title == nil {
		return body(w, id)
	}
	return *i.Title + ": " + body(w, id)
}

// body is the text of an item.
func body(w *enginetest.World, id int64) string {
	w.Helper()
	rows, err := db.New(w.Pool).TextsOf(w.Ctx, []int64{id})
	if err != nil || len(rows) != 1 {
		w.Fatalf("of item %d there are the texts %v (%v)", id, rows, err)
	}
	return rows[0].Body
}

// pendingEdit is what the viewer sees of a change that is not paid, or empty.
func pendingEdit(w *enginetest.World, item, viewer int64) string {
	w.Helper()
	rows, err := db.New(w.Pool).PendingEditsOf(w.Ctx, db.PendingEditsOfParams{ItemIds: []int64{item}, AuthorID: &viewer})
	if err != nil {
		w.Fatal(err)
	}
	if len(rows) == 0 {
		return ""
	}
	return rows[0].Body
}

// payInvoice pays an action's invoice, and has it take one step; what follows is left to the jobs.
func payInvoice(w *enginetest.World, pa *paidaction.PaidAction) {
	w.Helper()
	if err := w.Node.PayBolt11(pa.Invoice.Bolt11, simnode.Payment{}); err != nil {
		w.Fatal(err)
	}
	w.Advance(pa.ID)
}

// spec 02 §2.4: free inside the window; what is left out stays.
func TestTextIsChangedForNothing(t *testing.T) {
	t.Parallel()
	w := enginetest.New(t, paidaction.Settings{})
	author := w.User("author", 10*sat, 0)
	post := w.Item(create(w, author, community.ItemCreateArgs{Title: "title", Body: "body"}))
	comment := w.Item(create(w, author, community.ItemCreateArgs{Parent: post, Body: "comment"}))
	if i := item(w, post); i.EditedAt != nil {
		t.Error("edited before it was")
	}
	w.Clock.Advance(10 * time.Minute)
	for _, c := range []struct {
		args community.ItemUpdateArgs
		want string
	}{
		{community.ItemUpdateArgs{Item: post, Title: new(" Title ")}, "Title: body"},
		{community.ItemUpdateArgs{Item: post, Body: new("Body")}, "Title: Body"},
		{community.ItemUpdateArgs{Item: post, Title: new("both"), Body: new("")}, "both: "},
		{community.ItemUpdateArgs{Item: comment, Body: new("Comment")}, "Comment"},
	} {
		pa := update(w, author, c.args)
		if pa.State != paidaction.Paid || pa.Method != paidaction.ZeroCost || pa.Cost != 0 {
			t.Errorf("%+v: %s by %s for %d", c.args, pa.State, pa.Method, pa.Cost)
		}
		if got := text(w, c.args.Item); got != c.want {
			t.Errorf("reads %q, want %q", got, c.want)
		}
		if at := item(w, c.args.Item).EditedAt; at == nil || !at.Equal(w.Clock.Now()) {
			t.Errorf("edited at %v", at)
		}
	}
	if n := w.Count(`SELECT count(*) FROM item_edit`); n != 0 {
		t.Errorf("%d edits are still pending", n)
	}
	w.WantBalance(ledger.UserCredits(author), 8*sat)
	w.WantConserved()
}

// The window begins with the payment, since before it nothing can be changed; uploads are added at any time.
func TestEditWindow(t *testing.T) {
	t.Parallel()
	w := enginetest.New(t, paidaction.Settings{})
	author := w.User("author", 0, 0)
	forwardee := w.User("forwardee", 0, 0)
	pa := create(w, author, community.ItemCreateArgs{Title: "title", Body: "body"})
	post := w.Item(pa)
	_, err := w.Try(author, community.KindItemUpdate, community.ItemUpdateArgs{Item: post, Body: new("too early")}, "", "")
	w.WantRefusal(err, community.CodeNotPaid)
	w.Clock.Advance(9 * time.Minute)
	if err := w.Node.PayBolt11(pa.Invoice.Bolt11, simnode.Payment{}); err != nil {
		t.Fatal(err)
	}
	w.Advance(pa.ID)
	w.WantState(pa.ID, paidaction.Paid)
	w.Clock.Advance(10 * time.Minute)
	update(w, author, community.ItemUpdateArgs{Item: post, Body: new("in time")})
	w.Clock.Advance(time.Microsecond)
	for name, late := range map[string]community.ItemUpdateArgs{
		"a text":   {Item: post, Body: new("late")},
		"a title":  {Item: post, Title: new("late")},
		"forwards": {Item: post, Forwards: []community.Forward{{User: forwardee, Pct: 10}}},
		"both":     {Item: post, Body: new("late"), Uploads: []int64{send(w, author).ID}},
	} {
		if _, err := w.Try(author, community.KindItemUpdate, late, "", ""); err == nil {
			t.Errorf("%s was changed too late", name)
		} else {
			w.WantRefusal(err, community.CodeEditWindowOver)
		}
	}
	u := send(w, author)
	update(w, author, community.ItemUpdateArgs{Item: post, Title: new("title"), Body: new("in time"), Uploads: []int64{u.ID}})
	if got := text(w, post); got != "title: in time" || !public(w, u) {
		t.Errorf("reads %q, the upload is public: %t", got, public(w, u))
	}
}

func TestChangesThatAreRefused(t *testing.T) {
	t.Parallel()
	w := enginetest.New(t, paidaction.Settings{})
	author, other := w.User("author", 10_000*sat, 0), w.User("other", 10_000*sat, 0)
	post := w.Item(create(w, author, community.ItemCreateArgs{Title: "title", Body: "body"}))
	comment := w.Item(create(w, author, community.ItemCreateArgs{Parent: post, Body: "comment"}))
	poor := w.User("poor", 0, 0)
	failed := create(w, poor, community.ItemCreateArgs{Title: "failed"})
	if _, err := w.Engine.Cancel(w.Ctx, enginetest.Caller(poor), failed.ID); err != nil {
		t.Fatal(err)
	}
	pending := w.Item(create(w, poor, community.ItemCreateArgs{Title: "pending"}))
	gone := w.Item(create(w, author, community.ItemCreateArgs{Title: "gone"}))
	if _, err := w.Pool.Exec(w.Ctx, `UPDATE item SET deleted_at = created_at WHERE id = $1`, gone); err != nil {
		t.Fatal(err)
	}
	ten := make([]int64, 10)
	for i := range ten {
		ten[i] = send(w, author).ID
	}
	update(w, author, community.ItemUpdateArgs{Item: comment, Uploads: ten})
	traces := func() string {
		var all string
		for _, table := range []string{"paid_action", "action_history", "item_edit", "posting", "notification", "item_mention"} {
			all += fmt.Sprint(table, w.Count(`SELECT count(*) FROM `+table), " ")
		}
		return all + text(w, post) + text(w, comment)
	}
	before := traces()
	long := strings.Repeat("ä", 40_001)
	for name, c := range map[string]struct {
		as   int64
		args community.ItemUpdateArgs
		code paidaction.Code
	}{
		"another's":                {other, community.ItemUpdateArgs{Item: post, Body: new("x")}, paidaction.CodeForbidden},
		"without signing in":       {0, community.ItemUpdateArgs{Item: post, Body: new("x")}, paidaction.CodeForbidden},
		"of nothing":               {author, community.ItemUpdateArgs{Item: 99999, Body: new("x")}, paidaction.CodeNotFound},
		"of what is deleted":       {author, community.ItemUpdateArgs{Item: gone, Body: new("x")}, paidaction.CodeNotFound},
		"of what is pending":       {poor, community.ItemUpdateArgs{Item: pending, Body: new("x")}, community.CodeNotPaid},
		"of what has failed":       {poor, community.ItemUpdateArgs{Item: w.Item(failed), Body: new("x")}, community.CodeNotPaid},
		"of another's pending one": {author, community.ItemUpdateArgs{Item: pending, Body: new("x")}, paidaction.CodeNotFound},
		"that changes nothing":     {author, community.ItemUpdateArgs{Item: post}, paidaction.CodeInvalidInput},
		"an empty title":           {author, community.ItemUpdateArgs{Item: post, Title: new(" ")}, paidaction.CodeInvalidInput},
		"a title too long":         {author, community.ItemUpdateArgs{Item: post, Title: new(long[:300])}, paidaction.CodeInvalidInput},
		"a comment's title":        {author, community.ItemUpdateArgs{Item: comment, Title: new("x")}, paidaction.CodeInvalidInput},
		"an empty comment":         {author, community.ItemUpdateArgs{Item: comment, Body: new(" ")}, paidaction.CodeInvalidInput},
		"a text too long":          {author, community.ItemUpdateArgs{Item: post, Body: &long}, paidaction.CodeInvalidInput},
		"what cannot be stored":    {author, community.ItemUpdateArgs{Item: post, Body: new("\x00")}, paidaction.CodeInvalidInput},
		"an eleventh upload":       {author, community.ItemUpdateArgs{Item: comment, Uploads: []int64{send(w, author).ID}}, paidaction.CodeInvalidInput},
		"forwards to oneself":      {author, community.ItemUpdateArgs{Item: post, Forwards: []community.Forward{{User: author, Pct: 1}}}, paidaction.CodeInvalidInput},
		"forwards to nobody":       {author, community.ItemUpdateArgs{Item: post, Forwards: []community.Forward{{User: 99999, Pct: 1}}}, paidaction.CodeNotFound},
		"forwards beyond all":      {author, community.ItemUpdateArgs{Item: post, Forwards: []community.Forward{{User: other, Pct: 60}, {User: poor, Pct: 60}}}, paidaction.CodeInvalidInput},
	} {
		if _, err := w.Try(c.as, community.KindItemUpdate, c.args, "", ""); err == nil {
			t.Errorf("%s: accepted", name)
		} else if t.Log(name); true {
			w.WantRefusal(err, c.code)
		}
		if now := traces(); now != before {
			t.Fatalf("%s left something behind:\n%s\nbefore:\n%s", name, now, before)
		}
	}
}

// The anonymous change what they wrote with the secret that they got for it, whichever attempt was paid in the end.
func TestAnonymousChanges(t *testing.T) {
	t.Parallel()
	w := enginetest.New(t, paidaction.Settings{})
	first := create(w, 0, community.ItemCreateArgs{Title: "mine", Body: "as it was"})
	if _, err := w.Engine.Cancel(w.Ctx, paidaction.Caller{Secret: first.Secret}, first.ID); err != nil {
		t.Fatal(err)
	}
	again, err := w.Engine.Retry(w.Ctx, paidaction.Caller{Secret: first.Secret}, first.ID, "", paidaction.Terms{}, nil)
	if err != nil {
		t.Fatal(err)
	}
	payInvoice(w, again)
	w.Drain()
	post := w.Item(w.WantState(again.ID, paidaction.Paid))
	other := create(w, 0, community.ItemCreateArgs{Title: "another's"})
	ask := func(secret, body string, uploads ...int64) (*paidaction.PaidAction, error) {
		c := enginetest.Caller(0)
		c.Secret = secret
		return w.Engine.Pay(w.Ctx, paidaction.Request{Kind: community.KindItemUpdate, Caller: c,
			Args: community.ItemUpdateArgs{Item: post, Body: &body, Uploads: uploads}})
	}
	for name, secret := range map[string]string{"none": "", "another's": other.Secret, "nobody's": strings.Repeat("0", 64)} {
		if _, err := ask(secret, "stolen"); err == nil {
			t.Errorf("secret %s: accepted", name)
		} else {
			w.WantRefusal(err, paidaction.CodeForbidden)
		}
	}
	if got := text(w, post); got != "mine: as it was" {
		t.Errorf("reads %q", got)
	}
	// Free, and so without any node.
	w.Node.SetAway(true)
	if pa, err := ask(first.Secret, "changed"); err != nil || pa.Method != paidaction.ZeroCost || text(w, post) != "mine: changed" {
		t.Errorf("%v, reads %q", err, text(w, post))
	}
	w.Node.SetAway(false)
	// With a price it is done when the payment is held, long after the secret was shown.
	u := send(w, 0)
	pa, err := ask(first.Secret, "with a picture", u.ID)
	if err != nil || pa.Cost != 100*sat {
		t.Fatalf("%v, costs %d", err, pa.Cost)
	}
	payInvoice(w, pa)
	w.Drain()
	if w.WantState(pa.ID, paidaction.Paid); text(w, post) != "mine: with a picture" || !public(w, u) {
		t.Errorf("reads %q, the upload is public: %t", text(w, post), public(w, u))
	}
	w.WantConserved()
}

// A change that is paid by hold invoice is its author's alone until the payment is taken, and leaves nothing if it goes back.
func TestChangePaidByInvoice(t *testing.T) {
	t.Parallel()
	for _, outcome := range []string{"paid", "gone back", "never paid"} {
		t.Run(outcome, func(t *testing.T) {
			t.Parallel()
			w := enginetest.New(t, paidaction.Settings{})
			author, other := w.User("author", sat, 0), w.User("other", 0, 0)
			founder := w.User("founder", 0, 0)
			post := w.Item(create(w, author, community.ItemCreateArgs{Title: "title", Body: "old", Forwards: []community.Forward{{User: other, Pct: 5}}}))
			territory(w, "bitcoin", founder)
			if _, err := w.Pool.Exec(w.Ctx, `UPDATE item SET territory = 'bitcoin'`); err != nil {
				t.Fatal(err)
			}
			u := send(w, author)
			if _, err := w.Pool.Exec(w.Ctx, `UPDATE upload SET fee_msat = 10000`); err != nil {
				t.Fatal(err)
			}
			forwarded := func() int64 { return w.Count(`SELECT sum(pct) FROM item_forward WHERE item_id = $1`, post) }
			want := func(when, reads, pending string, pct int64, seen bool) {
				t.Helper()
				if got := text(w, post); got != "title: "+reads {
					t.Errorf("%s: reads %q", when, got)
				}
				if got := pendingEdit(w, post, author); got != pending || pendingEdit(w, post, other) != "" {
					t.Errorf("%s: its author sees %q, another %q", when, got, pendingEdit(w, post, other))
				}
				if public(w, u) != seen || forwarded() != pct {
					t.Errorf("%s: the upload is public: %t, %d percent are forwarded", when, public(w, u), forwarded())
				}
			}
			pa := update(w, author, community.ItemUpdateArgs{Item: post, Body: new("new, says @other"), Uploads: []int64{u.ID},
				Forwards: []community.Forward{{User: other, Pct: 50}}})
			if pa.Method != paidaction.Pessimistic || pa.Cost != 10*sat {
				t.Fatalf("%s for %d", pa.Method, pa.Cost)
			}
			want("asked for", "old", "", 5, false)
			if outcome == "never paid" {
				if _, err := w.Engine.Cancel(w.Ctx, enginetest.Caller(author), pa.ID); err != nil {
					t.Fatal(err)
				}
			} else {
				payInvoice(w, pa)
				w.WantState(pa.ID, paidaction.Held)
				want("held", "old", "new, says @other", 5, false)
				if outcome == "gone back" {
					w.Node.Mine(200) // the node gives back what was held for too long
				}
				w.Drain()
			}
			if outcome == "paid" {
				w.WantState(pa.ID, paidaction.Paid)
				want("paid", "new, says @other", "", 50, true)
				w.WantBalance(ledger.UserSats(founder), 7*sat)
				w.WantBalance(ledger.RewardSats, 3*sat)
			} else {
				w.WantState(pa.ID, paidaction.Failed)
				want("failed", "old", "", 5, false)
				if carrier(w, u) != 0 || w.Count(`SELECT count(*) FROM item_mention`) != 0 {
					t.Error("a change that failed has left its upload or its mention at the item")
				}
				w.WantBalance(ledger.RewardSats, 0)
			}
			w.WantConserved()
		})
	}
}

// Of changes at the same moment the last one stands, whole.
func TestConcurrentChangesDoNotMix(t *testing.T) {
	t.Parallel()
	w := enginetest.New(t, paidaction.Settings{})
	author := w.User("author", sat, 0)
	post := w.Post(author, "title")
	const changes = 8
	errs := make(chan error)
	for i := range changes {
		go func() {
			says := fmt.Sprint(i)
			_, err := w.Try(author, community.KindItemUpdate, community.ItemUpdateArgs{Item: post, Title: &says, Body: &says}, "", "")
			errs <- err
		}()
	}
	for range changes {
		if err := <-errs; err != nil {
			t.Error(err)
		}
	}
	if title, text := *item(w, post).Title, body(w, post); title != text {
		t.Errorf("title %q with body %q", title, text)
	}
}

// Of two changes at once, one of the title and one of the text, neither writes back what the other replaces.
func TestChangesOfTwoFieldsAtOnceBothStay(t *testing.T) {
	t.Parallel()
	w := enginetest.New(t, paidaction.Settings{})
	author := w.User("author", sat, 0)
	post := w.Post(author, "t0")
	barrier, err := w.Pool.Begin(w.Ctx)
	if err != nil {
		t.Fatal(err)
	}
	defer barrier.Rollback(w.Ctx)
	if _, err := barrier.Exec(w.Ctx, `SELECT FROM item WHERE id = $1 FOR NO KEY UPDATE`, post); err != nil {
		t.Fatal(err)
	}
	errs := make(chan error)
	for _, change := range []community.ItemUpdateArgs{{Item: post, Title: new("t1")}, {Item: post, Body: new("b1")}} {
		go func() {
			_, err := w.Try(author, community.KindItemUpdate, change, "", "")
			errs <- err
		}()
	}
	w.AwaitBlocked(2)
	if err := barrier.Commit(w.Ctx); err != nil {
		t.Fatal(err)
	}
	for range 2 {
		if err := <-errs; err != nil {
			t.Error(err)
		}
	}
	if title, text := *item(w, post).Title, body(w, post); title != "t1" || text != "b1" {
		t.Errorf("title %q with body %q", title, text)
	}
}

// A change that was noted and is paid later is taken over whole: what a change in between said is gone, not mixed in.
func TestLaterPaymentStandsWhole(t *testing.T) {
	t.Parallel()
	w := enginetest.New(t, paidaction.Settings{})
	author := w.User("author", sat, 0)
	post := w.Item(create(w, author, community.ItemCreateArgs{Title: "t0", Body: "b0"}))
	u, v := send(w, author), send(w, author)
	if _, err := w.Pool.Exec(w.Ctx, `UPDATE upload SET fee_msat = 10000`); err != nil {
		t.Fatal(err)
	}
	withText := update(w, author, community.ItemUpdateArgs{Item: post, Body: new("b1"), Uploads: []int64{u.ID}})
	payInvoice(w, withText)
	without := update(w, author, community.ItemUpdateArgs{Item: post, Uploads: []int64{v.ID}})
	payInvoice(w, without)
	update(w, author, community.ItemUpdateArgs{Item: post, Title: new("t2"), Body: new("b2")})
	if got := text(w, post); got != "t2: b2" {
		t.Errorf("reads %q", got)
	}
	w.Advance(without.ID)
	w.Advance(without.ID)
	if w.WantState(without.ID, paidaction.Paid); text(w, post) != "t2: b2" {
		t.Errorf("an upload has changed the text to %q", text(w, post))
	}
	w.Drain()
	if w.WantState(withText.ID, paidaction.Paid); text(w, post) != "t0: b1" {
		t.Errorf("reads %q", text(w, post))
	}
}

// Those whom a change mentions are told, once for each item, and ever more people are not.
func TestMentionsOfChanges(t *testing.T) {
	t.Parallel()
	w := enginetest.New(t, paidaction.Settings{})
	author, bob, carol := w.User("author", sat, 0), w.User("bob", 0, 0), w.User("carol", 0, 0)
	told := func(user int64) int64 {
		w.Drain()
		return w.Count(`SELECT count(*) FROM notification WHERE user_id = $1 AND kind = 'MENTION'`, user)
	}
	post := w.Item(create(w, author, community.ItemCreateArgs{Title: "title", Body: "@bob"}))
	// Before the first are told: whose job comes first does not matter.
	update(w, author, community.ItemUpdateArgs{Item: post, Body: new("@bob and @carol")})
	if told(bob) != 1 || told(carol) != 1 {
		t.Errorf("bob was told %d times, carol %d", told(bob), told(carol))
	}
	update(w, author, community.ItemUpdateArgs{Item: post, Body: new("@carol and @bob and @author")})
	if told(bob) != 1 || told(carol) != 1 || told(author) != 0 {
		t.Errorf("told again: bob %d times, carol %d, the author %d", told(bob), told(carol), told(author))
	}
	for i := range 12 {
		w.User(fmt.Sprint("crowd", i), 0, 0)
		update(w, author, community.ItemUpdateArgs{Item: post, Body: new(fmt.Sprint("@crowd", i))})
	}
	if w.Drain(); w.Count(`SELECT count(*) FROM notification WHERE kind = 'MENTION'`) != 9 {
		t.Errorf("%d people were told of one post, want 9 and the author who is not",
			w.Count(`SELECT count(*) FROM notification WHERE kind = 'MENTION'`))
	}
}

// Forwards are replaced as a list: left out they stay, empty they go.
func TestForwardsAreReplaced(t *testing.T) {
	t.Parallel()
	w := enginetest.New(t, paidaction.Settings{})
	author, bob, carol := w.User("author", sat, 0), w.User("bob", 0, 0), w.User("carol", 0, 0)
	post := w.Post(author, "title", community.Forward{User: bob, Pct: 10})
	want := func(list ...community.Forward) {
		t.Helper()
		rows, err := db.New(w.Pool).ZapTargets(w.Ctx, []int64{post})
		if err != nil {
			t.Fatal(err)
		}
		var got []community.Forward
		for i, user := range rows[0].Forwardees {
			got = append(got, community.Forward{User: user, Pct: int(rows[0].Pcts[i])})
		}
		if fmt.Sprint(got) != fmt.Sprint(list) {
			t.Errorf("%v, want %v", got, list)
		}
	}
	update(w, author, community.ItemUpdateArgs{Item: post, Body: new("changed")})
	want(community.Forward{User: bob, Pct: 10})
	update(w, author, community.ItemUpdateArgs{Item: post, Forwards: []community.Forward{{User: bob, Pct: 20}, {User: carol, Pct: 30}}})
	want(community.Forward{User: bob, Pct: 20}, community.Forward{User: carol, Pct: 30})
	update(w, author, community.ItemUpdateArgs{Item: post, Forwards: []community.Forward{}})
	want()
}

// Whose the zaps of an item are is changed in time only, also of a bio and of a job, whose texts are changed at any time:
// else a key that may only spend would turn to somebody else whatever people zap there from then on.
func TestForwardsOfAJobAreChangedInTimeOnly(t *testing.T) {
	t.Parallel()
	w := enginetest.New(t, paidaction.Settings{})
	author, thief := w.User("author", 10_000*sat, 0), w.User("thief", 0, 0)
	to := []community.Forward{{User: thief, Pct: 100}}
	job := w.Item(create(w, author, community.ItemCreateArgs{Title: "job", JobArgs: &community.JobArgs{Company: "ours"}}))
	bio := w.Item(create(w, author, community.ItemCreateArgs{Bio: new("I")}))
	w.Clock.Advance(10 * time.Minute)
	update(w, author, community.ItemUpdateArgs{Item: job, Forwards: to})
	w.Clock.Advance(time.Microsecond)
	for name, late := range map[string]community.ItemUpdateArgs{
		"of a bio":    {Item: bio, Forwards: to},
		"with a text": {Item: bio, Body: new("I, older"), Forwards: to},
		"of a job":    {Item: job, Forwards: []community.Forward{}},
	} {
		if _, err := w.Try(author, community.KindItemUpdate, late, "", ""); err == nil {
			t.Errorf("the forwards %s were changed too late", name)
		} else {
			w.WantRefusal(err, community.CodeEditWindowOver)
		}
	}
	if w.Count(`SELECT count(*) FROM item_forward WHERE item_id = $1`, job) != 1 || w.Count(`SELECT count(*) FROM item_forward`) != 1 {
		t.Error("what was refused was done")
	}
}

// What a kind has beyond a text is changed with it; bios and jobs at any time.
func TestKindsAreChanged(t *testing.T) {
	t.Parallel()
	w := enginetest.New(t, paidaction.Settings{})
	author := w.User("author", 10_000*sat, 0)
	post := w.Post(author, "post")
	link := w.Item(create(w, author, community.ItemCreateArgs{Title: "link", URL: new("https://example.org/a")}))
	job := w.Item(create(w, author, community.ItemCreateArgs{Title: "job", JobArgs: &community.JobArgs{Company: "ours"}}))
	bio := w.Item(create(w, author, community.ItemCreateArgs{Bio: new("I")}))
	for name, bad := range map[string]community.ItemUpdateArgs{
		"an address of a post":      {Item: post, URL: new("https://example.org")},
		"an address that runs":      {Item: link, URL: new("javascript:alert(1)")},
		"an address with a secret":  {Item: link, URL: new("https://me:secret@example.org")},
		"a title of a bio":          {Item: bio, Title: new("x")},
		"a bio that says nothing":   {Item: bio, Body: new(" ")},
		"a boost of a bio":          {Item: bio, Boost: 1},
		"a boost of less than none": {Item: post, Boost: -1},
	} {
		if pa, err := w.Try(author, community.KindItemUpdate, bad, "", ""); err == nil {
			t.Errorf("%s was accepted as %s", name, pa.State)
		} else if refusal, ok := paidaction.AsRefusal(err); !ok || refusal.Code != paidaction.CodeInvalidInput && refusal.Code != paidaction.CodeInvalidAmount {
			t.Errorf("%s: %v", name, err)
		}
	}
	update(w, author, community.ItemUpdateArgs{Item: link, URL: new("https://example.org/b")})
	if i := item(w, link); *i.Url != "https://example.org/b" || *i.Title != "link" || i.EditedAt == nil {
		t.Errorf("%s leads to %s", *i.Title, *i.Url)
	}
	w.Clock.Advance(365 * 24 * time.Hour)
	_, err := w.Try(author, community.KindItemUpdate, community.ItemUpdateArgs{Item: link, URL: new("https://example.org/c")}, "", "")
	w.WantRefusal(err, community.CodeEditWindowOver)
	update(w, author, community.ItemUpdateArgs{Item: bio, Body: new("I, older")})
	update(w, author, community.ItemUpdateArgs{Item: job, Title: new("still open"), Body: new("really")})
	if text(w, bio) != "I, older" || text(w, job) != "still open: really" || *item(w, link).Url != "https://example.org/b" {
		t.Errorf("a year later: %q, %q, %s", text(w, bio), text(w, job), *item(w, link).Url)
	}
}

// A boost is added at any time, and counts once it is paid.
func TestChangeThatBoosts(t *testing.T) {
	t.Parallel()
	w := enginetest.New(t, paidaction.Settings{})
	author := w.User("author", 101*sat, 0)
	post := w.Post(author, "post")
	w.Clock.Advance(time.Hour)
	if pa := update(w, author, community.ItemUpdateArgs{Item: post, Boost: 100}); pa.Cost != 100*sat || pa.Method != paidaction.FeeCredit {
		t.Errorf("costs %d by %s", pa.Cost, pa.Method)
	}
	boosted := func(want int64) {
		t.Helper()
		if got := item(w, post).BoostMsat; got != want {
			t.Errorf("boosted with %d, want %d", got, want)
		}
	}
	boosted(100 * sat)
	pa := update(w, author, community.ItemUpdateArgs{Item: post, Boost: 50})
	payInvoice(w, pa)
	boosted(100 * sat)
	w.Node.Mine(200) // the node gives back what was held for too long
	w.Drain()
	w.WantState(pa.ID, paidaction.Failed)
	boosted(100 * sat)
	if n := w.Count(`SELECT count(*) FROM boost WHERE action_id = $1 AND state = 'FAILED'`, pa.ID); n != 1 {
		t.Errorf("of the boost that went back %d are marked as failed", n)
	}
	again, err := w.Engine.Retry(w.Ctx, enginetest.Caller(author), pa.ID, "", paidaction.Terms{}, nil)
	if err != nil {
		t.Fatal(err)
	}
	payInvoice(w, again)
	w.Drain()
	w.WantState(again.ID, paidaction.Paid)
	boosted(150 * sat)
	w.WantConserved()
}

package community_test

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/a-seed-a7aed72f/holdfast/community"
	"github.com/a-seed-a7aed72f/holdfast/internal/db"
	"github.com/a-seed-a7aed72f/holdfast/internal/enginetest"
	"github.com/a-seed-a7aed72f/holdfast/internal/pgtest"
	"github.com/a-seed-a7aed72f/holdfast/ledger"
	"github.com/a-seed-a7aed72f/holdfast/lightning/simnode"
	"github.com/a-seed-a7aed72f/holdfast/paidaction"
)

func create(w *enginetest.World, user int64, a community.ItemCreateArgs) *paidaction.PaidAction {
	w.Helper()
	return w.Pay(user, community.KindItemCreate, a, "")
}

// spec 02 §2.4: base × 10^spam × (anonymous ? 10 : 1).
func TestPriceOfPosts(t *testing.T) {
	t.Parallel()
	w := enginetest.New(t, paidaction.Settings{})
	user := w.User("author", 100_000*sat, 0)
	territory(w, "bitcoin", w.User("founder", 0, 0))
	for i, want := range []paidaction.Msat{sat, 10 * sat, 100 * sat} {
		if pa := create(w, user, community.ItemCreateArgs{Title: fmt.Sprint("post ", i)}); pa.Cost != want {
			t.Errorf("post %d costs %d, want %d", i, pa.Cost, want)
		}
	}
	if pa := create(w, user, community.ItemCreateArgs{Title: "in a territory", Territory: "bitcoin"}); pa.Cost != 10_000*sat {
		t.Errorf("costs %d", pa.Cost)
	}
	w.Clock.Advance(10*time.Minute + time.Second)
	if pa := create(w, user, community.ItemCreateArgs{Title: "later", Territory: "bitcoin"}); pa.Cost != 10*sat {
		t.Errorf("after the window it costs %d", pa.Cost)
	}
	if pa := create(w, 0, community.ItemCreateArgs{Title: "anonymous", Territory: "bitcoin"}); pa.Cost != 100*sat {
		t.Errorf("anonymous: %d", pa.Cost)
	}
	if pa := create(w, 0, community.ItemCreateArgs{Title: "anonymous again"}); pa.Cost != 10*sat {
		t.Errorf("anonymous: %d; nobody knows whether it is the same person", pa.Cost)
	}
}

func TestPriceOfComments(t *testing.T) {
	t.Parallel()
	w := enginetest.New(t, paidaction.Settings{})
	author, user := w.User("author", 1000*sat, 0), w.User("commenter", 100_000*sat, 0)
	territory(w, "bitcoin", w.User("founder", 0, 0))
	root := w.Item(create(w, author, community.ItemCreateArgs{Title: "root", Territory: "bitcoin"}))
	comment := func(user, parent int64, body string, want paidaction.Msat) int64 {
		t.Helper()
		pa := create(w, user, community.ItemCreateArgs{Body: body, Parent: parent})
		if pa.Cost != want {
			t.Errorf("%q costs %d, want %d", body, pa.Cost, want)
		}
		return w.Item(pa)
	}
	first := comment(user, root, "one", 2*sat)
	comment(user, root, "two", 20*sat)          // one on the same parent
	second := comment(user, first, "a", 20*sat) // a chain of one
	comment(user, second, "b", 200*sat)         // a chain of two
	comment(user, second, "c", 2000*sat)        // and one on the same parent
	for i := range 3 {
		comment(author, root, fmt.Sprint("own thread ", i), 2*sat) // free of escalation in one's own thread
	}
	w.Clock.Advance(10*time.Minute + time.Second) // what is older counts no more, neither on the same parent nor in a chain
	comment(user, second, "d", 2*sat)
	comment(user, root, "three", 2*sat)
}

// spec 05.19: posts at the same moment cannot evade the escalation.
func TestConcurrentPostsCannotEvadeTheEscalation(t *testing.T) {
	t.Parallel()
	w := enginetest.New(t, paidaction.Settings{})
	user := w.User("author", 100_000*sat, 0)
	const posts = 4
	costs := make(chan paidaction.Msat)
	for i := range posts {
		go func() {
			pa, err := w.Try(user, community.KindItemCreate, community.ItemCreateArgs{Title: fmt.Sprint("post ", i)}, "", "")
			if err != nil {
				t.Error(err)
				costs <- 0
				return
			}
			costs <- pa.Cost
		}()
	}
	var total paidaction.Msat
	for range posts {
		total += <-costs
	}
	if total != 1111*sat {
		t.Errorf("four posts at once cost %d, want 1 + 10 + 100 + 1000 sats", total)
	}
	if n := pgtest.Deadlocks(t, w.Pool); n != 0 {
		t.Errorf("%d deadlocks", n)
	}
}

// spec 02 §2.4 and 05.19: what was asked for one by one, to be paid at once. Also where invoices live for longer than
// posts count as spam (both are settings). What waits elsewhere does not count.
func TestWhatWaitsForItsPaymentCountsAsSpam(t *testing.T) {
	t.Parallel()
	for name, pause := range map[string]time.Duration{"at one moment": 0, "each after the window of the one before": 10*time.Minute + time.Second} {
		for kind, args := range map[string]func(text string, roots []int64) community.ItemCreateArgs{
			"posts": func(text string, _ []int64) community.ItemCreateArgs { return community.ItemCreateArgs{Title: text} },
			"comments": func(text string, roots []int64) community.ItemCreateArgs {
				return community.ItemCreateArgs{Body: text, Parent: roots[0]}
			},
		} {
			t.Run(kind+" "+name, func(t *testing.T) {
				t.Parallel()
				w := enginetest.New(t, paidaction.Settings{InvoiceExpiry: time.Hour})
				user, other := w.User("author", 0, 0), w.User("other", 100*sat, 0)
				roots := []int64{w.Post(other, "a root"), w.Post(other, "another")}
				var waiting []*paidaction.PaidAction
				for _, text := range []string{"a", "b", "c", "d", "e"} {
					waiting = append(waiting, w.Pay(user, community.KindItemCreate, args(text, roots), ""))
					w.Clock.Advance(pause)
				}
				if pa := create(w, user, community.ItemCreateArgs{Body: "elsewhere", Parent: roots[1]}); pa.Cost != sat {
					t.Errorf("elsewhere a comment costs %d", pa.Cost)
				}
				var cost paidaction.Msat
				for _, pa := range waiting {
					if err := w.Node.PayBolt11(pa.Invoice.Bolt11, simnode.Payment{}); err != nil {
						t.Fatal(err)
					}
					w.Advance(pa.ID)
					w.WantState(pa.ID, paidaction.Paid)
					cost += pa.Cost
				}
				if cost != 11_111*sat {
					t.Errorf("five cost %d sats, want 1 + 10 + 100 + 1000 + 10000", cost.Sats())
				}
			})
		}
	}
}

// What waits for the chain was paid for, perhaps for weeks, and can be paid for no more: it is spam for no longer than what
// was paid in time. Until its invoice has surely expired, by any clock, it counts as what waits for its payer does.
func TestWhatNobodyCanPayAnyMoreGrowsOld(t *testing.T) {
	t.Parallel()
	const lives = time.Hour
	for kind, of := range map[string]func(text string, root int64) community.ItemCreateArgs{
		"posts": func(text string, _ int64) community.ItemCreateArgs { return community.ItemCreateArgs{Title: text} },
		"comments": func(text string, root int64) community.ItemCreateArgs {
			return community.ItemCreateArgs{Body: text, Parent: root}
		},
	} {
		t.Run(kind, func(t *testing.T) {
			t.Parallel()
			w := enginetest.New(t, paidaction.Settings{InvoiceExpiry: lives})
			user := w.User("author", 0, 0)
			root := w.Post(w.User("other", sat, 0), "a root")
			waits := create(w, user, of("first", root))
			if _, err := w.Node.AddPartByForce(waits.Invoice.Hash, waits.Cost, 0); err != nil {
				t.Fatal(err)
			}
			w.Advance(waits.ID)
			wantCost := func(later time.Duration, want paidaction.Msat) {
				t.Helper()
				w.Clock.Advance(later)
				next := create(w, user, of("next", root))
				if next.Cost != want {
					t.Errorf("%s later the next costs %d msat, want %d", w.Clock.Now().Sub(waits.CreatedAt), next.Cost, want)
				}
				if _, err := w.Engine.Cancel(w.Ctx, enginetest.Caller(user), next.ID); err != nil {
					t.Fatal(err)
				}
				w.WantState(waits.ID, paidaction.Pending)
			}
			wantCost(0, 10*sat)
			wantCost(lives-time.Minute, 10*sat)
			wantCost(3*time.Minute, 10*sat)
			wantCost(3*time.Minute, sat)
			wantCost(24*time.Hour, sat)
		})
	}
}

// What was never paid for, nobody has seen: it makes nothing dearer.
func TestWhatFailedIsNoSpam(t *testing.T) {
	t.Parallel()
	w := enginetest.New(t, paidaction.Settings{})
	user := w.User("author", 0, 0)
	root := w.Item(create(w, w.User("other", sat, 0), community.ItemCreateArgs{Title: "root"}))
	for _, body := range []string{"one", "two"} {
		for what, a := range map[string]community.ItemCreateArgs{"a post": {Title: body}, "a comment": {Body: body, Parent: root}} {
			pa := create(w, user, a)
			if pa.Cost != sat {
				t.Errorf("%s costs %d after one that failed", what, pa.Cost)
			}
			if _, err := w.Engine.Cancel(w.Ctx, enginetest.Caller(user), pa.ID); err != nil {
				t.Fatal(err)
			}
		}
	}
}

func TestTheSameTextAgainIsRefused(t *testing.T) {
	t.Parallel()
	w := enginetest.New(t, paidaction.Settings{})
	user, other := w.User("author", 1000*sat, 0), w.User("other", 1000*sat, 0)
	a := community.ItemCreateArgs{Title: "once", Body: "and only once"}
	create(w, user, a)
	_, err := w.Try(user, community.KindItemCreate, a, "", "")
	w.WantRefusal(err, paidaction.CodeDuplicate)
	create(w, other, a)
	w.Clock.Advance(10*time.Minute + time.Second)
	create(w, user, a)
	w.WantBalance(ledger.UserCredits(user), 998*sat)
	if n := w.Count(`SELECT count(*) FROM item`); n != 3 {
		t.Errorf("%d items", n)
	}
}

// A post that failed may be written again, and retried; both at once are the same text twice.
func TestFailedPostFreesItsText(t *testing.T) {
	t.Parallel()
	w := enginetest.New(t, paidaction.Settings{})
	user := w.User("author", 0, 0)
	a := community.ItemCreateArgs{Title: "once"}
	pa := create(w, user, a)
	if _, err := w.Engine.Cancel(w.Ctx, enginetest.Caller(user), pa.ID); err != nil {
		t.Fatal(err)
	}
	create(w, user, a)
	_, err := w.Engine.Retry(w.Ctx, enginetest.Caller(user), pa.ID, "", paidaction.Terms{}, nil)
	w.WantRefusal(err, paidaction.CodeDuplicate)
	w.WantState(pa.ID, paidaction.Failed)
}

func TestPendingAndFailedItemsAreTheirAuthorsAlone(t *testing.T) {
	t.Parallel()
	w := enginetest.New(t, paidaction.Settings{})
	user, other := w.User("author", 0, 0), w.User("other", 0, 0)
	pa := create(w, user, community.ItemCreateArgs{Title: "unpaid"})
	id := w.Item(pa)
	seen := func(viewer *int64) int {
		rows, err := db.New(w.Pool).ItemsByID(w.Ctx, db.ItemsByIDParams{Ids: []int64{id}, Viewer: viewer})
		if err != nil {
			t.Fatal(err)
		}
		return len(rows)
	}
	check := func(state string) {
		t.Helper()
		if seen(&user) != 1 || seen(&other) != 0 || seen(nil) != 0 {
			t.Errorf("%s: author %d, other %d, anonymous %d", state, seen(&user), seen(&other), seen(nil))
		}
	}
	check("pending")
	if _, err := w.Engine.Cancel(w.Ctx, enginetest.Caller(user), pa.ID); err != nil {
		t.Fatal(err)
	}
	check("failed")
	again, err := w.Engine.Retry(w.Ctx, enginetest.Caller(user), pa.ID, "", paidaction.Terms{}, nil)
	if err != nil {
		t.Fatal(err)
	}
	check("retried")
	if err := w.Node.PayBolt11(again.Invoice.Bolt11, simnode.Payment{}); err != nil {
		t.Fatal(err)
	}
	w.Advance(again.ID)
	if seen(&other) != 1 || seen(nil) != 1 {
		t.Error("paid, and not seen by others")
	}
}

func TestPostsAreToldToWhomTheyConcern(t *testing.T) {
	t.Parallel()
	w := enginetest.New(t, paidaction.Settings{})
	alice, bob := w.User("alice", 100*sat, 0), w.User("bob", 100*sat, 0)
	root := w.Item(create(w, alice, community.ItemCreateArgs{Title: "hello", Body: "ask @bob, @bob or @nobody; not a@bob.example"}))
	create(w, bob, community.ItemCreateArgs{Body: "here I am", Parent: root})
	w.Pay(bob, community.KindZap, community.ZapArgs{Item: root, Sats: 10}, "")
	w.Drain()
	told := func(user int64) string {
		rows, err := db.New(w.Pool).NotificationsOf(w.Ctx, db.NotificationsOfParams{UserID: user, Before: 1 << 62, Page: 10})
		if err != nil {
			t.Fatal(err)
		}
		var kinds []string
		for _, n := range rows {
			kinds = append(kinds, n.Kind)
		}
		return strings.Join(kinds, " ")
	}
	if told(alice) != "ZAP REPLY" || told(bob) != "MENTION" {
		t.Errorf("alice was told %q, bob %q", told(alice), told(bob))
	}
	// The job runs at least once; people are told once.
	if _, err := w.Pool.Exec(w.Ctx, `INSERT INTO test_job (kind, action, at) SELECT 'after_paid', id, $1 FROM paid_action`, w.Clock.Now()); err != nil {
		t.Fatal(err)
	}
	w.Drain()
	if told(alice) != "ZAP REPLY" || told(bob) != "MENTION" {
		t.Errorf("after a second run alice was told %q, bob %q", told(alice), told(bob))
	}
}

func TestItemsThatAreRefused(t *testing.T) {
	t.Parallel()
	w := enginetest.New(t, paidaction.Settings{})
	user, friend := w.User("author", 1000*sat, 0), w.User("friend", 0, 0)
	poor := w.User("poor", 0, 0)
	unpaid := w.Item(create(w, poor, community.ItemCreateArgs{Title: "unpaid"}))
	paid := w.Post(w.User("other", 10*sat, 0), "paid")
	actions := w.Count(`SELECT count(*) FROM paid_action`)
	six := make([]community.Forward, 6)
	for i := range six {
		six[i] = community.Forward{User: int64(i + 100), Pct: 1}
	}
	for name, c := range map[string]struct {
		args community.ItemCreateArgs
		code paidaction.Code
	}{
		"no title":              {community.ItemCreateArgs{Title: "  "}, paidaction.CodeInvalidInput},
		"title too long":        {community.ItemCreateArgs{Title: strings.Repeat("ü", 141)}, paidaction.CodeInvalidInput},
		"text too long":         {community.ItemCreateArgs{Title: "x", Body: strings.Repeat("x", 40_001)}, paidaction.CodeInvalidInput},
		"a zero byte":           {community.ItemCreateArgs{Title: "x\x00"}, paidaction.CodeInvalidInput},
		"empty comment":         {community.ItemCreateArgs{Body: " ", Parent: unpaid}, paidaction.CodeInvalidInput},
		"comment with a title":  {community.ItemCreateArgs{Title: "x", Body: "x", Parent: unpaid}, paidaction.CodeInvalidInput},
		"unknown parent":        {community.ItemCreateArgs{Body: "x", Parent: 999}, paidaction.CodeNotFound},
		"unpaid parent":         {community.ItemCreateArgs{Body: "x", Parent: unpaid}, paidaction.CodeNotFound},
		"unknown territory":     {community.ItemCreateArgs{Title: "x", Territory: "nowhere"}, paidaction.CodeNotFound},
		"over 100 percent":      {community.ItemCreateArgs{Title: "x", Forwards: []community.Forward{{User: friend, Pct: 60}, {User: friend + 1, Pct: 41}}}, paidaction.CodeInvalidInput},
		"spaces over the limit": {community.ItemCreateArgs{Body: "x" + strings.Repeat(" ", 40_000), Parent: paid}, paidaction.CodeInvalidInput},
		"no percent":            {community.ItemCreateArgs{Title: "x", Forwards: []community.Forward{{User: friend, Pct: 0}}}, paidaction.CodeInvalidInput},
		"negative percent":      {community.ItemCreateArgs{Title: "x", Forwards: []community.Forward{{User: friend, Pct: -10}}}, paidaction.CodeInvalidInput},
		"somebody twice":        {community.ItemCreateArgs{Title: "x", Forwards: []community.Forward{{User: friend, Pct: 10}, {User: friend, Pct: 10}}}, paidaction.CodeInvalidInput},
		"oneself":               {community.ItemCreateArgs{Title: "x", Forwards: []community.Forward{{User: user, Pct: 10}}}, paidaction.CodeInvalidInput},
		"an unknown person":     {community.ItemCreateArgs{Title: "x", Forwards: []community.Forward{{User: 999, Pct: 10}}}, paidaction.CodeNotFound},
		"six people":            {community.ItemCreateArgs{Title: "x", Forwards: six}, paidaction.CodeInvalidInput},
	} {
		_, err := w.Try(user, community.KindItemCreate, c.args, "", "")
		if w.WantRefusal(err, c.code); t.Failed() {
			t.Fatal(name)
		}
	}
	// Whoever wrote what is not paid yet can see it, and is told why nobody can reply.
	_, err := w.Try(poor, community.KindItemCreate, community.ItemCreateArgs{Body: "x", Parent: unpaid}, "", "")
	w.WantRefusal(err, community.CodeNotPaid)
	for _, amount := range []int64{0, -1, 1 << 62} {
		_, err := w.Try(user, community.KindDonate, community.DonateArgs{Sats: amount}, "", "")
		w.WantRefusal(err, paidaction.CodeInvalidAmount)
		_, err = w.Try(user, community.KindBuyCredits, community.BuyCreditsArgs{Credits: amount}, "", "")
		w.WantRefusal(err, paidaction.CodeInvalidAmount)
	}
	_, err = w.Try(0, community.KindBuyCredits, community.BuyCreditsArgs{Credits: 1}, "", "")
	w.WantRefusal(err, paidaction.CodeUnauthenticated)
	_, err = w.Try(user, community.KindBuyCredits, community.BuyCreditsArgs{Credits: 1}, paidaction.FeeCredit, "")
	w.WantRefusal(err, paidaction.CodeMethodUnavailable)
	w.WantBalance(ledger.UserCredits(user), 1000*sat)
	if n := w.Count(`SELECT count(*) FROM paid_action`); n != actions {
		t.Error("something refused left an action behind")
	}
}

func TestBuyCredits(t *testing.T) {
	t.Parallel()
	w := enginetest.New(t, paidaction.Settings{})
	user := w.User("buyer", 0, 30*sat)
	args := community.BuyCreditsArgs{Credits: 20}
	w.Pay(user, community.KindBuyCredits, args, "")
	w.WantBalance(ledger.UserCredits(user), 20*sat)
	w.WantBalance(ledger.UserSats(user), 10*sat)

	pa := w.Pay(user, community.KindBuyCredits, args, "")
	if err := w.Node.PayBolt11(pa.Invoice.Bolt11, simnode.Payment{}); err != nil {
		t.Fatal(err)
	}
	w.Advance(pa.ID)
	w.WantState(pa.ID, paidaction.Held)
	w.WantBalance(ledger.UserCredits(user), 20*sat) // nothing spendable before it is settled
	w.Drain()
	w.WantState(pa.ID, paidaction.Paid)
	w.WantBalance(ledger.UserCredits(user), 40*sat)
	w.WantConserved()
}

// Founders pay in their own territory as everybody does; the books show both halves.
func TestFounderPaysInTheirOwnTerritory(t *testing.T) {
	t.Parallel()
	w := enginetest.New(t, paidaction.Settings{})
	founder := w.User("founder", 100*sat, 0)
	territory(w, "bitcoin", founder)
	pa := create(w, founder, community.ItemCreateArgs{Title: "mine", Territory: "bitcoin"})
	w.WantBalance(ledger.UserCredits(founder), 97*sat) // 10 sats, of which 7 come back
	if n := w.Count(`SELECT sum(msat) FROM posting WHERE action_id = $1 AND from_account = $2`, pa.ID, ledger.UserCredits(founder)); n != 10*sat {
		t.Errorf("the books show %d msat paid", n)
	}
	w.WantBalance(ledger.ClearCredits, 0)
	w.WantConserved()
}

// spec 05.19: posts that are given up, left to age, and tried again in one moment cost as much as any others.
func TestRetriesCannotEvadeTheEscalation(t *testing.T) {
	t.Parallel()
	w := enginetest.New(t, paidaction.Settings{})
	user := w.User("spammer", 0, 0)
	var failed []int64
	for i := range 6 {
		pa := w.Pay(user, community.KindItemCreate, community.ItemCreateArgs{Title: fmt.Sprint("spam ", i)}, "")
		if _, err := w.Engine.Cancel(w.Ctx, enginetest.Caller(user), pa.ID); err != nil {
			t.Fatal(err)
		}
		failed = append(failed, pa.ID)
	}
	w.Clock.Advance(11 * time.Minute)
	var total paidaction.Msat
	for _, id := range failed {
		again, err := w.Engine.Retry(w.Ctx, enginetest.Caller(user), id, "", paidaction.Terms{}, nil)
		if err != nil {
			t.Fatal(err)
		}
		if err := w.Node.PayBolt11(again.Invoice.Bolt11, simnode.Payment{}); err != nil {
			t.Fatal(err)
		}
		w.Advance(again.ID)
		w.WantState(again.ID, paidaction.Paid)
		total += again.Cost
	}
	if want := paidaction.Msat(111_111 * sat); total != want {
		t.Errorf("six posts in one moment cost %d sats, want %d", total.Sats(), want.Sats())
	}
}

// What happens in a thread is counted at every ancestor, so there are not endlessly many.
func TestThreadsHaveAGreatestDepth(t *testing.T) {
	t.Parallel()
	w := enginetest.New(t, paidaction.Settings{})
	author := w.User("author", 100*sat, 0)
	id := w.Post(author, "root")
	comment := w.Item(create(w, author, community.ItemCreateArgs{Parent: id, Body: "deep"}))
	for depth, want := range map[int]paidaction.Code{199: "", 200: paidaction.CodeInvalidInput} {
		if _, err := w.Pool.Exec(w.Ctx, `UPDATE item SET ancestors = array_fill($1::bigint, ARRAY[$2::int]) WHERE id = $3`, id, depth, comment); err != nil {
			t.Fatal(err)
		}
		_, err := w.Try(author, community.KindItemCreate, community.ItemCreateArgs{Parent: comment, Body: fmt.Sprint(depth)}, "", "")
		if want == "" && err != nil {
			t.Error(err)
		} else if want != "" {
			w.WantRefusal(err, want)
		}
	}
}

// A text mentions ten people at most: the first ten.
func TestTheFirstTenMentionsCount(t *testing.T) {
	t.Parallel()
	w := enginetest.New(t, paidaction.Settings{})
	author, body := w.User("author", 100*sat, 0), ""
	var crowd []int64
	for i := range 11 {
		crowd = append(crowd, w.User(fmt.Sprint("crowd", i), 0, 0))
		body += fmt.Sprintf("@crowd%d ", i)
		item := w.Item(create(w, author, community.ItemCreateArgs{Title: fmt.Sprint(i), Body: body}))
		if n := w.Count(`SELECT count(*) FROM item_mention WHERE item_id = $1 AND user_id = ANY ($2)`, item, crowd[:min(i+1, 10)]); n != int64(min(i+1, 10)) {
			t.Errorf("of %d names %d are mentioned", i+1, n)
		}
		if n := w.Count(`SELECT count(*) FROM item_mention WHERE item_id = $1`, item); n > 10 {
			t.Errorf("of %d names %d are mentioned", i+1, n)
		}
	}
}

// A payer who is among the receivers cannot pay with what this very payment would bring.
func TestNobodyPaysWithWhatTheyAreAboutToReceive(t *testing.T) {
	t.Parallel()
	w := enginetest.New(t, paidaction.Settings{})
	payer := w.User("payer", 300*sat, 0)
	post := w.Post(w.User("author", 100*sat, 0), "x", community.Forward{User: payer, Pct: 100})
	_, err := w.Try(payer, community.KindZap, community.ZapArgs{Item: post, Sats: 1000}, paidaction.FeeCredit, "")
	w.WantRefusal(err, paidaction.CodeInsufficientFunds)
	w.WantBalance(ledger.UserCredits(payer), 300*sat)
}

package community_test

import (
	"fmt"
	"sync"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/a-seed-a7aed72f/holdfast/community"
	"github.com/a-seed-a7aed72f/holdfast/internal/db"
	"github.com/a-seed-a7aed72f/holdfast/internal/enginetest"
	"github.com/a-seed-a7aed72f/holdfast/internal/pgtest"
	"github.com/a-seed-a7aed72f/holdfast/ledger"
	"github.com/a-seed-a7aed72f/holdfast/paidaction"
)

func downZap(w *enginetest.World, user, item, sats int64) *paidaction.PaidAction {
	w.Helper()
	return w.Pay(user, community.KindDownZap, community.ZapArgs{Item: item, Sats: sats}, "")
}

// spec 02 §2.4: as zap, downwards; all of it to the rewards pool.
func TestDownZapLowersTheItemAndNothingElse(t *testing.T) {
	t.Parallel()
	w := enginetest.New(t, paidaction.Settings{})
	author, payer := w.User("author", 100*sat, 0), w.User("payer", 2000*sat, 0)
	root := w.Post(author, "root")
	comment := w.Item(create(w, author, community.ItemCreateArgs{Body: "one", Parent: root}))
	before, pool := w.Balance(ledger.UserCredits(author)), w.Balance(ledger.RewardCredits)
	downZap(w, payer, comment, 100)
	w.Pay(payer, community.KindZap, community.ZapArgs{Item: comment, Sats: 10}, "")
	downZap(w, payer, comment, 900)
	check := func() {
		t.Helper()
		got := item(w, comment)
		if got.DownMsat != 1000*sat || got.Downvotes != 1 || got.VoteMicros != 1_000_000-3_000_000 || got.Msat != 10*sat || got.Upvotes != 1 {
			t.Errorf("%+v", got)
		}
		if got := item(w, root); got.CommentMsat != 10*sat || got.DownMsat != 0 || got.VoteMicros != 0 {
			t.Errorf("%+v", got)
		}
	}
	check()
	fold(w)
	check()
	w.WantBalance(ledger.UserCredits(author), before+7*sat)
	w.WantBalance(ledger.RewardCredits, pool+1000*sat+3*sat)
	w.WantBalance(ledger.UserCredits(payer), 990*sat)
	w.WantConserved()
}

func TestDownZapsThatAreRefused(t *testing.T) {
	t.Parallel()
	w := enginetest.New(t, paidaction.Settings{})
	author, payer := w.User("author", 100*sat, 0), w.User("payer", 100*sat, 0)
	post := w.Post(author, "a post")
	poor := w.User("poor", 0, 0)
	pending := w.Item(create(w, poor, community.ItemCreateArgs{Title: "unpaid"}))
	deleted := w.Post(w.User("gone", 10*sat, 0), "deleted")
	mustExec(w, `UPDATE item SET deleted_at = $2 WHERE id = $1`, deleted, w.Clock.Now())
	actions := w.Count(`SELECT count(*) FROM paid_action`)
	for name, c := range map[string]struct {
		user   int64
		args   community.ZapArgs
		method paidaction.Method
		code   paidaction.Code
	}{
		"zero":        {payer, community.ZapArgs{Item: post, Sats: 0}, "", paidaction.CodeInvalidAmount},
		"negative":    {payer, community.ZapArgs{Item: post, Sats: -5}, "", paidaction.CodeInvalidAmount},
		"overflowing": {payer, community.ZapArgs{Item: post, Sats: 1 << 62}, "", paidaction.CodeInvalidAmount},
		"too large":   {payer, community.ZapArgs{Item: post, Sats: 1_000_001}, "", paidaction.CodeInvalidAmount},
		"own":         {author, community.ZapArgs{Item: post, Sats: 1}, "", paidaction.CodeForbidden},
		"own, unpaid": {poor, community.ZapArgs{Item: pending, Sats: 1}, "", paidaction.CodeForbidden},
		"unpaid":      {payer, community.ZapArgs{Item: pending, Sats: 1}, "", paidaction.CodeNotFound},
		"deleted":     {payer, community.ZapArgs{Item: deleted, Sats: 1}, "", paidaction.CodeNotFound},
		"unknown":     {payer, community.ZapArgs{Item: 999, Sats: 1}, "", paidaction.CodeNotFound},
		"anonymous":   {0, community.ZapArgs{Item: post, Sats: 1}, "", paidaction.CodeUnauthenticated},
		"held":        {payer, community.ZapArgs{Item: post, Sats: 1}, paidaction.Pessimistic, paidaction.CodeMethodUnavailable},
		"to a wallet": {payer, community.ZapArgs{Item: post, Sats: 1}, paidaction.P2P, paidaction.CodeMethodUnavailable},
	} {
		_, err := w.Try(c.user, community.KindDownZap, c.args, c.method, "")
		if w.WantRefusal(err, c.code); t.Failed() {
			t.Fatal(name)
		}
	}
	w.WantBalance(ledger.UserCredits(payer), 100*sat)
	if n := w.Count(`SELECT count(*) FROM paid_action`); n != actions {
		t.Error("a refused down-zap left an action behind")
	}
}

// The author learns that an item was down-zapped, once, and nothing that leads to who it was.
func TestAuthorIsToldOnceAndNotByWhom(t *testing.T) {
	t.Parallel()
	w := enginetest.New(t, paidaction.Settings{})
	author := w.User("author", 100*sat, 0)
	post, other := w.Post(author, "one"), w.Post(author, "two")
	for i, item := range []int64{post, post, other} {
		downZap(w, w.User(fmt.Sprint("payer_", i), 100*sat, 0), item, 10)
	}
	w.Drain()
	// The job runs at least once.
	mustExec(w, `INSERT INTO test_job (kind, action, at) SELECT 'after_paid', id, $1 FROM paid_action WHERE kind = 'DOWN_ZAP'`, w.Clock.Now())
	w.Drain()
	rows, err := db.New(w.Pool).NotificationsOf(w.Ctx, db.NotificationsOfParams{UserID: author, Before: 1 << 62, Page: 10})
	if err != nil || len(rows) != 2 {
		t.Fatalf("%+v, %v", rows, err)
	}
	for i, want := range []int64{other, post} {
		n := rows[i]
		if n.Kind != "DOWN_ZAPPED" || *n.ItemID != want {
			t.Errorf("%+v", n)
		}
		if by := w.Count(`SELECT payer_id FROM paid_action WHERE id = $1`, n.ActionID); by != author {
			t.Errorf("the notification leads to user %d", by)
		}
	}
}

// Weighted votes are the same in whatever order people zap and down-zap, and the same as what is recorded one by one.
func TestVotesAreIndependentOfTheOrderOfZapsAndDownZaps(t *testing.T) {
	t.Parallel()
	w := enginetest.New(t, paidaction.Settings{})
	author := w.User("author", 1_000_000*sat, 0)
	var people []int64
	for i, trust := range []int64{1_000_000, 330_000, 0, 2_718_281} {
		people = append(people, w.User(fmt.Sprint("voter_", i), 1_000_000_000*sat, 0))
		mustExec(w, `UPDATE usr SET trust_micros = $2 WHERE id = $1`, people[i], trust)
	}
	type cast struct {
		Kind string
		User int64
		Sats int64
	}
	casts := rapid.Custom(func(t *rapid.T) cast {
		return cast{rapid.SampledFrom([]string{community.KindZap, community.KindDownZap}).Draw(t, "kind"),
			rapid.SampledFrom(people).Draw(t, "user"), rapid.Int64Range(1, 2000).Draw(t, "sats")}
	})
	posts := 0
	rapid.Check(t, func(rt *rapid.T) {
		one := rapid.SliceOfN(casts, 1, 6).Draw(rt, "casts")
		other := rapid.Permutation(one).Draw(rt, "in another order")
		var votes []int64
		for _, order := range [][]cast{one, other} {
			w.Clock.Advance(time.Hour)
			posts++
			post := w.Post(author, fmt.Sprint("post ", posts))
			for _, c := range order {
				w.Pay(c.User, c.Kind, community.ZapArgs{Item: post, Sats: c.Sats}, paidaction.FeeCredit)
			}
			votes = append(votes, item(w, post).VoteMicros)
			if sum := w.Count(`SELECT sum(micros) FROM vote_event WHERE item_id = $1 AND author_id = $2`, post, author); sum != votes[len(votes)-1] {
				rt.Fatalf("the events sum up to %d, the item has %d", sum, votes[len(votes)-1])
			}
		}
		if votes[0] != votes[1] {
			rt.Fatalf("%d and %d", votes[0], votes[1])
		}
	})
}

// Many vote on one item at the same time, each up and down and more than once.
func TestManyVoteOnOneItemAtOnce(t *testing.T) {
	t.Parallel()
	w := enginetest.New(t, paidaction.Settings{})
	const people = 40
	post := w.Post(w.User("author", 10*sat, 0), "disputed")
	var wg sync.WaitGroup
	for i := range people {
		user := w.User(fmt.Sprint("voter_", i), 1000*sat, 1000*sat)
		for _, kind := range []string{community.KindZap, community.KindDownZap, community.KindDownZap} {
			wg.Go(func() {
				if _, err := w.Try(user, kind, community.ZapArgs{Item: post, Sats: 50}, "", ""); err != nil {
					t.Error(err)
				}
			})
		}
	}
	wg.Wait()
	fold(w)
	got := item(w, post)
	if got.Upvotes != people || got.Downvotes != people || got.Msat != people*50*sat || got.DownMsat != people*100*sat {
		t.Errorf("%+v", got)
	}
	if want := people * (weight(50*sat, 1_000_000) - weight(100*sat, 1_000_000)); got.VoteMicros != want {
		t.Errorf("vote %d, want %d", got.VoteMicros, want)
	}
	w.WantConserved()
	if n := pgtest.Deadlocks(t, w.Pool); n != 0 {
		t.Errorf("%d deadlocks", n)
	}
}

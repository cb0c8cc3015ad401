package community_test

import (
	"context"
	"fmt"
	"math"
	"sync"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"pgregory.net/rapid"

	"github.com/a-seed-a7aed72f/holdfast/community"
	"github.com/a-seed-a7aed72f/holdfast/internal/db"
	"github.com/a-seed-a7aed72f/holdfast/internal/enginetest"
	"github.com/a-seed-a7aed72f/holdfast/internal/pgtest"
	"github.com/a-seed-a7aed72f/holdfast/ledger"
	"github.com/a-seed-a7aed72f/holdfast/lightning/simnode"
	"github.com/a-seed-a7aed72f/holdfast/paidaction"
)

func TestMain(m *testing.M) { pgtest.Main(m) }

const sat = 1000 // msat

// item reads an item as everybody sees it, unfolded counters included.
func item(w *enginetest.World, id int64) db.ItemsByIDRow {
	w.Helper()
	rows, err := db.New(w.Pool).ItemsByID(w.Ctx, db.ItemsByIDParams{Ids: []int64{id}})
	if err != nil || len(rows) != 1 {
		w.Fatalf("item %d: %d rows, %v", id, len(rows), err)
	}
	return rows[0]
}

// fold folds everything there is to fold.
func fold(w *enginetest.World) {
	w.Helper()
	for _, f := range []func(ctx context.Context, q *db.Queries, page int32) (int, error){community.FoldItems, community.FoldPolls, ledger.Fold} {
		for {
			var n int
			err := pgx.BeginFunc(w.Ctx, w.Pool, func(tx pgx.Tx) (err error) {
				q := db.New(tx)
				if err = q.PlanOnce(w.Ctx); err == nil {
					n, err = f(w.Ctx, q, 1000)
				}
				return err
			})
			if err != nil {
				w.Fatal(err)
			}
			if n == 0 {
				break
			}
		}
	}
}

func territory(w *enginetest.World, name string, founder int64) {
	w.Helper()
	err := db.New(w.Pool).InsertTerritory(w.Ctx, db.InsertTerritoryParams{Name: name, FounderID: founder, BaseCostMsat: 10 * sat,
		ReplyCostMsat: 2 * sat, CreatedAt: w.Clock.Now()})
	if err != nil {
		w.Fatal(err)
	}
}

// spec 02 §2.4, Zap: 30 % fee, of which 70 % to the founder; the rest to forwardees and author as credits.
func TestZapSplitsExactly(t *testing.T) {
	t.Parallel()
	for _, method := range []paidaction.Method{paidaction.FeeCredit, paidaction.RewardSats, paidaction.Optimistic} {
		t.Run(string(method), func(t *testing.T) {
			t.Parallel()
			w := enginetest.New(t, paidaction.Settings{})
			founder, author := w.User("founder", 0, 0), w.User("author", 10*sat, 0)
			friend, other := w.User("friend", 0, 0), w.User("other", 0, 0)
			payer := w.User("payer", 100*sat, 100*sat)
			territory(w, "bitcoin", founder)
			post := w.Item(w.Pay(author, community.KindItemCreate, community.ItemCreateArgs{Title: "a post", Territory: "bitcoin",
				Forwards: []community.Forward{{User: friend, Pct: 33}, {User: other, Pct: 10}}}, paidaction.FeeCredit))
			earned := w.Balance(ledger.UserCredits(founder)) // 70 % of the post's price

			pa := w.Pay(payer, community.KindZap, community.ZapArgs{Item: post, Sats: 7}, method)
			if method == paidaction.Optimistic {
				if err := w.Node.PayBolt11(pa.Invoice.Bolt11, simnode.Payment{}); err != nil {
					t.Fatal(err)
				}
				w.Advance(pa.ID)
			}
			w.WantState(pa.ID, paidaction.Paid)
			// 7,000 msat: fee 2,100 (founder 1,470, rewards 630), share 4,900: friend 1,617, other 490, author 2,793.
			w.WantBalance(ledger.UserCredits(author), 2793)
			w.WantBalance(ledger.UserCredits(friend), 1617)
			w.WantBalance(ledger.UserCredits(other), 490)
			if method == paidaction.FeeCredit {
				w.WantBalance(ledger.UserCredits(founder), earned+1470)
				w.WantBalance(ledger.UserCredits(payer), 93*sat)
			} else {
				// What was paid in sats reaches founder and rewards as sats.
				w.WantBalance(ledger.UserSats(founder), 1470)
				w.WantBalance(ledger.RewardSats, 630)
			}
			w.WantConserved()
			fold(w)
			w.WantConserved()
			w.WantBalance(ledger.UserCredits(author), 2793)
		})
	}
}

// The last comment and the last zap are the latest of all, whichever are folded in.
func TestTheLatestCommentAndZapCount(t *testing.T) {
	t.Parallel()
	w := enginetest.New(t, paidaction.Settings{})
	author, payer := w.User("author", 100*sat, 0), w.User("payer", 1000*sat, 0)
	root := w.Post(author, "root")
	comment := w.Item(w.Pay(author, community.KindItemCreate, community.ItemCreateArgs{Body: "one", Parent: root}, ""))
	for round := range 3 {
		w.Clock.Advance(time.Hour)
		w.Pay(author, community.KindItemCreate, community.ItemCreateArgs{Body: fmt.Sprint("reply ", round), Parent: comment}, "")
		commented := w.Clock.Now()
		w.Clock.Advance(time.Minute)
		w.Pay(payer, community.KindZap, community.ZapArgs{Item: comment, Sats: 10}, "")
		zapped := w.Clock.Now()
		check := func(when string) {
			t.Helper()
			for _, id := range []int64{root, comment} {
				if got := item(w, id); !got.LastCommentAt.Equal(commented) {
					t.Errorf("%s: the last comment below %d was at %s, want %s", when, id, got.LastCommentAt, commented)
				}
			}
			if got := item(w, comment); !got.LastZapAt.Equal(zapped) {
				t.Errorf("%s: the last zap was at %s, want %s", when, got.LastZapAt, zapped)
			}
		}
		check("appended")
		if round > 0 { // the second round finds the first one folded in, the third both
			fold(w)
			check("folded in")
		}
	}
	// What was written down late, as by a slow transaction, is not the latest.
	if _, err := w.Pool.Exec(w.Ctx, `INSERT INTO item_delta (item_id, last_zap_at, last_comment_at) VALUES ($1, $2, $2)`, comment, w.Clock.Now().Add(-time.Hour)); err != nil {
		t.Fatal(err)
	}
	before := item(w, comment)
	fold(w)
	if got := item(w, comment); !got.LastZapAt.Equal(before.LastZapAt) || !got.LastCommentAt.Equal(before.LastCommentAt) || before.LastZapAt.Before(before.LastCommentAt) {
		t.Errorf("before %s and %s, then %s and %s", before.LastZapAt, before.LastCommentAt, got.LastZapAt, got.LastCommentAt)
	}
}

func TestZapCountsAtTheItemAndAboveIt(t *testing.T) {
	t.Parallel()
	w := enginetest.New(t, paidaction.Settings{})
	author, payer := w.User("author", 100*sat, 0), w.User("payer", 1000*sat, 50*sat)
	root := w.Post(author, "root")
	comment := w.Item(w.Pay(author, community.KindItemCreate, community.ItemCreateArgs{Body: "one", Parent: root}, ""))
	reply := w.Item(w.Pay(author, community.KindItemCreate, community.ItemCreateArgs{Body: "two", Parent: comment}, ""))
	w.Pay(payer, community.KindZap, community.ZapArgs{Item: reply, Sats: 100}, "")
	w.Pay(payer, community.KindZap, community.ZapArgs{Item: reply, Sats: 900}, "")
	check := func() {
		t.Helper()
		got := item(w, reply)
		if got.Msat != 1000*sat || got.CreditMsat != 1000*sat || got.Upvotes != 1 || got.VoteMicros != 3_000_000 || !got.LastZapAt.Equal(w.Clock.Now()) {
			t.Errorf("%+v", got)
		}
		for id, comments := range map[int64]int64{root: 2, comment: 1} {
			if got := item(w, id); got.CommentMsat != 1000*sat || got.Comments != comments || got.Msat != 0 {
				t.Errorf("%+v", got)
			}
		}
	}
	check()
	fold(w)
	check()
	if n := w.Count(`SELECT count(*) FROM item_delta`); n != 0 {
		t.Errorf("%d deltas left", n)
	}
	w.Pay(payer, community.KindZap, community.ZapArgs{Item: reply, Sats: 50}, paidaction.RewardSats)
	if got := item(w, reply); got.Msat != 1050*sat || got.CreditMsat != 1000*sat {
		t.Errorf("with 50 sats more: %d msat, %d of them in credits", got.Msat, got.CreditMsat)
	}
}

func TestPendingZapIsSeenByNobodyElse(t *testing.T) {
	t.Parallel()
	w := enginetest.New(t, paidaction.Settings{})
	author, payer := w.User("author", 10*sat, 0), w.User("payer", 0, 0)
	post := w.Post(author, "a post")
	w.Pay(payer, community.KindZap, community.ZapArgs{Item: post, Sats: 10}, "")
	if got := item(w, post); got.Msat != 0 || got.Upvotes != 0 {
		t.Errorf("%+v", got)
	}
	if n := w.Count(`SELECT sum(msat) FROM zap WHERE item_id = $1 AND user_id = $2 AND state = 'PENDING'`, post, payer); n != 10*sat {
		t.Errorf("%d msat are pending", n)
	}
}

// The concurrency that the issue asks for: two hundred payers, one item, by every method that pays at once, while folds run.
func TestTwoHundredPayersZapOneItem(t *testing.T) {
	t.Parallel()
	w := enginetest.New(t, paidaction.Settings{})
	const payers, zaps = 200, 3
	author, friend := w.User("author", 10*sat, 0), w.User("friend", 0, 0)
	post := w.Post(author, "popular", community.Forward{User: friend, Pct: 50})
	users := make([]int64, payers)
	for i := range users {
		users[i] = w.User(fmt.Sprintf("payer_%d", i), 100*sat, 100*sat)
	}
	before := w.Balance(ledger.UserCredits(author))
	done := make(chan struct{})
	var folds sync.WaitGroup
	folds.Go(func() {
		for {
			select {
			case <-done:
				return
			default:
				fold(w)
			}
		}
	})
	var wg sync.WaitGroup
	for i, user := range users {
		wg.Go(func() {
			for j := range zaps {
				method := []paidaction.Method{paidaction.FeeCredit, paidaction.RewardSats}[(i+j)%2]
				if _, err := w.Try(user, community.KindZap, community.ZapArgs{Item: post, Sats: 10}, method, ""); err != nil {
					t.Error(err)
				}
			}
		})
	}
	wg.Wait()
	close(done)
	folds.Wait()
	const total = payers * zaps * 10 * sat
	got := item(w, post)
	if got.Msat != total || got.Upvotes != payers {
		t.Errorf("the item has %d msat of %d, %d up-votes", got.Msat, total, got.Upvotes)
	}
	// Each person zapped 30 sats, whatever the order.
	if want := payers * weight(30*sat, 1_000_000); got.VoteMicros != want {
		t.Errorf("vote %d, want %d", got.VoteMicros, want)
	}
	w.WantBalance(ledger.UserCredits(author), before+total*7/10/2)
	w.WantBalance(ledger.UserCredits(friend), total*7/10/2)
	w.WantConserved()
	if w.Faults.Conflicts != 0 {
		t.Errorf("%d conflicts", w.Faults.Conflicts)
	}
	if n := pgtest.Deadlocks(t, w.Pool); n != 0 {
		t.Errorf("%d deadlocks", n)
	}
}

// A popular author spends while everybody pays them: receipts that are not folded yet can be spent, none is lost.
func TestAuthorSpendsWhatCameInAMomentAgo(t *testing.T) {
	t.Parallel()
	w := enginetest.New(t, paidaction.Settings{})
	author, payer := w.User("author", sat, 0), w.User("payer", 1000*sat, 0)
	post := w.Post(author, "a post")
	w.WantBalance(ledger.UserCredits(author), 0)
	w.Pay(payer, community.KindZap, community.ZapArgs{Item: post, Sats: 100}, "")
	w.Pay(author, community.KindDonate, community.DonateArgs{Sats: 70}, paidaction.FeeCredit)
	w.WantBalance(ledger.UserCredits(author), 0)
	_, err := w.Try(author, community.KindDonate, community.DonateArgs{Sats: 1}, paidaction.FeeCredit, "")
	w.WantRefusal(err, paidaction.CodeInsufficientFunds)
	w.WantConserved()
}

// weight is that of one person's zaps on one item in one direction, in millionths: log10(total in sats, at least 1) × trust (spec 02 §2.4).
func weight(total, trustMicros int64) int64 {
	return int64(math.Round(math.Log10(float64(max(total/sat, 1))) * float64(trustMicros)))
}

// The weight of what somebody zapped an item with is a whole number that follows from the total alone: so it does not depend on how the zaps are cut up, nor on their order.
func TestVoteMicros(t *testing.T) {
	t.Parallel()
	w := enginetest.New(t, paidaction.Settings{})
	rapid.Check(t, func(t *rapid.T) {
		trust := rapid.Int64Range(0, 10_000_000).Draw(t, "trust")
		total := rapid.Int64Range(0, 2_100_000_000_000_000*sat).Draw(t, "total")
		// The last bit of a logarithm is the library's own.
		if got, want := w.Count(`SELECT vote_micros($1, $2)`, total, trust), weight(total, trust); max(got-want, want-got) > 1 {
			t.Fatalf("%d, not %d", got, want)
		}
	})
	for total, want := range map[int64]int64{0: 0, sat - 1: 0, sat: 0, 10 * sat: 1_000_000, 1000*sat + 1: 3_000_000} {
		if got := w.Count(`SELECT vote_micros($1, 1000000)`, total); got != want {
			t.Errorf("%d msat weigh %d, not %d", total, got, want)
		}
	}
}

// Zaps of any people, on any items, count together as they do one after the other in the order of their numbers, whatever their order in the question.
func TestZapsCountTogetherAsOneAfterTheOther(t *testing.T) {
	t.Parallel()
	w := enginetest.New(t, paidaction.Settings{})
	author := w.User("author", 1_000_000*sat, 0)
	people := []int64{0, w.User("alice", sat, 0), w.User("bob", sat, 0)} // 0: the anonymous one
	mustExec(w, `UPDATE usr SET trust_micros = 330000 WHERE id = $1`, people[2])
	type zap struct{ Number, Item, Person, Sats, Credits int64 }
	zaps := rapid.Custom(func(t *rapid.T) zap {
		return zap{0, rapid.Int64Range(0, 1).Draw(t, "item"), rapid.Int64Range(0, 2).Draw(t, "person"), rapid.Int64Range(1, 500).Draw(t, "sats"),
			rapid.Int64Range(0, 1).Draw(t, "in credits")}
	})
	number, posts := int64(1_000_000), 0
	rapid.Check(t, func(rt *rapid.T) {
		ordered := rapid.SliceOfN(zaps, 1, 8).Draw(rt, "zaps")
		var apart [][]zap
		for i := range ordered {
			ordered[i].Number = int64(i)
			apart = append(apart, ordered[i:i+1])
		}
		together := rapid.Permutation(ordered).Draw(rt, "in the question")
		down := rapid.Bool().Draw(rt, "down")
		counted := func(groups ...[]zap) (said string) {
			w.Clock.Advance(time.Hour)
			posts++
			items := []int64{w.Post(author, fmt.Sprint("post ", posts)), w.Post(author, fmt.Sprint("another ", posts))}
			for _, group := range groups {
				p := db.CountZapsParams{Down: down, At: w.Clock.Now()}
				for _, one := range group {
					p.ActionIds, p.ItemIds = append(p.ActionIds, number+one.Number), append(p.ItemIds, items[one.Item])
					p.Users, p.Authors = append(p.Users, people[one.Person]), append(p.Authors, author)
					p.Msats, p.CreditMsats = append(p.Msats, one.Sats*sat), append(p.CreditMsats, one.Credits*one.Sats*sat)
				}
				if err := db.New(w.Pool).CountZaps(w.Ctx, p); err != nil {
					rt.Fatal(err)
				}
			}
			for _, id := range items {
				got := item(w, id)
				said += fmt.Sprintln(got.Msat, got.CreditMsat, got.Upvotes, got.DownMsat, got.Downvotes, got.VoteMicros)
			}
			for _, one := range ordered {
				said += fmt.Sprintln(w.Count(`SELECT coalesce(sum(micros), -1) FROM vote_event WHERE action_id = $1`, number))
				if n := w.Count(`SELECT count(*) FROM vote_event WHERE action_id = $1 AND credits <> ($2 = 1)`, number, one.Credits); n != 0 {
					rt.Fatalf("%+v is a vote in the other asset", one)
				}
				number++
			}
			return said
		}
		if got, want := counted(together), counted(apart...); got != want {
			rt.Fatalf("together:\n%s\none after the other:\n%s", got, want)
		}
	})
}

func TestPercentNeverExceedsTheWhole(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		whole := paidaction.Msat(rapid.Int64Range(0, int64(paidaction.MaxMsat)).Draw(t, "whole"))
		pct := rapid.IntRange(0, 100).Draw(t, "pct")
		part, rest := whole.Percent(pct), whole.Percent(100-pct)
		if part < 0 || rest < 0 || part+rest > whole || whole-part-rest > 1 {
			t.Fatalf("%d and %d of %d", part, rest, whole)
		}
	})
}

func TestZapsThatAreRefused(t *testing.T) {
	t.Parallel()
	w := enginetest.New(t, paidaction.Settings{})
	author, payer := w.User("author", 100*sat, 0), w.User("payer", 100*sat, 0)
	post := w.Post(author, "a post")
	poor := w.User("poor", 0, 0)
	pending := w.Item(w.Pay(poor, community.KindItemCreate, community.ItemCreateArgs{Title: "unpaid"}, ""))
	deleted := w.Post(w.User("gone", 10*sat, 0), "deleted")
	if _, err := w.Pool.Exec(w.Ctx, `UPDATE item SET deleted_at = now() WHERE id = $1`, deleted); err != nil {
		t.Fatal(err)
	}
	actions := w.Count(`SELECT count(*) FROM paid_action`)
	for name, c := range map[string]struct {
		user int64
		args community.ZapArgs
		code paidaction.Code
	}{
		"zero":        {payer, community.ZapArgs{Item: post, Sats: 0}, paidaction.CodeInvalidAmount},
		"negative":    {payer, community.ZapArgs{Item: post, Sats: -5}, paidaction.CodeInvalidAmount},
		"overflowing": {payer, community.ZapArgs{Item: post, Sats: 1 << 62}, paidaction.CodeInvalidAmount},
		"too large":   {payer, community.ZapArgs{Item: post, Sats: 1_000_001}, paidaction.CodeInvalidAmount},
		"own":         {author, community.ZapArgs{Item: post, Sats: 1}, paidaction.CodeForbidden},
		"own, unpaid": {poor, community.ZapArgs{Item: pending, Sats: 1}, paidaction.CodeForbidden},
		"unpaid":      {payer, community.ZapArgs{Item: pending, Sats: 1}, paidaction.CodeNotFound},
		"deleted":     {payer, community.ZapArgs{Item: deleted, Sats: 1}, paidaction.CodeNotFound},
		"unknown":     {payer, community.ZapArgs{Item: 999, Sats: 1}, paidaction.CodeNotFound},
	} {
		_, err := w.Try(c.user, community.KindZap, c.args, "", "")
		if w.WantRefusal(err, c.code); t.Failed() {
			t.Fatal(name)
		}
	}
	w.WantBalance(ledger.UserCredits(payer), 100*sat)
	if n := w.Count(`SELECT count(*) FROM paid_action`); n != actions {
		t.Error("a refused zap left an action behind")
	}
}

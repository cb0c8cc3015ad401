package community_test

import (
	"fmt"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"pgregory.net/rapid"

	"github.com/a-seed-a7aed72f/holdfast/community"
	"github.com/a-seed-a7aed72f/holdfast/internal/db"
	"github.com/a-seed-a7aed72f/holdfast/internal/enginetest"
	"github.com/a-seed-a7aed72f/holdfast/ledger"
	"github.com/a-seed-a7aed72f/holdfast/lightning/simnode"
	"github.com/a-seed-a7aed72f/holdfast/paidaction"
)

func boost(w *enginetest.World, user, item, sats int64) *paidaction.PaidAction {
	w.Helper()
	return w.Pay(user, community.KindBoost, community.BoostArgs{Item: item, Sats: sats}, "")
}

// expire takes off what has expired, a page at a time, and says how many boosts it was.
func expire(w *enginetest.World, page int32) (all int) {
	for {
		var n int
		err := pgx.BeginFunc(w.Ctx, w.Pool, func(tx pgx.Tx) (err error) {
			n, err = community.ExpireBoosts(w.Ctx, db.New(tx), w.Clock.Now(), page)
			return err
		})
		if err != nil {
			w.Error(err)
			return all
		}
		if n == 0 {
			return all
		}
		all += n
	}
}

func wantBoost(w *enginetest.World, post, sats int64) {
	w.Helper()
	if got := item(w, post).BoostMsat; got != sats*sat {
		w.Errorf("boosted with %d msat, want %d sats", got, sats)
	}
}

func TestBoostLastsThirtyDays(t *testing.T) {
	t.Parallel()
	w := enginetest.New(t, paidaction.Settings{})
	author, friend := w.User("author", 1000*sat, 0), w.User("friend", 1000*sat, 0)
	post := w.Post(author, "a post")
	boost(w, author, post, 100)
	w.Clock.Advance(24 * time.Hour)
	boost(w, friend, post, 50)
	wantBoost(w, post, 150)
	w.Clock.Advance(29*24*time.Hour - time.Second)
	if n := expire(w, 10); n != 0 {
		t.Errorf("%d boosts expired too early", n)
	}
	w.Clock.Advance(time.Second)
	if n := expire(w, 10); n != 1 {
		t.Errorf("%d boosts expired", n)
	}
	wantBoost(w, post, 50)
	fold(w)
	wantBoost(w, post, 50)
	w.Clock.Advance(24 * time.Hour)
	if n := expire(w, 10) + expire(w, 10); n != 1 {
		t.Errorf("%d boosts expired", n)
	}
	wantBoost(w, post, 0)
	w.WantConserved()
}

// A boost whose invoice is open ranks nothing, and one that was never paid never expires.
func TestUnpaidBoostRanksNothing(t *testing.T) {
	t.Parallel()
	w := enginetest.New(t, paidaction.Settings{})
	post, poor := w.Post(w.User("author", 10*sat, 0), "a post"), w.User("poor", 0, 0)
	given, paid := boost(w, poor, post, 10), boost(w, poor, post, 20)
	wantBoost(w, post, 0)
	if _, err := w.Engine.Cancel(w.Ctx, enginetest.Caller(poor), given.ID); err != nil {
		t.Fatal(err)
	}
	w.Clock.Advance(time.Minute)
	if err := w.Node.PayBolt11(paid.Invoice.Bolt11, simnode.Payment{}); err != nil {
		t.Fatal(err)
	}
	w.Advance(paid.ID)
	wantBoost(w, post, 20)
	// It lasts from when it was paid.
	w.Clock.Advance(30*24*time.Hour - time.Second)
	if n := expire(w, 10); n != 0 {
		t.Errorf("%d boosts expired", n)
	}
	w.Clock.Advance(time.Second)
	if n := expire(w, 10); n != 1 {
		t.Errorf("%d boosts expired", n)
	}
	wantBoost(w, post, 0)
}

// The boost of a new post is added to its price, which nothing else makes dearer; it counts with the post, and is tried again with it.
func TestNewPostIsBoosted(t *testing.T) {
	t.Parallel()
	w := enginetest.New(t, paidaction.Settings{})
	author, poor, founder := w.User("author", 1000*sat, 0), w.User("poor", 0, 0), w.User("founder", 0, 0)
	territory(w, "bitcoin", founder)
	for i, want := range []paidaction.Msat{110 * sat, 200 * sat} {
		pa := create(w, author, community.ItemCreateArgs{Title: fmt.Sprint("post ", i), Territory: "bitcoin", Boost: 100})
		if pa.Cost != want {
			t.Errorf("post %d costs %d msat, want %d", i, pa.Cost, want)
		}
		wantBoost(w, w.Item(pa), 100)
	}
	w.WantBalance(ledger.UserCredits(founder), 310*sat*7/10)

	pa := create(w, poor, community.ItemCreateArgs{Title: "by invoice", Boost: 7})
	seen := func() int64 { return w.Count(`SELECT boost_msat FROM item_count WHERE item_id = $1`, w.Item(pa)) }
	if _, err := w.Engine.Cancel(w.Ctx, enginetest.Caller(poor), pa.ID); err != nil {
		t.Fatal(err)
	}
	if n := w.Count(`SELECT count(*) FROM boost WHERE action_id = $1 AND state = 'FAILED'`, pa.ID); n != 1 {
		t.Errorf("of the boost that was not paid for %d are marked as failed", n)
	}
	again, err := w.Engine.Retry(w.Ctx, enginetest.Caller(poor), pa.ID, "", paidaction.Terms{}, nil)
	if err != nil {
		t.Fatal(err)
	}
	if fold(w); again.Cost != 8*sat || seen() != 0 {
		t.Errorf("the next attempt costs %d, and the post is boosted with %d", again.Cost, seen())
	}
	if err := w.Node.PayBolt11(again.Invoice.Bolt11, simnode.Payment{}); err != nil {
		t.Fatal(err)
	}
	w.Advance(again.ID)
	wantBoost(w, w.Item(pa), 7)

	anonymous := create(w, 0, community.ItemCreateArgs{Title: "by nobody", Boost: 5})
	if anonymous.Cost != 15*sat {
		t.Errorf("anonymous: %d", anonymous.Cost)
	}
	if err := w.Node.PayBolt11(anonymous.Invoice.Bolt11, simnode.Payment{}); err != nil {
		t.Fatal(err)
	}
	w.Advance(anonymous.ID)
	w.Drain()
	w.WantState(anonymous.ID, paidaction.Paid)
	wantBoost(w, w.Item(w.Look(anonymous.ID)), 5)
	w.WantConserved()
}

func TestBoostsThatAreRefused(t *testing.T) {
	t.Parallel()
	w := enginetest.New(t, paidaction.Settings{})
	author, payer := w.User("author", 100*sat, 0), w.User("payer", 100*sat, 0)
	post := w.Post(author, "a post")
	comment := w.Item(create(w, author, community.ItemCreateArgs{Body: "one", Parent: post}))
	poor := w.User("poor", 0, 0)
	pending := w.Item(create(w, poor, community.ItemCreateArgs{Title: "unpaid"}))
	deleted := w.Post(w.User("gone", 10*sat, 0), "deleted")
	mustExec(w, `UPDATE item SET deleted_at = $2 WHERE id = $1`, deleted, w.Clock.Now())
	actions := w.Count(`SELECT count(*) FROM paid_action`)
	for name, c := range map[string]struct {
		user int64
		kind string
		args any
		code paidaction.Code
	}{
		"zero":              {payer, community.KindBoost, community.BoostArgs{Item: post, Sats: 0}, paidaction.CodeInvalidAmount},
		"negative":          {payer, community.KindBoost, community.BoostArgs{Item: post, Sats: -5}, paidaction.CodeInvalidAmount},
		"overflowing":       {payer, community.KindBoost, community.BoostArgs{Item: post, Sats: 1 << 62}, paidaction.CodeInvalidAmount},
		"a comment":         {payer, community.KindBoost, community.BoostArgs{Item: comment, Sats: 1}, paidaction.CodeInvalidInput},
		"one's own, unpaid": {poor, community.KindBoost, community.BoostArgs{Item: pending, Sats: 1}, community.CodeNotPaid},
		"unpaid":            {payer, community.KindBoost, community.BoostArgs{Item: pending, Sats: 1}, paidaction.CodeNotFound},
		"deleted":           {payer, community.KindBoost, community.BoostArgs{Item: deleted, Sats: 1}, paidaction.CodeNotFound},
		"unknown":           {payer, community.KindBoost, community.BoostArgs{Item: 999, Sats: 1}, paidaction.CodeNotFound},
		"anonymous":         {0, community.KindBoost, community.BoostArgs{Item: post, Sats: 1}, paidaction.CodeUnauthenticated},
		"new, negative":     {payer, community.KindItemCreate, community.ItemCreateArgs{Title: "x", Boost: -1}, paidaction.CodeInvalidAmount},
		"new, overflowing":  {payer, community.KindItemCreate, community.ItemCreateArgs{Title: "x", Boost: 1 << 62}, paidaction.CodeInvalidAmount},
		"new, all there is": {payer, community.KindItemCreate, community.ItemCreateArgs{Title: "x", Boost: paidaction.MaxMsat.Sats()}, paidaction.CodeInvalidAmount},
		"new comment":       {payer, community.KindItemCreate, community.ItemCreateArgs{Body: "x", Parent: post, Boost: 1}, paidaction.CodeInvalidInput},
	} {
		_, err := w.Try(c.user, c.kind, c.args, "", "")
		if w.WantRefusal(err, c.code); t.Failed() {
			t.Fatal(name)
		}
	}
	w.WantBalance(ledger.UserCredits(payer), 100*sat)
	if n := w.Count(`SELECT count(*) FROM paid_action`); n != actions {
		t.Error("a refused boost left an action behind")
	}
	if n := w.Count(`SELECT count(*) FROM boost`); n != 0 {
		t.Error("a refused boost left a row behind")
	}
}

// Two chores at the same time take each boost off once.
func TestBoostsExpireOnceWithTwoChoresAtOnce(t *testing.T) {
	t.Parallel()
	w := enginetest.New(t, paidaction.Settings{})
	author := w.User("author", 1000*sat, 0)
	post := w.Post(author, "a post")
	const boosts = 60
	for range boosts {
		boost(w, author, post, 3)
	}
	w.Clock.Advance(15 * 24 * time.Hour)
	boost(w, author, post, 5)
	w.Clock.Advance(15 * 24 * time.Hour)
	total, other := 0, make(chan int)
	err := pgx.BeginFunc(w.Ctx, w.Pool, func(tx pgx.Tx) (err error) {
		if total, err = community.ExpireBoosts(w.Ctx, db.New(tx), w.Clock.Now(), 7); err != nil {
			return err
		}
		go func() { other <- expire(w, 7) }()
		w.AwaitBlocked(1)
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	total += expire(w, 7)
	total += <-other
	if total != boosts {
		t.Errorf("%d boosts were taken off, of %d", total, boosts)
	}
	wantBoost(w, post, 5)
}

// What an item is boosted with is the sum of what was paid in the last thirty days, whatever happens in whatever order.
func TestBoostIsWhatWasPaidInTheLastThirtyDays(t *testing.T) {
	t.Parallel()
	w := enginetest.New(t, paidaction.Settings{})
	author := w.User("author", 1_000_000_000*sat, 0)
	posts := 0
	rapid.Check(t, func(rt *rapid.T) {
		w.Clock.Advance(time.Hour)
		posts++
		post := w.Post(author, fmt.Sprint("post ", posts))
		paid := map[time.Time]int64{}
		rt.Repeat(map[string]func(*rapid.T){
			"boost": func(rt *rapid.T) {
				sats := rapid.Int64Range(1, 1000).Draw(rt, "sats")
				boost(w, author, post, sats)
				paid[w.Clock.Now()] += sats
			},
			"days": func(rt *rapid.T) {
				w.Clock.Advance(time.Duration(rapid.IntRange(1, 20).Draw(rt, "days")) * 24 * time.Hour)
			},
			"fold": func(*rapid.T) { fold(w) },
			"": func(rt *rapid.T) {
				expire(w, 1)
				var want int64
				for at, sats := range paid {
					if w.Clock.Now().Before(at.Add(30 * 24 * time.Hour)) {
						want += sats
					}
				}
				if got := item(w, post).BoostMsat; got != want*sat {
					rt.Fatalf("boosted with %d msat, want %d sats", got, want)
				}
			},
		})
	})
}

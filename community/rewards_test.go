package community_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
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
	"github.com/a-seed-a7aed72f/holdfast/reconcile"
)

// rewardWorld is a world with some authors, whose clock stands at the noon of the first day.
type rewardWorld struct {
	*enginetest.World
	authors []int64
}

func newRewardWorld(t *testing.T, authors int) *rewardWorld {
	t.Helper()
	w := &rewardWorld{World: enginetest.New(t, paidaction.Settings{})}
	w.Clock.Advance(12 * time.Hour)
	for i := range authors {
		w.authors = append(w.authors, w.User(fmt.Sprintf("author%d", i), 0, 0))
	}
	return w
}

// vote is what zaps now change of an author's weighted votes, as much in each asset.
func (w *rewardWorld) vote(author *int64, micros int64) {
	w.Helper()
	w.voteIn(ledger.Credits, author, micros)
	w.voteIn(ledger.Sats, author, micros)
}

// voteIn is what a zap that is paid in an asset now changes of an author's weighted votes.
func (w *rewardWorld) voteIn(asset ledger.Asset, author *int64, micros int64) {
	w.Helper()
	_, err := w.Pool.Exec(w.Ctx, `WITH zap AS (
			INSERT INTO paid_action (kind, flow, method, state, cost_msat, created_at, changed_at, args)
			VALUES ('ZAP', 'BALANCE', CASE WHEN $4 THEN 'FEE_CREDIT' ELSE 'REWARD_SATS' END::payment_method, 'PAID', 1, $3, $3, '{}') RETURNING id)
		INSERT INTO vote_event (action_id, item_id, author_id, micros, at, credits) SELECT id, 1, $1, $2, $3, $4 FROM zap`,
		author, micros, w.Clock.Now(), asset == ledger.Credits)
	if err != nil {
		w.Fatal(err)
	}
}

// fill brings money into the pool, now.
func (w *rewardWorld) fill(credits, sats int64) {
	w.Helper()
	transfers := slices.DeleteFunc([]ledger.Transfer{
		{From: ledger.Lightning, To: ledger.RewardSats, Msat: sats, Reason: "donation"},
		{From: ledger.Lightning, To: ledger.BackingSats, Msat: credits, Reason: "donation"},
		{From: ledger.IssuedCredits, To: ledger.RewardCredits, Msat: credits, Reason: "donation"},
	}, func(t ledger.Transfer) bool { return t.Msat == 0 })
	if err := ledger.Post(w.Ctx, db.New(w.Pool), nil, w.Clock.Now(), transfers); err != nil {
		w.Fatal(err)
	}
}

var errCrash = errors.New("the process ends here")

// pay is one turn of the daily payout. With crash it dies before the commit.
func (w *rewardWorld) pay(crash bool) (days int, err error) {
	err = pgx.BeginFunc(w.Ctx, w.Pool, func(tx pgx.Tx) (err error) {
		if _, err := tx.Exec(w.Ctx, `SET LOCAL lock_timeout = '20s'`); err != nil { // nobody is waited for
			return err
		}
		if days, err = community.PayRewards(w.Ctx, db.New(tx), w.Clock.Now(), community.DefaultSettings()); crash {
			return errCrash
		}
		return err
	})
	return days, err
}

// payTop is a turn where so few share a pool.
func (w *rewardWorld) payTop(most int) {
	w.Helper()
	s := community.DefaultSettings()
	s.RewardTop = most
	err := pgx.BeginFunc(w.Ctx, w.Pool, func(tx pgx.Tx) error {
		_, err := community.PayRewards(w.Ctx, db.New(tx), w.Clock.Now(), s)
		return err
	})
	if err != nil {
		w.Fatal(err)
	}
}

func (w *rewardWorld) wantPaid(want int) {
	w.Helper()
	if days, err := w.pay(false); err != nil || days != want {
		w.Errorf("%d days were paid, want %d; error %v", days, want, err)
	}
}

// wantAudited checks the books and the audit of the rewards.
func (w *rewardWorld) wantAudited() {
	w.Helper()
	w.WantConserved()
	report, err := reconcile.Run(w.Ctx, reconcile.Config{Pool: w.Pool, Nodes: simnode.Nodes{w.Node}, Now: w.Clock.Now})
	if err != nil {
		w.Fatal(err)
	}
	if first := report.Invariants[0]; first.Broken != 0 {
		w.Errorf("%v", first.Breaks)
	}
}

func TestADayPaysItsPoolToItsContributors(t *testing.T) {
	t.Parallel()
	w := newRewardWorld(t, 4)
	w.fill(1000, 100)
	w.vote(&w.authors[0], 3_000_000)
	w.vote(&w.authors[1], 1_500_000)
	w.vote(&w.authors[1], 1_500_000)
	w.vote(&w.authors[2], 2_000_000)
	w.vote(&w.authors[2], -1_000_000)
	w.vote(&w.authors[3], -1) // down-votes take nothing from anybody else
	w.vote(nil, 9_000_000)    // nobody can claim what the anonymous wrote

	w.wantPaid(0) // the day has not ended
	w.Clock.Advance(12 * time.Hour)
	w.wantPaid(0) // what was paid at midnight may still be committing
	w.Clock.Advance(2 * time.Minute)
	w.fill(7, 7) // and what comes in now is of the next day
	w.vote(&w.authors[3], 9_000_000)
	w.wantPaid(1)

	// 3 : 3 : 1 of 1,000 are 428.57, 428.57 and 142.86: the largest remainder first, then the first of the equal ones.
	for i, want := range []struct{ credits, sats int64 }{{429, 43}, {428, 43}, {143, 14}, {0, 0}} {
		w.WantBalance(ledger.UserCredits(w.authors[i]), want.credits)
		w.WantBalance(ledger.UserSats(w.authors[i]), want.sats)
	}
	w.WantBalance(ledger.RewardCredits, 7)
	w.WantBalance(ledger.RewardSats, 7)
	if n := w.Count(`SELECT count(*) FROM reward WHERE day = '2026-01-01' AND (user_id, rank) IN (($1, 1), ($2, 2), ($3, 3))`,
		w.authors[0], w.authors[1], w.authors[2]); n != 3 {
		t.Errorf("%d of 3 rewards are recorded by their ranks", n)
	}
	if n := w.Count(`SELECT count(*) FROM notification WHERE kind = 'REWARD' AND day = '2026-01-01'`); n != 3 {
		t.Errorf("%d of 3 are told", n)
	}
	w.wantAudited()
}

// A day begins at its midnight and ends before the next one: what comes exactly then is of the day that begins, of that
// day alone, and of all of it, the money as well as the votes.
func TestMidnightIsOfTheDayThatBegins(t *testing.T) {
	t.Parallel()
	w := newRewardWorld(t, 2)
	w.fill(1000, 100)
	w.vote(&w.authors[0], 1)
	w.Clock.Advance(12 * time.Hour)
	w.fill(70, 7)
	w.vote(&w.authors[1], 1)
	w.Clock.Advance(day)
	w.fill(5, 5) // of the third day, which has just begun
	w.Clock.Advance(2 * time.Minute)
	w.wantPaid(2)
	for i, want := range []struct{ credits, sats int64 }{{1000, 100}, {70, 7}} {
		w.WantBalance(ledger.UserCredits(w.authors[i]), want.credits)
		w.WantBalance(ledger.UserSats(w.authors[i]), want.sats)
	}
	w.WantBalance(ledger.RewardCredits, 5)
	w.WantBalance(ledger.RewardSats, 5)
	w.wantAudited()
}

// An operator may give back to a payer what their action gave to the pool. If that is more than is left of the day's,
// the day pays nothing, and the days after it what they hold.
func TestADayWhosePoolWasGivenBackPaysNothing(t *testing.T) {
	t.Parallel()
	w := newRewardWorld(t, 1)
	w.fill(10, 10)
	w.vote(&w.authors[0], 1)
	w.Clock.Advance(day)
	w.fill(500, 500)
	w.vote(&w.authors[0], 1)
	back := []ledger.Transfer{{From: ledger.RewardCredits, To: ledger.IssuedCredits, Msat: 100, Reason: "given back by hand"},
		{From: ledger.BackingSats, To: ledger.Lightning, Msat: 100, Reason: "given back by hand"},
		{From: ledger.RewardSats, To: ledger.Lightning, Msat: 100, Reason: "given back by hand"}}
	if err := ledger.Post(w.Ctx, db.New(w.Pool), nil, w.Clock.Now(), back); err != nil {
		t.Fatal(err)
	}
	w.wantPaid(1)
	w.WantBalance(ledger.UserCredits(w.authors[0]), 0)
	w.WantBalance(ledger.UserSats(w.authors[0]), 0)
	w.Clock.Advance(day)
	w.wantPaid(1)
	w.WantBalance(ledger.UserCredits(w.authors[0]), 410)
	w.WantBalance(ledger.UserSats(w.authors[0]), 410)
	w.WantConserved()
}

// Spec 05.13: a job that runs twice on one day pays once.
func TestRewardsThatRunTwiceOnOneDayPayOnce(t *testing.T) {
	t.Parallel()
	w := newRewardWorld(t, 2)
	w.fill(100_000, 0)
	w.vote(&w.authors[0], 1)
	w.Clock.Advance(day)
	w.wantPaid(1)
	w.fill(50_000, 0) // there is something to pay again
	for range 3 {
		w.wantPaid(0)
	}
	w.Clock.Advance(11 * time.Hour)
	w.wantPaid(0) // late on the next day, too
	w.WantBalance(ledger.UserCredits(w.authors[0]), 100_000)
	w.WantBalance(ledger.RewardCredits, 50_000)
	w.wantAudited()
}

// Spec 05.13, side by side: while the first pays, others do nothing, and wait for nobody. Else their time could be over
// before they begin, and that of whoever waits for them in turn. Afterwards there is nothing left to do.
func TestTwoRunnersAtOncePayOnce(t *testing.T) {
	t.Parallel()
	w := newRewardWorld(t, 3)
	w.fill(100_001, 31)
	for i := range w.authors {
		w.vote(&w.authors[i], int64(i+1))
	}
	w.Clock.Advance(3 * day)
	w.fill(5, 5)

	began, finish := make(chan struct{}), make(chan struct{})
	var first sync.WaitGroup
	first.Go(func() {
		err := pgx.BeginFunc(w.Ctx, w.Pool, func(tx pgx.Tx) error {
			_, err := community.PayRewards(w.Ctx, db.New(tx), w.Clock.Now(), community.DefaultSettings())
			close(began)
			<-finish // everything is done, and nothing is committed
			return err
		})
		if err != nil {
			t.Error(err)
		}
	})
	<-began
	var others sync.WaitGroup
	for range 2 { // the pool of the test has few connections
		others.Go(func() { w.wantPaid(0) })
	}
	others.Wait()
	if n := w.Count(`SELECT count(*) FROM reward_day`); n != 0 {
		t.Errorf("%d days are paid, and the first has not come to its end", n)
	}
	close(finish)
	first.Wait()
	w.wantPaid(0)
	if n := w.Count(`SELECT count(*) FROM reward_day`); n != 3 {
		t.Errorf("%d days are paid, want 3", n)
	}
	// 100,001 ÷ 6 is 16,666.83: with weights 3, 2, 1 that is 50,000.5, 33,333.67 and 16,666.83.
	for i, want := range []int64{16_667, 33_334, 50_000} {
		w.WantBalance(ledger.UserCredits(w.authors[i]), want)
	}
	w.WantBalance(ledger.RewardCredits, 5)
	w.wantAudited()
}

func TestACrashBeforeTheCommitPaysNothing(t *testing.T) {
	t.Parallel()
	w := newRewardWorld(t, 1)
	w.fill(1000, 1000)
	w.vote(&w.authors[0], 1)
	w.Clock.Advance(day)
	if days, err := w.pay(true); days != 1 || !errors.Is(err, errCrash) {
		t.Fatalf("%d days, error %v", days, err)
	}
	w.WantBalance(ledger.UserSats(w.authors[0]), 0)
	if n := w.Count(`SELECT (SELECT count(*) FROM reward_day) + (SELECT count(*) FROM reward) + (SELECT count(*) FROM notification)`); n != 0 {
		t.Errorf("%d rows are left of it", n)
	}
	w.wantPaid(1)
	w.WantBalance(ledger.UserSats(w.authors[0]), 1000)
	w.wantAudited()
}

// After a standstill each day is paid with what was its own, though all are paid on the same day.
func TestMissedDaysArePaidEachFromItsOwnPool(t *testing.T) {
	t.Parallel()
	w := newRewardWorld(t, 3)
	pools := []struct{ credits, sats int64 }{{1000, 7}, {300, 0}, {0, 11}}
	for i, p := range pools {
		w.fill(p.credits, p.sats)
		w.vote(&w.authors[i], 5)
		w.Clock.Advance(day)
	}
	w.fill(77, 77) // of today
	w.wantPaid(3)
	for i, p := range pools {
		w.WantBalance(ledger.UserCredits(w.authors[i]), p.credits)
		w.WantBalance(ledger.UserSats(w.authors[i]), p.sats)
	}
	w.WantBalance(ledger.RewardCredits, 77)
	w.WantBalance(ledger.RewardSats, 77)
	w.wantAudited()
}

func TestADayWithoutContributorsLeavesItsPoolToTheNext(t *testing.T) {
	t.Parallel()
	w := newRewardWorld(t, 1)
	w.Clock.Advance(10 * day)
	w.wantPaid(0) // before there is anything there are no days
	w.fill(1000, 0)
	w.Clock.Advance(day)
	w.wantPaid(1)
	if n := w.Count(`SELECT count(*) FROM reward_day WHERE pool_credits_msat = 1000 AND paid_credits_msat = 0`); n != 1 {
		t.Error("the day is not recorded as unpaid")
	}
	w.fill(10, 0)
	w.vote(&w.authors[0], 1)
	w.Clock.Advance(day)
	w.wantPaid(1)
	w.WantBalance(ledger.UserCredits(w.authors[0]), 1010)
	w.wantAudited()
}

// A clock that was ahead has recorded days to come. The days until then are paid as ever, and what is left of those when they come goes to the next.
func TestDaysToComeHoldUpNoRewards(t *testing.T) {
	t.Parallel()
	w := newRewardWorld(t, 1)
	w.fill(1000, 0)
	w.vote(&w.authors[0], 1)
	w.Clock.Advance(10 * day)
	if _, err := w.pay(false); err != nil {
		t.Fatal(err)
	}
	w.Clock.Advance(-10 * day)
	for range 12 {
		w.Clock.Advance(day)
		if _, err := w.pay(false); err != nil {
			t.Fatal(err)
		}
		w.fill(10, 0)
		w.vote(&w.authors[0], 1)
	}
	if n := w.Count(`SELECT count(*) FROM reward`); n != 12-7 { // seven days were recorded
		t.Errorf("%d days were paid", n)
	}
	w.WantBalance(ledger.UserCredits(w.authors[0]), 1000+11*10)
	w.wantAudited()
}

// What is longer ago than the setting says is not paid any more for those days, and is not lost.
func TestOldDaysPassTheirPoolOn(t *testing.T) {
	t.Parallel()
	w := newRewardWorld(t, 2)
	w.fill(1000, 0)
	w.vote(&w.authors[0], 1)
	w.Clock.Advance(4 * day)
	w.vote(&w.authors[1], 1)
	w.Clock.Advance(7 * day)
	w.wantPaid(community.DefaultSettings().RewardDays)
	w.WantBalance(ledger.UserCredits(w.authors[0]), 0)
	w.WantBalance(ledger.UserCredits(w.authors[1]), 1000)
	w.wantAudited()
}

func TestOnlyTheTopContributorsShare(t *testing.T) {
	t.Parallel()
	w := newRewardWorld(t, 5)
	w.fill(100, 0)
	for i := range w.authors {
		w.vote(&w.authors[i], 10) // equal: the older account ranks first
	}
	w.Clock.Advance(day)
	w.payTop(2)
	for i, want := range []int64{50, 50, 0, 0, 0} {
		w.WantBalance(ledger.UserCredits(w.authors[i]), want)
	}
	w.wantAudited()
}

// Payments go on while a day is paid, and balances are folded, also those of the pool. None waits for the other.
func TestZapsGoOnWhileRewardsArePaid(t *testing.T) {
	t.Parallel()
	w := newRewardWorld(t, 2)
	payer := w.User("payer", 100_000*sat, 0)
	writer := w.User("writer", 1000*sat, 0)
	post := w.Post(writer, "a post")
	w.fill(12_345, 0)
	before := w.Balance(ledger.RewardCredits)
	w.vote(&w.authors[0], 2)
	w.vote(&w.authors[1], 1)
	w.Clock.Advance(day)

	const zaps = 20
	err := pgx.BeginFunc(w.Ctx, w.Pool, func(tx pgx.Tx) error {
		if _, err := community.PayRewards(w.Ctx, db.New(tx), w.Clock.Now(), community.DefaultSettings()); err != nil {
			return err
		}
		// The payout holds all of its locks, and the zaps are paid to the end.
		ctx, cancel := context.WithTimeout(w.Ctx, 20*time.Second)
		defer cancel()
		for range zaps {
			_, err := w.Engine.Pay(ctx, paidaction.Request{Kind: community.KindZap, Args: community.ZapArgs{Item: post, Sats: 10},
				Terms: paidaction.Terms{Method: paidaction.FeeCredit}, Caller: enginetest.Caller(payer)})
			if err != nil {
				return err
			}
		}
		return pgx.BeginFunc(ctx, w.Pool, func(tx pgx.Tx) error {
			_, err := ledger.Fold(ctx, db.New(tx), 1000)
			return err
		})
	})
	if err != nil {
		t.Fatal(err)
	}
	got := w.Balance(ledger.UserCredits(w.authors[0])) + w.Balance(ledger.UserCredits(w.authors[1]))
	if got != before {
		t.Errorf("%d msat were paid of the day's %d", got, before)
	}
	w.WantBalance(ledger.RewardCredits, zaps*3*sat) // the sybil fee of today's zaps
	w.wantAudited()
}

// Votes that were bought with credits take nothing of the sats, which can be withdrawn: credits never become sats. Those
// that were bought with sats take nothing of the credits either.
func TestAPoolIsDividedByTheVotesThatWerePaidInItsAsset(t *testing.T) {
	t.Parallel()
	w := newRewardWorld(t, 0)
	writer, friend, reader := w.User("writer", 100*sat, 0), w.User("friend", 2000*sat, 0), w.User("reader", 0, 1000*sat)
	honest := w.User("honest", 100*sat, 0)
	for i := range 20 { // ten credits are a whole vote, each time, and seven of them come back
		w.Pay(friend, community.KindZap, community.ZapArgs{Item: w.Post(writer, fmt.Sprint("post ", i)), Sats: 10}, paidaction.FeeCredit)
		w.Clock.Advance(15 * time.Minute) // a post soon after another costs more
	}
	w.Pay(reader, community.KindZap, community.ZapArgs{Item: w.Post(honest, "a post"), Sats: 10}, paidaction.RewardSats)
	w.fill(0, 10_000*sat)
	credits, sats := w.Balance(ledger.RewardCredits), w.Balance(ledger.RewardSats)
	before := []int64{w.Balance(ledger.UserCredits(writer)), w.Balance(ledger.UserCredits(honest))}
	w.Clock.Advance(day)
	w.wantPaid(1)
	w.WantBalance(ledger.UserSats(writer), 0)
	w.WantBalance(ledger.UserSats(honest), sats)
	w.WantBalance(ledger.UserCredits(writer), before[0]+credits)
	w.WantBalance(ledger.UserCredits(honest), before[1])
	w.wantAudited()
}

// Down-zaps as well count in the asset they were paid in, and what is below zero in one takes nothing from the other.
func TestVotesInBothAssetsShareEachPoolExactly(t *testing.T) {
	t.Parallel()
	w := newRewardWorld(t, 4)
	w.fill(1000, 100)
	a := w.authors
	w.voteIn(ledger.Credits, &a[0], 1_000_000)
	w.voteIn(ledger.Sats, &a[0], 4_000_000)
	w.voteIn(ledger.Credits, &a[1], 3_000_000)
	w.voteIn(ledger.Sats, &a[1], -1_000_000)
	w.voteIn(ledger.Credits, &a[2], 2_000_000)
	w.voteIn(ledger.Credits, &a[2], -500_000)
	w.voteIn(ledger.Credits, &a[3], -500_000)
	w.voteIn(ledger.Sats, &a[3], 2_000_000)
	w.voteIn(ledger.Sats, nil, 9_000_000)
	w.Clock.Advance(day)
	w.wantPaid(1)
	// 2 : 6 : 3 of 1,000 are 181.82, 545.45 and 272.73; 2 : 1 of 100 are 66.67 and 33.33.
	for i, want := range []struct{ credits, sats int64 }{{182, 67}, {545, 0}, {273, 0}, {0, 33}} {
		w.WantBalance(ledger.UserCredits(a[i]), want.credits)
		w.WantBalance(ledger.UserSats(a[i]), want.sats)
	}
	w.wantAudited()
}

// Credits decide nothing about the sats: neither do down-zaps that are paid with them take somebody's sats away, nor is
// somebody crowded out by others for whom they bought votes.
func TestCreditsDoNotDecideWhoSharesTheSats(t *testing.T) {
	t.Parallel()
	w := newRewardWorld(t, 4)
	w.fill(1000, 100)
	a := w.authors
	w.voteIn(ledger.Sats, &a[0], 3_000_000)
	w.voteIn(ledger.Credits, &a[0], -9_000_000)
	w.voteIn(ledger.Sats, &a[1], 1_000_000)
	w.voteIn(ledger.Credits, &a[1], 1_000_000)
	for _, bought := range a[2:] {
		w.voteIn(ledger.Credits, &bought, 50_000_000)
		w.voteIn(ledger.Sats, &bought, 1)
	}
	w.Clock.Advance(day)
	w.payTop(2)
	for i, want := range []struct{ credits, sats int64 }{{0, 75}, {0, 25}, {500, 0}, {500, 0}} {
		w.WantBalance(ledger.UserCredits(a[i]), want.credits)
		w.WantBalance(ledger.UserSats(a[i]), want.sats)
	}
	// Ranked by the votes that they share for.
	if n := w.Count(`SELECT count(*) FROM reward WHERE (user_id, rank, micros) IN (($1, 1, 50000000), ($2, 2, 50000000), ($3, 3, 3000000), ($4, 4, 1000000))`,
		a[2], a[3], a[0], a[1]); n != 4 {
		t.Errorf("%d of 4 rewards are recorded by their ranks", n)
	}
	w.wantAudited()
}

// What nobody has votes for in its asset is in the next day's pool, whatever the other pool pays.
func TestAPoolWithoutVotesInItsAssetStaysForTheNextDay(t *testing.T) {
	t.Parallel()
	w := newRewardWorld(t, 2)
	w.fill(1000, 100)
	w.voteIn(ledger.Credits, &w.authors[0], 1)
	w.Clock.Advance(day)
	w.wantPaid(1)
	w.fill(10, 1)
	w.voteIn(ledger.Sats, &w.authors[1], 1)
	w.Clock.Advance(day)
	w.wantPaid(1)
	for i, want := range []struct{ credits, sats int64 }{{1000, 0}, {0, 101}} {
		w.WantBalance(ledger.UserCredits(w.authors[i]), want.credits)
		w.WantBalance(ledger.UserSats(w.authors[i]), want.sats)
	}
	if n := w.Count(`SELECT count(*) FROM reward_day WHERE (day, paid_credits_msat, paid_sats_msat, pool_credits_msat, pool_sats_msat)
		IN (('2026-01-01', 1000, 0, 1000, 100), ('2026-01-02', 0, 101, 10, 101))`); n != 2 {
		t.Errorf("%d of 2 days are recorded as they were paid", n)
	}
	w.wantAudited()
}

// Of any pool and any weights: exact, never negative, and never less for one who weighs more.
func TestSharesOfRewards(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		pool := rapid.Int64Range(0, 1<<63-1).Draw(t, "pool")
		weights := rapid.SliceOfN(rapid.OneOf(rapid.Int64Range(0, 5), rapid.Int64Range(0, 1<<63-1)), 0, 100).Draw(t, "weights")
		shares := community.RewardShares(pool, weights)
		var sum int64
		for i, share := range shares {
			if share < 0 || share > pool || weights[i] == 0 && share > 0 {
				t.Fatalf("%d msat of %d for the weight %d", share, pool, weights[i])
			}
			for j, other := range shares {
				if weights[i] < weights[j] && share > other {
					t.Fatalf("the weight %d gets %d msat, the weight %d only %d", weights[i], share, weights[j], other)
				}
			}
			sum += share
		}
		if most := slices.Max(append(weights, 0)); most > 0 && sum != pool || most == 0 && sum != 0 {
			t.Fatalf("%d msat were shared of %d, by %d", sum, pool, weights)
		}
	})
}

// Of any history of days, some of them missed: each msat that came in is with an author or in the pool.
func TestRewardsOfAnyHistoryAreExact(t *testing.T) {
	t.Parallel()
	w := newRewardWorld(t, 4)
	var in int64
	rapid.Check(t, func(t *rapid.T) {
		credits, sats := rapid.Int64Range(0, 1000).Draw(t, "credits"), rapid.Int64Range(0, 1_000_000_007).Draw(t, "sats")
		w.fill(credits, sats)
		in += credits + sats
		for range rapid.IntRange(0, 6).Draw(t, "votes") {
			asset := rapid.SampledFrom([]ledger.Asset{ledger.Credits, ledger.Sats}).Draw(t, "asset")
			w.voteIn(asset, &w.authors[rapid.IntRange(0, 3).Draw(t, "author")], rapid.Int64Range(-1_000_000, 10_000_000).Draw(t, "micros"))
		}
		w.Clock.Advance(time.Duration(rapid.IntRange(0, 60).Draw(t, "hours")) * time.Hour)
		if rapid.Bool().Draw(t, "run") {
			if _, err := w.pay(false); err != nil {
				t.Fatal(err)
			}
		}
	})
	out := w.Balance(ledger.RewardCredits) + w.Balance(ledger.RewardSats)
	for _, a := range w.authors {
		out += w.Balance(ledger.UserCredits(a)) + w.Balance(ledger.UserSats(a))
	}
	if out != in {
		t.Errorf("%d msat came in, %d are there", in, out)
	}
	w.wantAudited()
}

// From the zap to the reward: what a day's zaps leave in the pool goes to those who were zapped, by their weight.
func TestZapsOfADayBecomeItsRewards(t *testing.T) {
	t.Parallel()
	w := newRewardWorld(t, 0)
	payer := w.User("payer", 2000*sat, 0)
	var authors []int64
	for i, sats := range []int64{1000, 10} { // log10 of them: 3 : 1
		author := w.User(fmt.Sprintf("zapped%d", i), sat, 0)
		authors = append(authors, author)
		w.Pay(payer, community.KindZap, community.ZapArgs{Item: w.Post(author, "a post"), Sats: sats}, paidaction.FeeCredit)
	}
	pool := w.Balance(ledger.RewardCredits)
	before := []int64{w.Balance(ledger.UserCredits(authors[0])), w.Balance(ledger.UserCredits(authors[1]))}
	if pool != 2*sat+303*sat {
		t.Fatalf("the pool holds %d msat", pool)
	}
	w.Clock.Advance(day)
	w.wantPaid(1)
	w.WantBalance(ledger.UserCredits(authors[0]), before[0]+pool*3/4)
	w.WantBalance(ledger.UserCredits(authors[1]), before[1]+pool/4)
	w.WantBalance(ledger.RewardCredits, 0)
	w.wantAudited()
}

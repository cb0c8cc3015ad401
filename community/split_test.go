package community_test

import (
	"fmt"
	"testing"

	"pgregory.net/rapid"

	"github.com/a-seed-a7aed72f/holdfast/community"
	"github.com/a-seed-a7aed72f/holdfast/internal/enginetest"
	"github.com/a-seed-a7aed72f/holdfast/ledger"
	"github.com/a-seed-a7aed72f/holdfast/paidaction"
)

// Of any zap, with any forwards, everybody gets what the formula of spec 02 §2.4 says, and together they get the zap.
func TestSplitsOfAnyZapSumExactly(t *testing.T) {
	t.Parallel()
	w := enginetest.New(t, paidaction.Settings{})
	founder, payer := w.User("founder", 0, 0), w.User("payer", 1e12, 0)
	territory(w, "bitcoin", founder)
	people := make([]int64, 5)
	for i := range people {
		people[i] = w.User(fmt.Sprint("friend", i), 0, 0)
	}
	posts := 0
	rapid.Check(t, func(rt *rapid.T) {
		posts++
		author := w.User(fmt.Sprint("author", posts), 10*sat, 0)
		args := community.ItemCreateArgs{Title: "a post", Territory: "bitcoin"}
		left := 100
		for i := range rapid.IntRange(0, len(people)).Draw(rt, "forwardees") {
			if pct := rapid.IntRange(1, 100).Draw(rt, "pct"); pct <= left {
				args.Forwards = append(args.Forwards, community.Forward{User: people[i], Pct: pct})
				left -= pct
			}
		}
		post := w.Item(w.Pay(author, community.KindItemCreate, args, paidaction.FeeCredit))
		sats := rapid.Int64Range(1, 100_000).Draw(rt, "sats")
		holders := append([]int64{author, founder}, people...)
		before := map[int64]int64{}
		for _, u := range holders {
			before[u] = w.Balance(ledger.UserCredits(u))
		}
		rewards := w.Balance(ledger.RewardCredits)
		w.Pay(payer, community.KindZap, community.ZapArgs{Item: post, Sats: sats}, paidaction.FeeCredit)

		cost := sats * sat
		fee := cost * 30 / 100
		share := cost - fee
		want := map[int64]int64{author: share, founder: fee * 70 / 100}
		for _, f := range args.Forwards {
			part := share * int64(f.Pct) / 100
			want[f.User] = part
			want[author] -= part
		}
		given := w.Balance(ledger.RewardCredits) - rewards
		if given != fee-want[founder] {
			rt.Errorf("the rewards got %d of a fee of %d", given, fee)
		}
		for _, u := range holders {
			got := w.Balance(ledger.UserCredits(u)) - before[u]
			if got != want[u] || got < 0 {
				rt.Errorf("user %d got %d of %d, want %d", u, got, cost, want[u])
			}
			given += got
		}
		if given != cost {
			rt.Errorf("%d msat of %d were given", given, cost)
		}
	})
	w.WantConserved()
}

package community_test

import (
	"github.com/a-seed-a7aed72f/holdfast/community"
	"github.com/a-seed-a7aed72f/holdfast/internal/enginetest"
	"github.com/a-seed-a7aed72f/holdfast/ledger"
	"github.com/a-seed-a7aed72f/holdfast/paidaction"
)

// Neither the author, nor those they forward to, nor the founder of the territory earns by a down-zap.
func downZapScene(w *enginetest.World, _ int64, m paidaction.Method) *scene {
	author, forwardee := w.User("author", 100*sat, 0), w.User("forwardee", 0, 0)
	territory(w, "bitcoin", w.User("founder", 0, 0))
	post := w.Item(w.Pay(author, community.KindItemCreate, community.ItemCreateArgs{Title: "a post", Territory: "bitcoin",
		Forwards: []community.Forward{{User: forwardee, Pct: 33}}}, paidaction.FeeCredit))
	return &scene{
		args: community.ZapArgs{Item: post, Sats: 101}, cost: 101 * sat,
		paid: map[ledger.Account]int64{ledger.Rewards(assetOf(m)): 101 * sat},
		see:  seeItems(w, post), told: []int64{author},
	}
}

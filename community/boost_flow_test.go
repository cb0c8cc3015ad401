package community_test

import (
	"github.com/a-seed-a7aed72f/holdfast/community"
	"github.com/a-seed-a7aed72f/holdfast/internal/enginetest"
	"github.com/a-seed-a7aed72f/holdfast/ledger"
	"github.com/a-seed-a7aed72f/holdfast/paidaction"
)

// Somebody boosts a post that is not theirs. It is a fee, and nobody is told.
func boostScene(w *enginetest.World, _ int64, m paidaction.Method) *scene {
	author, founder := w.User("author", 100*sat, 0), w.User("founder", 0, 0)
	territory(w, "bitcoin", founder)
	post := w.Item(w.Pay(author, community.KindItemCreate, community.ItemCreateArgs{Title: "a post", Territory: "bitcoin"}, paidaction.FeeCredit))
	return &scene{
		args: community.BoostArgs{Item: post, Sats: 5001}, cost: 5001 * sat,
		paid:  map[ledger.Account]int64{ledger.User(founder, assetOf(m)): 3_500_700, ledger.Rewards(assetOf(m)): 1_500_300},
		see:   seeItems(w, post),
		spoil: func() { mustExec(w, `UPDATE item SET deleted_at = $2 WHERE id = $1`, post, w.Clock.Now()) },
	}
}

package community_test

import (
	"github.com/a-seed-a7aed72f/holdfast/community"
	"github.com/a-seed-a7aed72f/holdfast/internal/enginetest"
	"github.com/a-seed-a7aed72f/holdfast/ledger"
	"github.com/a-seed-a7aed72f/holdfast/paidaction"
)

// A comment in a territory, which names somebody, below a post whose author hears of it.
func itemCreateScene(w *enginetest.World, payer int64, m paidaction.Method) *scene {
	author, named, founder := w.User("author", 100*sat, 0), w.User("named", 0, 0), w.User("founder", 0, 0)
	territory(w, "bitcoin", founder)
	post := w.Item(w.Pay(author, community.KindItemCreate, community.ItemCreateArgs{Title: "a post", Territory: "bitcoin"}, paidaction.FeeCredit))
	s := &scene{
		args: community.ItemCreateArgs{Body: "well said, @named", Parent: post}, cost: 2 * sat,
		see: seeItems(w, post), told: []int64{author, named},
		spoil: func() { mustExec(w, `UPDATE item SET deleted_at = $2 WHERE id = $1`, post, w.Clock.Now()) },
	}
	if payer == 0 {
		s.cost = 20 * sat
	}
	s.paid = map[ledger.Account]int64{ledger.User(founder, assetOf(m)): int64(s.cost) * 7 / 10, ledger.Rewards(assetOf(m)): int64(s.cost) * 3 / 10}
	return s
}

package community_test

import (
	"github.com/jackc/pgx/v5"

	"github.com/a-seed-a7aed72f/holdfast/community"
	"github.com/a-seed-a7aed72f/holdfast/internal/db"
	"github.com/a-seed-a7aed72f/holdfast/internal/enginetest"
	"github.com/a-seed-a7aed72f/holdfast/ledger"
	"github.com/a-seed-a7aed72f/holdfast/paidaction"
)

// assetOf is what a method pays with.
func assetOf(m paidaction.Method) ledger.Asset {
	if m == paidaction.FeeCredit {
		return ledger.Credits
	}
	return ledger.Sats
}

// seeItems is what somebody sees of these items and of their comments.
func seeItems(w *enginetest.World, ids ...int64) func(*int64) any {
	return func(viewer *int64) any {
		q := db.New(w.Pool)
		found, err := w.Pool.Query(w.Ctx, `SELECT id FROM item WHERE id = ANY($1) OR parent_id = ANY($1) ORDER BY id`, ids)
		if err != nil {
			w.Fatal(err)
		}
		all, err := pgx.CollectRows(found, pgx.RowTo[int64])
		if err != nil {
			w.Fatal(err)
		}
		rows, err := q.ItemsByID(w.Ctx, db.ItemsByIDParams{Ids: all, Viewer: viewer})
		if err != nil {
			w.Fatal(err)
		}
		posts, err := q.NewPosts(w.Ctx, db.NewPostsParams{Before: 1 << 60, Page: 100})
		if err != nil {
			w.Fatal(err)
		}
		return []any{rows, posts}
	}
}

func zapScene(w *enginetest.World, _ int64, m paidaction.Method) *scene {
	author, forwardee, founder := w.User("author", 100*sat, 0), w.User("forwardee", 0, 0), w.User("founder", 0, 0)
	territory(w, "bitcoin", founder)
	post := w.Item(w.Pay(author, community.KindItemCreate, community.ItemCreateArgs{Title: "a post", Territory: "bitcoin",
		Forwards: []community.Forward{{User: forwardee, Pct: 33}}}, paidaction.FeeCredit))
	asset := assetOf(m)
	s := &scene{
		args: community.ZapArgs{Item: post, Sats: 101}, cost: 101 * sat,
		// 30 % of 101 sats is the fee, of which 30 % goes to the rewards; of what is left a third, rounded down, is the forwardee's.
		paid: map[ledger.Account]int64{
			ledger.UserCredits(author): 47_369, ledger.UserCredits(forwardee): 23_331,
			ledger.User(founder, asset): 21_210, ledger.Rewards(asset): 9_090},
		see: seeItems(w, post), told: []int64{author, forwardee}, receiver: author,
		spoil: func() { mustExec(w, `UPDATE item SET deleted_at = $2 WHERE id = $1`, post, w.Clock.Now()) },
	}
	if m == paidaction.P2P {
		s.wallet = w.Wallets.Add(author)
		// The author, whose share is the largest, gets it in their own wallet. Of the fee 3,030 msat were set aside for routing, which took
		// 1 sat; what it did not take goes to the rewards.
		s.paid = map[ledger.Account]int64{ledger.Lightning: 47_369 + 1_000, ledger.UserCredits(forwardee): 23_331,
			ledger.UserSats(founder): 19_089, ledger.RewardSats: 8_181 + 2_030}
	}
	return s
}

func mustExec(w *enginetest.World, sql string, args ...any) {
	w.Helper()
	if _, err := w.Pool.Exec(w.Ctx, sql, args...); err != nil {
		w.Fatal(err)
	}
}

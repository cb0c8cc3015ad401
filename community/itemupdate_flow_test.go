package community_test

import (
	"github.com/a-seed-a7aed72f/holdfast/community"
	"github.com/a-seed-a7aed72f/holdfast/internal/db"
	"github.com/a-seed-a7aed72f/holdfast/internal/enginetest"
	"github.com/a-seed-a7aed72f/holdfast/ledger"
	"github.com/a-seed-a7aed72f/holdfast/paidaction"
)

// A post in a territory gets another text, which names somebody, and a picture, unless it is for nothing.
func itemUpdateScene(w *enginetest.World, payer int64, m paidaction.Method) *scene {
	named, founder := w.User("named", 0, 0), w.User("founder", 0, 0)
	territory(w, "bitcoin", founder)
	how := paidaction.Optimistic
	if payer == 0 {
		how = paidaction.Pessimistic
	}
	made := w.Pay(payer, community.KindItemCreate, community.ItemCreateArgs{Title: "a post", Territory: "bitcoin"}, how)
	payInvoice(w, made)
	w.Drain()
	post := w.Item(w.WantState(made.ID, paidaction.Paid))
	args := community.ItemUpdateArgs{Item: post, Body: new("see @named")}
	s := &scene{
		secret: made.Secret, told: []int64{named}, see: seeWithUploads(w, post),
		spoil: func() { mustExec(w, `UPDATE item SET deleted_at = $2 WHERE id = $1`, post, w.Clock.Now()) },
	}
	if m != paidaction.ZeroCost {
		u := send(w, payer)
		s.cost = 100 * sat
		mustExec(w, `UPDATE upload SET fee_msat = $1`, s.cost)
		args.Uploads = []int64{u.ID}
		s.paid = map[ledger.Account]int64{ledger.User(founder, assetOf(m)): 70 * sat, ledger.Rewards(assetOf(m)): 30 * sat}
	}
	s.args = args
	return s
}

// seeWithUploads is what somebody sees of an item, of what it carries, and of what it will say.
func seeWithUploads(w *enginetest.World, item int64) func(*int64) any {
	see := seeItems(w, item)
	return func(viewer *int64) any {
		q := db.New(w.Pool)
		uploads, err := q.UploadsOfItems(w.Ctx, db.UploadsOfItemsParams{ItemIds: []int64{item}, Viewer: viewer})
		if err != nil {
			w.Fatal(err)
		}
		edits, err := q.PendingEditsOf(w.Ctx, db.PendingEditsOfParams{ItemIds: []int64{item}, AuthorID: viewer})
		if err != nil {
			w.Fatal(err)
		}
		return []any{see(viewer), uploads, edits}
	}
}

package simulate

import (
	"slices"
	"time"

	"github.com/a-seed-a7aed72f/holdfast/internal/simulate/simdb"
)

// boosted is a paid boost.
type boosted struct {
	item, msat int64
	paid       time.Time
}

func (m *model) boost(a *attempt, item, msat int64) {
	if msat > 0 {
		m.boosts[a.id] = boosted{item, msat, a.changed}
		m.tally(item).boostMsat += msat
	}
}

// early is how much too early the clocks of processes let something happen.
const early = 9 * time.Second

// overdue reports whether a chore has left undone what was due at a moment.
func (m *model) overdue(chore string, due time.Time) bool {
	done, ok := m.done[chore]
	return ok && done.Sub(due) > time.Minute
}

// expireBoosts takes off expired boosts, before the items are checked. It checks that each boost exists once, and was
// taken off once, when its time was over.
func (m *model) expireBoosts() error {
	w := m.world
	rows, err := w.database.queries().PaidBoosts(w.ctx)
	if err != nil {
		return err
	}
	for _, r := range rows {
		b, ok := m.boosts[r.ActionID]
		if !ok || b.item != r.ItemID || b.msat != r.Msat {
			w.violate("boost", "action %d boosts item %d with %d msat, and should boost %d with %d", r.ActionID, r.ItemID, r.Msat, b.item, b.msat)
		}
		if !r.PaidAt.Equal(b.paid) || !r.ExpiresAt.Equal(b.paid.Add(boostLasts)) {
			w.violate("boost", "the boost of action %d counts from %s until %s, and was paid at %s", r.ActionID, r.PaidAt, r.ExpiresAt, b.paid)
		}
		switch {
		case r.ExpiredAt == nil && m.overdue(expiresBoosts, r.ExpiresAt):
			w.violate("boost", "the boost of action %d has expired at %s, and still counts", r.ActionID, r.ExpiresAt)
		case r.ExpiredAt != nil && r.ExpiredAt.Before(r.ExpiresAt):
			w.violate("boost", "the boost of action %d was taken off at %s, and lasts until %s", r.ActionID, r.ExpiredAt, r.ExpiresAt)
		case r.ExpiredAt != nil:
			m.tally(r.ItemID).boostMsat -= b.msat
		}
	}
	if len(rows) != len(m.boosts) {
		w.violate("boost", "%d boosts are paid, and should be %d", len(rows), len(m.boosts))
	}
	return nil
}

// checkFiles: a file that a paid action names is shown with its item, a file that no item carries is deleted in time,
// and the fee of each file was right for the order of the uploads.
func (m *model) checkFiles() error {
	w := m.world
	rows, err := w.database.queries().Uploads(w.ctx)
	if err != nil {
		return err
	}
	fees := map[int64][]int64{} // by owner
	for _, r := range rows {
		if r.OwnerID == nil {
			if r.FeeMsat != anonymousFee {
				w.violate("file", "the file %d of the anonymous costs %d msat", r.ID, r.FeeMsat)
			}
		} else {
			fees[*r.OwnerID] = append(fees[*r.OwnerID], r.FeeMsat)
		}
		if r.ItemID == nil && m.overdue(sweepsFiles, r.UnclaimedAt.Add(keepUploads)) {
			w.violate("file", "no item has carried the file %d since %s, and it is there still", r.ID, r.UnclaimedAt)
		}
		if r.PaidAt != nil && !slices.ContainsFunc(m.attempts, func(a *attempt) bool { return a.id == *r.ActionID && a.state == "PAID" && a.carries(r.ID) }) {
			w.violate("file", "the file %d is shown, and nobody has paid for it", r.ID)
		}
	}
	// When the last file came, the others were there.
	for owner, all := range fees {
		slices.Sort(all)
		for i, fee := range all {
			if least := uploadFee(int64(i+1) * fileBytes); fee < least {
				w.violate("file", "the files of user %d cost %v msat, and the %dth should cost %d", owner, all, i+1, least)
			}
		}
	}
	for _, a := range m.attempts {
		if a.state != "PAID" || a.args["uploads"] == nil {
			continue
		}
		for id := range a.request.files {
			if !slices.ContainsFunc(rows, func(r simdb.UploadsRow) bool {
				return r.ID == id && r.PaidAt != nil && r.PaidAt.Equal(a.changed) && *r.ItemID == a.item && *r.ActionID == a.id
			}) {
				w.violate("file", "action %d is paid, and its file %d is not shown with item %d", a.id, id, a.item)
			}
		}
	}
	return nil
}

// carries reports whether an action names a file.
func (a *attempt) carries(file int64) bool {
	if a.request == nil || a.args["uploads"] == nil {
		return false
	}
	_, ok := a.request.files[file]
	return ok
}

// checkGifts: the invite was used by as many users as have got its gift, each once, and by no more than it is for.
func (m *model) checkGifts() error {
	w := m.world
	rows, err := w.database.queries().Redemptions(w.ctx)
	if err != nil {
		return err
	}
	used, err := w.database.queries().InviteUsed(w.ctx)
	if err != nil {
		return err
	}
	given := map[int64]int64{}
	for _, a := range m.gifts {
		user := number(a.args["user"])
		if given[user] != 0 {
			w.violate("gift", "user %d got the gifts of actions %d and %d", user, given[user], a.id)
		}
		given[user] = a.id
	}
	for _, r := range rows {
		if given[r.UserID] != r.ActionID {
			w.violate("gift", "user %d has redeemed the invite by action %d, which gave nothing", r.UserID, r.ActionID)
		}
	}
	if n := int64(len(m.gifts)); used != n || n > giftLimit || len(rows) != len(m.gifts) {
		w.violate("gift", "%d gifts were given of %d, %d uses are counted, %d people have redeemed", n, giftLimit, used, len(rows))
	}
	return nil
}

package simulate

import (
	"cmp"
	"maps"
	"slices"
	"time"

	"github.com/a-seed-a7aed72f/holdfast/internal/simulate/simdb"
)

// pooling is one action's postings into the rewards in one asset.
type pooling struct{ action, account int64 }

// reward is what somebody gets of a day's rewards, in the order of the two accounts.
type reward struct {
	user, micros int64
	voted        [2]int64 // what was paid in each asset of the votes
	msat         [2]int64
}

var pools = [2]int64{rewardCreditsAccount, rewardSatsAccount}

// checkRewards: each day that has ended is paid once. All that was in the pool of an asset at its end goes to those
// whose items gained votes on that day, in proportion to what they gained by zaps in this asset; if nobody did, it stays.
func (m *model) checkRewards() error {
	w := m.world
	q := w.database.queries()
	moved, err := q.IntoRewards(w.ctx)
	if err != nil {
		return err
	}
	days, err := q.RewardDays(w.ctx)
	if err != nil {
		return err
	}
	found, err := q.Rewards(w.ctx)
	if err != nil {
		return err
	}
	m.checkPooled(moved)
	day := epoch.Truncate(24 * time.Hour)
	held := m.pool
	for _, d := range days {
		if !d.Day.Equal(day) {
			w.violate("reward", "the rewards of %s are paid, and those of %s should be", d.Day, day)
			return nil
		}
		for _, in := range moved {
			if in.ActionID > m.last && !in.At.Before(day) && in.At.Before(day.AddDate(0, 0, 1)) {
				held[in.Account] += in.Msat
			}
		}
		mine := slices.DeleteFunc(slices.Clone(found), func(r simdb.Reward) bool { return !r.Day.Equal(day) })
		if err := m.checkDay(d, mine, held); err != nil {
			return err
		}
		day = day.AddDate(0, 0, 1)
	}
	if m.overdue(paysRewards, day.AddDate(0, 0, 1).Add(2*time.Minute)) {
		w.violate("reward", "the rewards of %s were not paid", day)
	}
	return nil
}

// checkPooled: the postings into the rewards are exactly those booked here.
func (m *model) checkPooled(moved []simdb.IntoRewardsRow) {
	left := map[pooling]int64{}
	for key, msat := range m.pooled {
		left[key] = msat
	}
	for _, in := range moved {
		if in.ActionID > m.last {
			left[pooling{in.ActionID, in.Account}] -= in.Msat
		}
	}
	for key, msat := range left {
		if msat != 0 {
			m.world.violate("reward", "action %d has moved %d msat too little into account %d", key.action, msat, key.account)
		}
	}
}

// checkDay compares what one day has paid with the pool that it had, and moves the money in the model.
func (m *model) checkDay(d simdb.RewardDay, found []simdb.Reward, held map[int64]int64) error {
	w := m.world
	recorded := [2]int64{d.PoolCreditsMsat, d.PoolSatsMsat}
	paid := [2]int64{d.PaidCreditsMsat, d.PaidSatsMsat}
	want, err := m.winners(d.Day)
	if err != nil {
		return err
	}
	var sums [2]int64
	for i, account := range pools {
		pool := held[account]
		if !m.sure {
			pool = min(pool, recorded[i]) // what was being committed belongs to the next day
		}
		voted := slices.ContainsFunc(want, func(r reward) bool { return r.voted[i] > 0 })
		if recorded[i] != pool || paid[i] != pool && (paid[i] != 0 || m.sure && voted) {
			w.violate("reward", "on %s there were %d msat in account %d; %d are recorded, and %d were paid", d.Day, pool, account, recorded[i], paid[i])
		}
		divide(paid[i], i, want)
		held[account] -= paid[i]
		m.balances[account] -= paid[i]
	}
	for _, r := range found {
		got := reward{user: r.UserID, micros: r.Micros, msat: [2]int64{r.CreditsMsat, r.SatsMsat}}
		is := func(due reward) bool { return due.user == got.user && due.micros == got.micros && due.msat == got.msat }
		if m.sure && !slices.ContainsFunc(want, is) {
			w.violate("reward", "user %d got %+v, and should have got one of %+v", r.UserID, got, want)
		}
		for i := range pools {
			sums[i] += got.msat[i]
		}
		m.balances[r.UserID*16+1] += r.CreditsMsat
		m.balances[r.UserID*16] += r.SatsMsat
	}
	if sums != paid {
		w.violate("reward", "on %s %v msat were given to people, and %v were paid", d.Day, sums, paid)
	}
	return nil
}

// winners are those whose items gained votes on a day, in order of rank. Each vote has been checked against the zaps
// before.
func (m *model) winners(day time.Time) ([]reward, error) {
	events, err := m.world.database.queries().VoteEvents(m.world.ctx)
	if err != nil {
		return nil, err
	}
	gained := map[int64]*reward{}
	for _, e := range events {
		if e.AuthorID == nil || e.At.Before(day) || !e.At.Before(day.AddDate(0, 0, 1)) {
			continue
		}
		if gained[*e.AuthorID] == nil {
			gained[*e.AuthorID] = &reward{user: *e.AuthorID}
		}
		r, asset := gained[*e.AuthorID], 1
		if e.Credits {
			asset = 0
		}
		r.voted[asset] += e.Micros
	}
	var all []reward
	for _, user := range slices.Sorted(maps.Keys(gained)) {
		r := gained[user]
		r.voted = [2]int64{max(r.voted[0], 0), max(r.voted[1], 0)}
		if r.micros = r.voted[0] + r.voted[1]; r.micros > 0 {
			all = append(all, *r)
		}
	}
	slices.SortStableFunc(all, func(a, b reward) int { return cmp.Compare(b.micros, a.micros) })
	return all, nil
}

// divide gives everybody the whole msat of their part, and one msat more to those with the largest remainders until all
// is given.
func divide(pool int64, asset int, among []reward) {
	total := int64(0)
	for _, r := range among {
		total += r.voted[asset]
	}
	if total == 0 {
		return
	}
	left := pool
	order := make([]int, len(among))
	for i, r := range among {
		among[i].msat[asset] = pool * r.voted[asset] / total
		left -= among[i].msat[asset]
		order[i] = i
	}
	slices.SortStableFunc(order, func(i, j int) int {
		return cmp.Compare(pool*among[j].voted[asset]%total, pool*among[i].voted[asset]%total)
	})
	for _, i := range order[:min(int(left), len(order))] {
		among[i].msat[asset]++
	}
}

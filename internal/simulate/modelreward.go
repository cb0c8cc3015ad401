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
	msat         [2]int64
}

var pools = [2]int64{rewardCreditsAccount, rewardSatsAccount}

// checkRewards: each day that has ended is paid once. All that was in the pool at its end goes to those whose items
// gained votes on that day, in proportion to the gain.
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
		if recorded[i] != pool || paid[i] != pool && (len(found) > 0 || m.sure && len(want) > 0) {
			w.violate("reward", "on %s there were %d msat in account %d; %d are recorded, and %d were paid", d.Day, pool, account, recorded[i], paid[i])
		}
		divide(paid[i], i, want)
		held[account] -= paid[i]
		m.balances[account] -= paid[i]
	}
	for _, r := range found {
		got := reward{r.UserID, r.Micros, [2]int64{r.CreditsMsat, r.SatsMsat}}
		if m.sure && !slices.Contains(want, got) {
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
	gained := map[int64]int64{}
	for _, e := range events {
		if e.AuthorID != nil && !e.At.Before(day) && e.At.Before(day.AddDate(0, 0, 1)) {
			gained[*e.AuthorID] += e.Micros
		}
	}
	var all []reward
	for _, user := range slices.Sorted(maps.Keys(gained)) {
		if gained[user] > 0 {
			all = append(all, reward{user: user, micros: gained[user]})
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
		total += r.micros
	}
	left := pool
	order := make([]int, len(among))
	for i, r := range among {
		among[i].msat[asset] = pool * r.micros / total
		left -= among[i].msat[asset]
		order[i] = i
	}
	slices.SortStableFunc(order, func(i, j int) int {
		return cmp.Compare(pool*among[j].micros%total, pool*among[i].micros%total)
	})
	for _, i := range order[:min(int(left), len(order))] {
		among[i].msat[asset]++
	}
}

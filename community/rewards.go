package community

import (
	"context"
	"fmt"
	"math/big"
	"slices"
	"time"

	"github.com/a-seed-a7aed72f/holdfast/internal/db"
	"github.com/a-seed-a7aed72f/holdfast/ledger"
)

// settling is how long a day is left alone after it has ended, so that payments made at midnight can commit. What
// commits later than that is in the next day's pool.
const settling = 2 * time.Minute

// PayRewards hands out the rewards pool of each day (UTC) that has ended and is not yet paid, oldest first, inside the
// caller's transaction, and returns how many days that were. A day's pool goes, in each asset, entirely to the authors
// whose items gained most of the weighted votes on that day (spec 02 §2.4), by the votes that were paid in this asset.
// If nobody has such votes, it stays for the next day. Anybody may call it at any time: no day is paid twice (spec
// 05.13), and while somebody pays, others do nothing.
func PayRewards(ctx context.Context, q *db.Queries, now time.Time, s Settings) (days int, err error) {
	// Payouts run one after the other, so that the next day and the contents of the pool stay the same until the commit.
	// None waits for another: its time would be over before its own work has begun. The rows of the pool are not locked:
	// folds would wait for them.
	held, err := q.HoldRewards(ctx)
	if err != nil {
		return 0, fmt.Errorf("hold the rewards: %w", err)
	}
	if !held {
		return 0, nil
	}
	today := midnight(now.Add(-settling))
	first, err := q.FirstUnrewardedDay(ctx, today)
	if err != nil {
		return 0, fmt.Errorf("find the first day without rewards: %w", err)
	}
	// What older days left in the pool is still in it.
	if oldest := today.AddDate(0, 0, -s.RewardDays); first.Before(oldest) {
		first = oldest
	}
	for day := first; day.Before(today); day = day.AddDate(0, 0, 1) {
		if err := payDay(ctx, q, day, now, s.RewardTop); err != nil {
			return days, fmt.Errorf("pay the rewards of %s: %w", dayName(day), err)
		}
		days++
	}
	return days, nil
}

func midnight(t time.Time) time.Time { return t.UTC().Truncate(24 * time.Hour) }

func dayName(day time.Time) string { return day.Format(time.DateOnly) }

// payDay hands out one day's pool: postings, rows and notifications.
func payDay(ctx context.Context, q *db.Queries, day, now time.Time, most int) error {
	next := day.AddDate(0, 0, 1)
	top, err := q.TopContributors(ctx, db.TopContributorsParams{Since: day, Until: next, Top: int64(most)})
	if err != nil {
		return fmt.Errorf("find the contributors: %w", err)
	}
	pools, err := q.RewardPools(ctx, next)
	if err != nil {
		return fmt.Errorf("read the pool: %w", err)
	}
	record := db.InsertRewardDayParams{Day: day, PaidAt: now}
	for _, p := range pools {
		if ledger.Account(p.ID) == ledger.RewardCredits {
			record.PoolCreditsMsat = p.Msat
		} else {
			record.PoolSatsMsat = p.Msat
		}
	}
	// Else votes that were bought with credits would be paid for with sats, which can be withdrawn.
	credits := RewardShares(record.PoolCreditsMsat, weights(top, func(c db.TopContributorsRow) int64 { return c.CreditMicros }))
	sats := RewardShares(record.PoolSatsMsat, weights(top, func(c db.TopContributorsRow) int64 { return c.SatMicros }))
	record.PaidCreditsMsat, record.PaidSatsMsat = sum(credits), sum(sats)
	// The key of this row refuses a second payout, whatever else may go wrong. If the day was recorded early, by a
	// clock that was ahead, its pool goes to the next day.
	n, err := q.InsertRewardDay(ctx, record)
	if err != nil {
		return fmt.Errorf("insert the day: %w", err)
	}
	if n == 0 {
		return nil
	}
	return handOut(ctx, q, record, top, credits, sats)
}

func weights(top []db.TopContributorsRow, of func(db.TopContributorsRow) int64) []int64 {
	all := make([]int64, len(top))
	for i, c := range top {
		all[i] = of(c)
	}
	return all
}

func sum(shares []int64) (msat int64) {
	for _, share := range shares {
		msat += share
	}
	return msat
}

// handOut gives everybody their shares of what a day pays.
func handOut(ctx context.Context, q *db.Queries, day db.InsertRewardDayParams, top []db.TopContributorsRow, credits, sats []int64) error {
	rows := db.InsertRewardsParams{Day: day.Day}
	var transfers []ledger.Transfer
	for i, c := range top {
		if credits[i] == 0 && sats[i] == 0 {
			continue // less than one msat in both assets, or no votes that were paid in one of which there is some
		}
		rows.Users, rows.Ranks, rows.Micros = append(rows.Users, c.AuthorID), append(rows.Ranks, int64(i+1)), append(rows.Micros, c.Micros)
		rows.Credits, rows.Sats = append(rows.Credits, credits[i]), append(rows.Sats, sats[i])
		give := func(asset ledger.Asset, msat int64) {
			if msat > 0 {
				transfers = append(transfers, ledger.Transfer{From: ledger.Rewards(asset), To: ledger.User(c.AuthorID, asset), Msat: msat,
					Reason: "reward of " + dayName(day.Day)}) // the audit relies on this text
			}
		}
		give(ledger.Credits, credits[i])
		give(ledger.Sats, sats[i])
	}
	if len(transfers) == 0 {
		return nil
	}
	if err := q.InsertRewards(ctx, rows); err != nil {
		return fmt.Errorf("insert the rewards: %w", err)
	}
	err := q.InsertDayNotifications(ctx, db.InsertDayNotificationsParams{Users: rows.Users, Kind: "REWARD", Day: day.Day, At: day.PaidAt})
	if err != nil {
		return fmt.Errorf("insert the notifications: %w", err)
	}
	return ledger.Post(ctx, q, nil, day.PaidAt, transfers)
}

// RewardShares divides a pool among weights, none of them below zero. Each gets floor(pool × weight ÷ sum of weights).
// What is left, less than one msat each, goes to the largest remainders, among equal ones to the first. The shares sum
// to the pool exactly, or to nothing where nobody weighs anything; a larger weight never gets less than a smaller one,
// and zero gets nothing.
func RewardShares(pool int64, weights []int64) []int64 {
	shares, remainders, order := make([]int64, len(weights)), make([]*big.Int, len(weights)), make([]int, len(weights))
	total := new(big.Int)
	for _, w := range weights {
		total.Add(total, big.NewInt(w))
	}
	if total.Sign() == 0 {
		return shares
	}
	left := pool
	for i, w := range weights {
		product := new(big.Int).Mul(big.NewInt(pool), big.NewInt(w)) // up to 126 bits
		share, remainder := product.QuoRem(product, total, new(big.Int))
		shares[i], remainders[i], order[i] = share.Int64(), remainder, i
		left -= shares[i]
	}
	slices.SortStableFunc(order, func(i, j int) int { return remainders[j].Cmp(remainders[i]) })
	for _, i := range order[:left] {
		shares[i]++
	}
	return shares
}

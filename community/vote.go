package community

import (
	"cmp"
	"context"
	"fmt"
	"maps"
	"math"
	"slices"
	"time"

	"github.com/a-seed-a7aed72f/holdfast/internal/db"
	"github.com/a-seed-a7aed72f/holdfast/paidaction"
)

// ballot is what a paid zap of a known person does to their vote on an item.
type ballot struct {
	tx     *paidaction.Tx
	item   int64
	author *int64 // of the item
	votes  int64  // 1 at the first time
	micros int64  // what it changes of the weighted vote, below zero where that goes down
}

// total names what one person has zapped one item with, in one direction.
type total struct{ item, user int64 }

func (b *ballot) total() total { return total{b.item, *b.tx.Payer} }

// vote adds what was paid to what its payers have zapped the items with, up or down, and says what that changes: one vote at the
// first time, and the difference of the weighted vote in millionths. The difference is also recorded by itself, for whoever asks
// what was voted when. All belong to one transaction.
func vote(ctx context.Context, q *db.Queries, at time.Time, down bool, ballots ...*ballot) error {
	if len(ballots) == 0 {
		return nil
	}
	before, trust, err := addTotals(ctx, q, down, ballots)
	if err != nil {
		return err
	}
	events := db.InsertVoteEventsParams{At: at}
	for _, b := range ballots {
		was := before[b.total()]
		now := was + b.tx.Cost
		before[b.total()] = now
		if was == 0 {
			b.votes = 1
		}
		b.micros = Vote(now, trust[*b.tx.Payer]) - Vote(was, trust[*b.tx.Payer])
		if down {
			b.micros = -b.micros
		}
		author := int64(0)
		if b.author != nil {
			author = *b.author
		}
		events.ActionIds, events.ItemIds = append(events.ActionIds, b.tx.Action), append(events.ItemIds, b.item)
		events.Authors, events.Micros = append(events.Authors, author), append(events.Micros, b.micros)
	}
	if err := q.InsertVoteEvents(ctx, events); err != nil {
		return fmt.Errorf("record the votes: %w", err)
	}
	return nil
}

// addTotals adds to the totals, and returns what each was before and how much each person's vote weighs.
func addTotals(ctx context.Context, q *db.Queries, down bool, ballots []*ballot) (before map[total]paidaction.Msat, trust map[int64]int64, err error) {
	added := map[total]paidaction.Msat{}
	for _, b := range ballots {
		added[b.total()] += b.tx.Cost
	}
	keys := slices.SortedFunc(maps.Keys(added), func(x, y total) int { return cmp.Or(cmp.Compare(x.item, y.item), cmp.Compare(x.user, y.user)) })
	params := db.AddZapTotalsParams{Down: down}
	for _, k := range keys {
		params.ItemIds, params.Users = append(params.ItemIds, k.item), append(params.Users, k.user)
		params.Msats = append(params.Msats, int64(added[k]))
	}
	rows, err := q.AddZapTotals(ctx, params)
	if err != nil {
		return nil, nil, fmt.Errorf("add to the payers' zaps: %w", err)
	}
	before, trust = map[total]paidaction.Msat{}, map[int64]int64{}
	for _, row := range rows {
		k := total{row.ItemID, row.UserID}
		before[k], trust[k.user] = paidaction.Msat(row.Msat)-added[k], row.TrustMicros
	}
	return before, trust, nil
}

// Vote is the weight of one person's zaps on one item in one direction, in millionths: log10(total in sats, at least 1) × trust.
// Each zap adds the difference to the one before, log10(new ÷ max(old, 1)) × trust (spec 02 §2.4); as whole numbers these add up to
// the same weight in whatever order the zaps come.
func Vote(total paidaction.Msat, trustMicros int64) int64 {
	sats := float64(max(total.Sats(), 1))
	return int64(math.Round(math.Log10(sats) * float64(trustMicros)))
}

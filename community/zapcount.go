package community

import (
	"context"
	"fmt"
	"slices"
	"time"

	"github.com/a-seed-a7aed72f/holdfast/internal/db"
	"github.com/a-seed-a7aed72f/holdfast/ledger"
	"github.com/a-seed-a7aed72f/holdfast/paidaction"
)

// zapped is an item and the zap that was paid for it.
type zapped struct {
	tx   *paidaction.Tx
	item db.ZapTargetsRow
}

// count hands out the money of paid zaps, and counts them at the items, at their ancestors, and in the payers' votes,
// all in one transaction.
func (z Zap) count(ctx context.Context, q *db.Queries, at time.Time, zaps ...zapped) error {
	paid := db.CountZapsParams{At: at}
	for _, one := range zaps {
		if err := z.split(one.tx, one.item); err != nil {
			return err
		}
		addZap(&paid, one.tx, one.item.ID, one.item.AuthorID)
	}
	if err := q.CountZaps(ctx, paid); err != nil {
		return fmt.Errorf("count the zaps: %w", err)
	}
	if err := addToAncestors(ctx, q, zaps); err != nil {
		return err
	}
	// Bounties are paid in one order, so that no two transactions deadlock.
	zaps = slices.SortedStableFunc(slices.Values(zaps), func(x, y zapped) int { return slices.Compare(x.item.Ancestors, y.item.Ancestors) })
	for _, one := range zaps {
		if err := markBounty(ctx, one.tx, one.item); err != nil {
			return err
		}
	}
	return nil
}

// addZap adds a zap to those that are counted together.
func addZap(paid *db.CountZapsParams, tx *paidaction.Tx, item int64, author *int64) {
	paid.ActionIds, paid.ItemIds = append(paid.ActionIds, tx.Action), append(paid.ItemIds, item)
	paid.Users, paid.Authors = append(paid.Users, orNobody(tx.Payer)), append(paid.Authors, orNobody(author))
	credits := int64(0)
	if tx.Asset() == ledger.Credits {
		credits = int64(tx.Cost)
	}
	paid.Msats, paid.CreditMsats = append(paid.Msats, int64(tx.Cost)), append(paid.CreditMsats, credits)
}

// orNobody is an id as statements about many people take it: 0 is anonymous.
func orNobody(id *int64) int64 {
	if id == nil {
		return 0
	}
	return *id
}

// addToAncestors appends the amounts that comments were zapped with, for all their ancestors.
func addToAncestors(ctx context.Context, q *db.Queries, zaps []zapped) error {
	var deltas db.AddCommentMsatsParams
	for _, one := range zaps {
		for _, id := range one.item.Ancestors {
			deltas.ItemIds, deltas.Msats = append(deltas.ItemIds, id), append(deltas.Msats, int64(one.tx.Cost))
		}
	}
	if len(deltas.ItemIds) == 0 {
		return nil
	}
	if err := q.AddCommentMsats(ctx, deltas); err != nil {
		return fmt.Errorf("count the zaps at the ancestors: %w", err)
	}
	return nil
}

// zapMember is one of several zaps that are paid in the same transaction.
type zapMember = *paidaction.Member[ZapArgs, ZapResult]

var _ paidaction.Grouped[ZapArgs, ZapResult] = Zap{}

// CostTogether implements paidaction.Grouped.
func (z Zap) CostTogether(ctx context.Context, q *db.Queries, members []zapMember) error {
	items, err := zapTargets(ctx, q, itemsOf(members)...)
	if err != nil {
		return err
	}
	for _, m := range members {
		m.Tx.Cost, m.Err = zapCost(m.Tx, m.Args, items)
		m.Result, m.Kept = ZapResult(m.Args), items[m.Args.Item]
	}
	return nil
}

// PayTogether implements paidaction.Grouped.
func (z Zap) PayTogether(ctx context.Context, q *db.Queries, at time.Time, members []zapMember) error {
	var rows db.InsertPaidZapsParams
	var zaps []zapped
	for _, m := range members {
		rows.ActionIds, rows.ItemIds = append(rows.ActionIds, m.Tx.Action), append(rows.ItemIds, m.Args.Item)
		rows.Users, rows.Msats = append(rows.Users, *m.Tx.Payer), append(rows.Msats, int64(m.Tx.Cost))
		zaps = append(zaps, zapped{m.Tx, m.Kept.(db.ZapTargetsRow)})
	}
	if err := q.InsertPaidZaps(ctx, rows); err != nil {
		return fmt.Errorf("insert the zaps: %w", err)
	}
	return z.count(ctx, q, at, zaps...)
}

// PerformTogether implements paidaction.Grouped.
func (Zap) PerformTogether(ctx context.Context, q *db.Queries, _ time.Time, members []zapMember) error {
	var rows db.InsertZapsParams
	for _, m := range members {
		rows.ActionIds, rows.ItemIds = append(rows.ActionIds, m.Tx.Action), append(rows.ItemIds, m.Args.Item)
		rows.Users, rows.Msats = append(rows.Users, orNobody(m.Tx.Payer)), append(rows.Msats, int64(m.Tx.Cost))
	}
	if err := q.InsertZaps(ctx, rows); err != nil {
		return fmt.Errorf("insert the zaps: %w", err)
	}
	return nil
}

// OnPaidTogether implements paidaction.Grouped.
func (z Zap) OnPaidTogether(ctx context.Context, q *db.Queries, at time.Time, members []zapMember) error {
	items, err := zapTargets(ctx, q, itemsOf(members)...)
	if err != nil {
		return err
	}
	zaps := make([]zapped, len(members))
	for i, m := range members {
		item, found := items[m.Args.Item]
		if !found {
			return fmt.Errorf("the zapped item %d is gone", m.Args.Item)
		}
		zaps[i] = zapped{m.Tx, item}
	}
	if err := q.MarkZapsPaid(ctx, actionsOf(members)); err != nil {
		return fmt.Errorf("mark the zaps: %w", err)
	}
	return z.count(ctx, q, at, zaps...)
}

// AfterPaidTogether tells those who got a part, and their webhooks.
func (Zap) AfterPaidTogether(ctx context.Context, q *db.Queries, at time.Time, actions []int64) error {
	if err := q.TellOfZaps(ctx, db.TellOfZapsParams{Kind: "ZAP", ActionIds: actions, At: at}); err != nil {
		return fmt.Errorf("tell of zaps: %w", err)
	}
	return nil
}

func actionsOf(members []zapMember) []int64 {
	ids := make([]int64, len(members))
	for i, m := range members {
		ids[i] = m.Tx.Action
	}
	return ids
}

func itemsOf(members []zapMember) []int64 {
	ids := make([]int64, len(members))
	for i, m := range members {
		ids[i] = m.Args.Item
	}
	slices.Sort(ids)
	return slices.Compact(ids)
}

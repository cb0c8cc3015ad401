package graph

import (
	"context"
	"fmt"
	"math"
	"time"

	"github.com/a-seed-a7aed72f/holdfast/community"
	"github.com/a-seed-a7aed72f/holdfast/graph/internal/schema"
	"github.com/a-seed-a7aed72f/holdfast/internal/db"
)

type (
	territoryResults   struct{ *resolver }
	territoryTransfers struct{ *resolver }
)

func (r *resolver) TerritoryResult() schema.TerritoryResultResolver     { return territoryResults{r} }
func (r *resolver) TerritoryTransfer() schema.TerritoryTransferResolver { return territoryTransfers{r} }

func (queries) Territory(ctx context.Context, name string) (*db.Territory, error) {
	if !namePattern.MatchString(name) {
		return nil, nil
	}
	return loadersOf(ctx).territories.Load(ctx, name)
}

func (q queries) Territories(ctx context.Context, first int, after *string) (*schema.TerritoryPage, error) {
	if err := q.Limits.checkList(first); err != nil {
		return nil, err
	}
	page := &schema.TerritoryPage{}
	if after != nil && !namePattern.MatchString(*after) {
		return page, nil
	}
	rows, err := q.reads().TerritoriesAfter(ctx, db.TerritoriesAfterParams{After: orElse(after, ""), Viewer: sessionOf(ctx).viewer(), Page: int32(first) + 1})
	if err != nil {
		return nil, fmt.Errorf("read the territories: %w", err)
	}
	if len(rows) > first {
		rows, page.Next = rows[:first], &rows[first-1].Name
	}
	for _, row := range rows {
		page.Nodes = append(page.Nodes, &row)
	}
	return page, nil
}

func (territories) Founder(ctx context.Context, t *db.Territory) (*db.Usr, error) {
	return loadersOf(ctx).users.Load(ctx, t.FounderID)
}

// toFounder returns the value only to the founder.
func toFounder[T any](ctx context.Context, t *db.Territory, value *T) (*T, error) {
	if user := sessionOf(ctx).viewer(); user == nil || *user != t.FounderID {
		return nil, nil
	}
	return value, nil
}

func (territories) Billing(ctx context.Context, t *db.Territory) (*string, error) {
	return toFounder(ctx, t, &t.Billing)
}

func (territories) AutoRenew(ctx context.Context, t *db.Territory) (*bool, error) {
	return toFounder(ctx, t, &t.AutoRenew)
}

func (territories) PaidUntil(ctx context.Context, t *db.Territory) (*time.Time, error) {
	return toFounder(ctx, t, t.PaidUntil)
}

func (territories) GraceUntil(ctx context.Context, t *db.Territory) (*time.Time, error) {
	return toFounder(ctx, t, t.GraceUntil)
}

func (r territories) Transfers(ctx context.Context, t *db.Territory, first int, after *int64) (*schema.TerritoryTransferPage, error) {
	if err := r.Limits.checkList(first); err != nil {
		return nil, err
	}
	rows, err := loadersOf(ctx).transfers.Load(ctx, pageOf[string, before]{t.Name, before{orElse(after, math.MaxInt64), int32(first) + 1}})
	if err != nil {
		return nil, err
	}
	page := &schema.TerritoryTransferPage{}
	page.Nodes, page.Next = cut(rows, first, func(t *db.TerritoryTransfer) int64 { return t.ID })
	return page, nil
}

func (territoryTransfers) From(ctx context.Context, t *db.TerritoryTransfer) (*db.Usr, error) {
	return loadersOf(ctx).users.Load(ctx, t.FromUser)
}

func (territoryTransfers) To(ctx context.Context, t *db.TerritoryTransfer) (*db.Usr, error) {
	return loadersOf(ctx).users.Load(ctx, t.ToUser)
}

func (territoryResults) Territory(ctx context.Context, r *community.TerritoryResult) (*db.Territory, error) {
	return loadersOf(ctx).territories.Load(ctx, r.Territory)
}

func (notifications) Territory(ctx context.Context, n *db.Notification) (*db.Territory, error) {
	return loadIf(ctx, loadersOf(ctx).territories, n.Territory)
}

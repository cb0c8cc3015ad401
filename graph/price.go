package graph

import (
	"context"

	"github.com/a-seed-a7aed72f/holdfast/community"
	"github.com/a-seed-a7aed72f/holdfast/paidaction"
)

// ItemPriceMsat is the price, computed by the action itself.
func (q queries) ItemPriceMsat(ctx context.Context, parent *int64, territory *string, boost *int64, uploads []int64) (paidaction.Msat, error) {
	if parent != nil && (territory != nil && *territory != "" || orElse(boost, 0) != 0) {
		return 0, paidaction.Errorf(paidaction.CodeInvalidInput, "A comment has its parent's territory, and cannot be boosted.")
	}
	return inTurn(ctx, q.reading, func() (paidaction.Msat, error) {
		return q.Engine.Price(ctx, paidaction.Request{Kind: community.KindItemCreate, Caller: caller(ctx, nil), Args: community.ItemCreateArgs{
			Parent: orElse(parent, 0), Territory: orElse(territory, ""), Boost: orElse(boost, 0), Uploads: uploads}})
	})
}

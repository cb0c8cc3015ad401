package community

import (
	"context"
	"fmt"

	"github.com/a-seed-a7aed72f/holdfast/internal/db"
)

// FoldItems adds the oldest unfolded counters to their items, inside the caller's transaction, and says how many items it
// touched. What a reader sees is the same before and after. The transaction has begun with PlanOnce: by that no two wait for each other's items.
func FoldItems(ctx context.Context, q *db.Queries, page int32) (items int, err error) {
	n, err := q.FoldItems(ctx, page)
	if err != nil {
		return 0, fmt.Errorf("fold items: %w", err)
	}
	return int(n), nil
}

// FoldPolls adds paid votes to the options of polls that they are for, as FoldItems does counters, and says how many options it touched.
func FoldPolls(ctx context.Context, q *db.Queries, page int32) (options int, err error) {
	n, err := q.FoldPolls(ctx, page)
	if err != nil {
		return 0, fmt.Errorf("fold polls: %w", err)
	}
	return int(n), nil
}

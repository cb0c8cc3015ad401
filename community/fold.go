package community

import (
	"context"
	"fmt"

	"github.com/a-seed-a7aed72f/holdfast/internal/db"
)

// FoldItems adds the oldest unfolded counters to their items, inside the caller's transaction, and returns how many
// items it touched. Readers see the same before and after. The transaction must have begun with PlanOnce, which keeps
// two of them from deadlocking over items.
func FoldItems(ctx context.Context, q *db.Queries, page int32) (items int, err error) {
	n, err := q.FoldItems(ctx, page)
	if err != nil {
		return 0, fmt.Errorf("fold items: %w", err)
	}
	return int(n), nil
}

// FoldPolls adds paid votes to the options they are for, as FoldItems does with counters, and returns how many options
// it touched.
func FoldPolls(ctx context.Context, q *db.Queries, page int32) (options int, err error) {
	n, err := q.FoldPolls(ctx, page)
	if err != nil {
		return 0, fmt.Errorf("fold polls: %w", err)
	}
	return int(n), nil
}

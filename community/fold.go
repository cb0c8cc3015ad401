package community

import (
	"context"
	"fmt"

	"github.com/a-seed-a7aed72f/holdfast/internal/db"
)

// FoldItems adds the oldest unfolded counters to their items, inside the caller's transaction, and says how many items it
// touched. What a reader sees is the same before and after.
func FoldItems(ctx context.Context, q *db.Queries, page int32) (items int, err error) {
	ids, err := q.ItemsToFold(ctx, page)
	if err != nil {
		return 0, fmt.Errorf("find items to fold: %w", err)
	}
	if len(ids) == 0 {
		return 0, nil
	}
	if _, err := q.LockItemCounts(ctx, ids); err != nil {
		return 0, fmt.Errorf("lock what items count: %w", err)
	}
	if _, err := q.FoldItems(ctx, ids); err != nil {
		return 0, fmt.Errorf("fold items: %w", err)
	}
	return len(ids), nil
}

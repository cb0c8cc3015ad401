package community

import (
	"context"
	"fmt"
	"slices"

	"github.com/a-seed-a7aed72f/holdfast/internal/db"
	"github.com/a-seed-a7aed72f/holdfast/paidaction"
)

// notify tells people of an action, except the one who did it.
func notify(ctx context.Context, tx *paidaction.Tx, kind string, item *int64, users []int64) error {
	users = slices.DeleteFunc(slices.Clone(users), func(u int64) bool { return tx.Payer != nil && u == *tx.Payer })
	if len(users) == 0 {
		return nil
	}
	return tell(ctx, tx, kind, item, users)
}

// tell tells people of an action, whoever did it.
func tell(ctx context.Context, tx *paidaction.Tx, kind string, item *int64, users []int64) error {
	err := tx.DB.InsertNotifications(ctx, db.InsertNotificationsParams{Users: users, Kind: kind, ActionID: tx.Action, ItemID: item, At: tx.Now})
	if err != nil {
		return fmt.Errorf("insert notifications: %w", err)
	}
	return nil
}

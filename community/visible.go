package community

import (
	"context"
	"errors"
	"fmt"

	"github.com/jackc/pgx/v5"

	"github.com/a-seed-a7aed72f/holdfast/internal/db"
	"github.com/a-seed-a7aed72f/holdfast/paidaction"
)

// visibleItem reads an item that everybody can see. Its author, ancestors and territory never change, so no lock is
// needed: a lock on a popular item would make all who pay there wait for each other.
func visibleItem(ctx context.Context, tx *paidaction.Tx, id int64) (db.Item, error) {
	item, err := tx.DB.GetItem(ctx, id)
	if errors.Is(err, pgx.ErrNoRows) || err == nil && (item.State != statePaid || item.DeletedAt != nil) {
		return item, paidaction.Errorf(paidaction.CodeNotFound, "There is no such item.")
	}
	if err != nil {
		return item, fmt.Errorf("read item %d: %w", id, err)
	}
	return item, nil
}

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
// needed: a lock on a popular item would make all who pay there wait for each other. NOT_PAID where only its author can
// see it so far, and asks.
func visibleItem(ctx context.Context, tx *paidaction.Tx, id int64) (db.Item, error) {
	item, err := tx.DB.GetItem(ctx, id)
	if err != nil && !errors.Is(err, pgx.ErrNoRows) {
		return item, fmt.Errorf("read item %d: %w", id, err)
	}
	mine := tx.Payer != nil && item.AuthorID != nil && *tx.Payer == *item.AuthorID
	switch {
	case err != nil || item.DeletedAt != nil || item.State != statePaid && !mine:
		return item, paidaction.Errorf(paidaction.CodeNotFound, "There is no such item.")
	case item.State != statePaid:
		return item, paidaction.Errorf(CodeNotPaid, "This is not paid yet. Pay for it first.")
	}
	return item, nil
}

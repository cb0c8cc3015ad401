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
	mine := wrote(tx, item.AuthorID)
	switch {
	case err != nil || item.DeletedAt != nil || item.State != statePaid && !mine:
		return item, paidaction.Errorf(paidaction.CodeNotFound, "There is no such item.")
	case item.State != statePaid:
		return item, paidaction.Errorf(CodeNotPaid, "This is not paid yet. Pay for it first.")
	}
	return item, nil
}

// wrote reports whether the payer is known, and this author. Who is anonymous has to prove it (isAuthor).
func wrote(tx *paidaction.Tx, author *int64) bool {
	return tx.Payer != nil && author != nil && *tx.Payer == *author
}

// ownItem locks a paid item of the payer's. An anonymous payer must show the secret of the action that paid for it.
func ownItem(ctx context.Context, tx *paidaction.Tx, id int64) (db.Item, error) {
	item, err := tx.DB.LockItem(ctx, id)
	if err != nil && !errors.Is(err, pgx.ErrNoRows) {
		return item, fmt.Errorf("lock item %d: %w", id, err)
	}
	gone := err != nil || item.DeletedAt != nil
	mine := false
	if !gone {
		if mine, err = isAuthor(ctx, tx, item); err != nil {
			return item, err
		}
	}
	switch {
	case gone || item.State != statePaid && !mine:
		return item, paidaction.Errorf(paidaction.CodeNotFound, "There is no such item.")
	case !mine:
		return item, paidaction.Errorf(paidaction.CodeForbidden, "You can only change what you wrote. If you were not signed in then, send the secret that you got.")
	case item.State != statePaid:
		// The change would race against the payment: which of the two texts was paid for?
		return item, paidaction.Errorf(CodeNotPaid, "This is not paid yet. Pay for it first, or cancel it and write it again.")
	}
	return item, nil
}

func isAuthor(ctx context.Context, tx *paidaction.Tx, item db.Item) (bool, error) {
	if item.AuthorID != nil {
		return wrote(tx, item.AuthorID), nil
	}
	return tx.Proves(ctx, item.ActionID)
}

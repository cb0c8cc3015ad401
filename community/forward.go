package community

import (
	"context"
	"fmt"

	"github.com/a-seed-a7aed72f/holdfast/internal/db"
	"github.com/a-seed-a7aed72f/holdfast/paidaction"
)

const maxForwards = 5 // of an item

// Forward gives a part of an item's zaps to somebody else.
type Forward struct {
	User int64 `json:"user"`
	Pct  int   `json:"pct"` // of what the author would get
}

// checkForwards refuses a list that gives away more than there is.
func checkForwards(list []Forward) error {
	if len(list) > maxForwards {
		return paidaction.Errorf(paidaction.CodeInvalidInput, "Zaps can be forwarded to at most %d people.", maxForwards)
	}
	total, seen := 0, map[int64]bool{}
	for _, f := range list {
		if f.Pct < 1 || f.Pct > 100 || seen[f.User] {
			return paidaction.Errorf(paidaction.CodeInvalidInput, "Each person to forward to needs one share between 1 and 100 percent.")
		}
		seen[f.User] = true
		total += f.Pct
	}
	if total > 100 {
		return paidaction.Errorf(paidaction.CodeInvalidInput, "More than 100 percent cannot be forwarded.")
	}
	return nil
}

// checkForwardees refuses unknown people, and the author.
func checkForwardees(ctx context.Context, tx *paidaction.Tx, author *int64, list []Forward) error {
	users := make([]int64, len(list))
	for i, f := range list {
		if author != nil && f.User == *author {
			return paidaction.Errorf(paidaction.CodeInvalidInput, "You cannot forward to yourself: what is not forwarded is yours anyway.")
		}
		users[i] = f.User
	}
	if len(users) == 0 {
		return nil
	}
	known, err := tx.DB.UsersByID(ctx, users)
	if err != nil {
		return fmt.Errorf("read the forwardees: %w", err)
	}
	if len(known) != len(users) {
		return paidaction.Errorf(paidaction.CodeNotFound, "One of the people to forward to does not exist.")
	}
	return nil
}

// insertForwards stores who else gets a share.
func insertForwards(ctx context.Context, tx *paidaction.Tx, item int64, list []Forward) error {
	if len(list) == 0 {
		return nil
	}
	rows := db.InsertForwardsParams{ItemID: item}
	for _, f := range list {
		rows.Users, rows.Pcts = append(rows.Users, f.User), append(rows.Pcts, int16(f.Pct))
	}
	if err := tx.DB.InsertForwards(ctx, rows); err != nil {
		return fmt.Errorf("insert the forwards: %w", err)
	}
	return nil
}

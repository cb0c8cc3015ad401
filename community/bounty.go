package community

import (
	"context"
	"fmt"

	"github.com/a-seed-a7aed72f/holdfast/internal/db"
	"github.com/a-seed-a7aed72f/holdfast/paidaction"
)

// A bounty is an amount that the author of a post promises for a comment below it. The author pays it by zapping that
// comment. Nothing is set aside.

// checkBounty refuses amounts that nobody can promise, in whole sats.
func (ic ItemCreate) checkBounty(sats int64) error {
	return checkUpTo("bounty", sats, ic.Settings.MaxBounty)
}

// markBounty marks the bounty above a comment as paid, once its owner's zaps of that comment reach it. The zap must
// have been counted in the payer's total before. If several comments of a thread qualify at the same time, one wins
// (spec 05.19).
func markBounty(ctx context.Context, tx *paidaction.Tx, comment db.ZapTargetsRow) error {
	if tx.Payer == nil || comment.RootAuthorID == nil || *comment.RootAuthorID != *tx.Payer {
		return nil
	}
	err := tx.DB.PayBounty(ctx, db.PayBountyParams{Root: comment.Ancestors[0], Payer: *tx.Payer, CommentID: comment.ID,
		ActionID: tx.Action, At: tx.Now})
	if err != nil {
		return fmt.Errorf("mark the bounty: %w", err)
	}
	return nil
}

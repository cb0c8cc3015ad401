package community

import (
	"context"
	"fmt"

	"github.com/a-seed-a7aed72f/holdfast/internal/db"
	"github.com/a-seed-a7aed72f/holdfast/paidaction"
)

// TellFailed tells the payer of any action that it has failed, so that they can try it again.
func TellFailed(ctx context.Context, tx *paidaction.Tx) error {
	if err := tx.DB.NotifyOfFailure(ctx, db.NotifyOfFailureParams{ActionID: tx.Action, At: tx.Now}); err != nil {
		return fmt.Errorf("insert the notification: %w", err)
	}
	return nil
}

package graph

import (
	"context"

	"github.com/a-seed-a7aed72f/holdfast/graph/internal/schema"
	"github.com/a-seed-a7aed72f/holdfast/paidaction"
)

// Receipt is read where the payment is, and not kept with the action's result: that says what was asked for, and is the
// same from the beginning.
func (withdrawActions) Receipt(ctx context.Context, a *schema.WithdrawAction) (*schema.WithdrawReceipt, error) {
	row, err := loadersOf(ctx).withdrawals.Load(ctx, a.ID)
	if row == nil || err != nil {
		return nil, err
	}
	receipt := &schema.WithdrawReceipt{Preimage: row.Preimage, FeeMsat: paidaction.Msat(row.FeeMsat)}
	if row.Bolt11 != "" {
		receipt.Bolt11 = &row.Bolt11
	}
	return receipt, nil
}

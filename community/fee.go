package community

import (
	"context"
	"fmt"

	"github.com/a-seed-a7aed72f/holdfast/paidaction"
)

// payFee gives a fee to the territory's founder and the rewards pool.
func payFee(ctx context.Context, tx *paidaction.Tx, territory *string, fee paidaction.Msat, s Settings) error {
	if territory == nil {
		return tx.PayFee(fee, nil, s.RewardsPct)
	}
	t, err := tx.DB.GetTerritory(ctx, *territory)
	if err != nil {
		return fmt.Errorf("read the territory: %w", err)
	}
	return tx.PayFee(fee, &t.FounderID, s.RewardsPct)
}

package community

import (
	"context"
	"fmt"

	"github.com/a-seed-a7aed72f/holdfast/ledger"
	"github.com/a-seed-a7aed72f/holdfast/paidaction"
)

// payFee gives a fee to the territory's founder and the rewards pool.
func payFee(ctx context.Context, tx *paidaction.Tx, territory *string, fee paidaction.Msat, s Settings) error {
	if territory == nil {
		return splitFee(tx, fee, nil, s.RewardsPct)
	}
	t, err := tx.DB.GetTerritory(ctx, *territory)
	if err != nil {
		return fmt.Errorf("read the territory: %w", err)
	}
	return splitFee(tx, fee, &t.FounderID, s.RewardsPct)
}

// splitFee hands out the part of the price that belongs to nobody in particular. If the territory has a founder,
// rewardsPct percent go to the rewards pool and the rest to the founder; otherwise all of it goes to the pool. Both get
// the asset that was paid with (spec 02 §2.4).
func splitFee(tx *paidaction.Tx, fee paidaction.Msat, founder *int64, rewardsPct int) error {
	if founder != nil {
		share := fee.Percent(100 - rewardsPct)
		if err := tx.Pay(ledger.User(*founder, tx.Asset()), share, "territory revenue"); err != nil {
			return err
		}
		fee -= share
	}
	return tx.Pay(ledger.Rewards(tx.Asset()), fee, "rewards")
}

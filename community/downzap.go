package community

import (
	"context"
	"fmt"

	"github.com/a-seed-a7aed72f/holdfast/internal/db"
	"github.com/a-seed-a7aed72f/holdfast/ledger"
	"github.com/a-seed-a7aed72f/holdfast/paidaction"
)

// DownZap lowers an item. It is the opposite of a zap, with the same arguments, limits and refusals, but nobody earns
// by it, and it requires signing in.
type DownZap struct{ Zap }

// KindDownZap names the action.
const KindDownZap = "DOWN_ZAP"

// Spec follows the table of spec 02 §2.3.
func (DownZap) Spec() paidaction.Spec {
	return paidaction.Spec{Kind: KindDownZap, Again: true,
		Methods: []paidaction.Method{paidaction.FeeCredit, paidaction.RewardSats, paidaction.Optimistic}}
}

// Perform notes the down-zap as pending.
func (DownZap) Perform(ctx context.Context, tx *paidaction.Tx, a ZapArgs) (ZapResult, error) {
	err := tx.DB.InsertZap(ctx, db.InsertZapParams{ActionID: tx.Action, ItemID: a.Item, UserID: tx.Payer, Msat: int64(tx.Cost), Down: true})
	if err != nil {
		return ZapResult{}, fmt.Errorf("insert the down-zap: %w", err)
	}
	return ZapResult(a), nil
}

// OnPaid gives all of it to the rewards pool, and counts it at the item and in the payer's vote.
func (DownZap) OnPaid(ctx context.Context, tx *paidaction.Tx, a ZapArgs, _ ZapResult) error {
	if err := tx.DB.MarkZap(ctx, db.MarkZapParams{ActionID: tx.Action, State: statePaid}); err != nil {
		return fmt.Errorf("mark the down-zap: %w", err)
	}
	item, err := tx.DB.GetItem(ctx, a.Item)
	if err != nil {
		return fmt.Errorf("read the item: %w", err)
	}
	counted := db.CountZapsParams{Down: true, At: tx.Now}
	addZap(&counted, tx, item.ID, item.AuthorID)
	if err := tx.DB.CountZaps(ctx, counted); err != nil {
		return fmt.Errorf("count the down-zap: %w", err)
	}
	return tx.Pay(ledger.Rewards(tx.Asset()), tx.Cost, "down-zap")
}

// Describe is what the payer's wallet shows.
func (DownZap) Describe(a ZapArgs) string {
	return fmt.Sprintf("down-zap #%d with %d sats", a.Item, a.Sats)
}

// AfterPaid tells the author once per item, and not by whom: the notification belongs to the action that made the item.
func (DownZap) AfterPaid(ctx context.Context, tx *paidaction.Tx, a ZapArgs, _ ZapResult) error {
	item, err := tx.DB.GetItem(ctx, a.Item)
	if err != nil {
		return fmt.Errorf("read the item: %w", err)
	}
	if item.AuthorID == nil {
		return nil
	}
	err = tx.DB.InsertNotifications(ctx, db.InsertNotificationsParams{Users: []int64{*item.AuthorID}, Kind: "DOWN_ZAPPED",
		ActionID: item.ActionID, ItemID: &item.ID, At: tx.Now})
	if err != nil {
		return fmt.Errorf("insert the notification: %w", err)
	}
	return nil
}

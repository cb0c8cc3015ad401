package community

import (
	"context"
	"fmt"
	"time"

	"github.com/a-seed-a7aed72f/holdfast/internal/db"
	"github.com/a-seed-a7aed72f/holdfast/paidaction"
)

// Boost ranks a post higher for a while. Anybody may boost it.
type Boost struct {
	paidaction.Base[BoostArgs, BoostResult]
	Settings Settings
}

// BoostArgs say which post is boosted, and with how many whole sats.
type BoostArgs struct {
	Item int64 `json:"item"`
	Sats int64 `json:"sats"`
}

// BoostResult is what was boosted.
type BoostResult struct {
	Item int64 `json:"item"`
	Sats int64 `json:"sats"`
}

// KindBoost names the action.
const KindBoost = "BOOST"

// Spec follows the table of spec 02 §2.3.
func (Boost) Spec() paidaction.Spec {
	return paidaction.Spec{Kind: KindBoost, Again: true, Methods: []paidaction.Method{
		paidaction.FeeCredit, paidaction.RewardSats, paidaction.Optimistic, paidaction.Pessimistic}}
}

// Check refuses amounts that nobody can pay.
func (Boost) Check(a BoostArgs) error { return checkSats(a.Sats) }

// Cost is what is boosted with. It refuses unpaid and deleted posts, and comments and bios, which no feed ranks.
func (Boost) Cost(ctx context.Context, tx *paidaction.Tx, a BoostArgs) (paidaction.Msat, error) {
	item, err := visibleItem(ctx, tx, a.Item)
	if err != nil {
		return 0, err
	}
	if !isPost(item.Kind) {
		return 0, errNoPost()
	}
	return paidaction.Sats(a.Sats)
}

// Perform notes the boost as pending.
func (Boost) Perform(ctx context.Context, tx *paidaction.Tx, a BoostArgs) (BoostResult, error) {
	return BoostResult(a), beginBoost(ctx, tx, a.Item, a.Sats)
}

// OnPaid ranks the post, and hands out the fee.
func (b Boost) OnPaid(ctx context.Context, tx *paidaction.Tx, a BoostArgs, _ BoostResult) error {
	item, err := tx.DB.GetItem(ctx, a.Item)
	if err != nil {
		return fmt.Errorf("read the item: %w", err)
	}
	if err := countBoost(ctx, tx, a.Sats, b.Settings); err != nil {
		return err
	}
	return payFee(ctx, tx, item.Territory, tx.Cost, b.Settings)
}

// OnFail marks the boost as failed.
func (Boost) OnFail(ctx context.Context, tx *paidaction.Tx, a BoostArgs, _ BoostResult) error {
	return failBoost(ctx, tx, a.Sats)
}

// Retry lets the new attempt pay for the boost.
func (Boost) Retry(ctx context.Context, tx *paidaction.Tx, a BoostArgs, r BoostResult) (BoostResult, error) {
	return r, retryBoost(ctx, tx, a.Sats)
}

// Describe is what the payer's wallet shows.
func (Boost) Describe(a BoostArgs) string {
	return fmt.Sprintf("boost #%d with %d sats", a.Item, a.Sats)
}

// An action that makes or changes an item can boost it too. Its price includes the sats of the boost, and each of its
// methods calls its counterpart below. With no sats these do nothing.

// checkBoost refuses a negative boost, and a boost of anything but a post. For Check.
func checkBoost(sats int64, kind string) error {
	if sats != 0 && !isPost(kind) {
		return errNoPost()
	}
	_, err := paidaction.Sats(sats)
	return err
}

func errNoPost() error {
	return paidaction.Errorf(paidaction.CodeInvalidInput, "Only posts can be boosted: nothing else is ranked in feeds.")
}

// beginBoost notes a boost as pending. For Perform.
func beginBoost(ctx context.Context, tx *paidaction.Tx, item, sats int64) error {
	if sats == 0 {
		return nil
	}
	amount, err := paidaction.Sats(sats)
	if err != nil {
		return err
	}
	err = tx.DB.InsertBoost(ctx, db.InsertBoostParams{ActionID: tx.Action, ItemID: item, UserID: tx.Payer, Msat: int64(amount)})
	if err != nil {
		return fmt.Errorf("insert the boost: %w", err)
	}
	return nil
}

// countBoost makes a boost count from now until it expires. It hands out no money. For OnPaid.
func countBoost(ctx context.Context, tx *paidaction.Tx, sats int64, s Settings) error {
	if sats == 0 {
		return nil
	}
	b, err := tx.DB.PayBoost(ctx, db.PayBoostParams{ActionID: tx.Action, At: tx.Now, ExpiresAt: tx.Now.Add(s.BoostLasts)})
	if err != nil {
		return fmt.Errorf("mark the boost: %w", err)
	}
	if err := tx.DB.AddBoosts(ctx, db.AddBoostsParams{ItemIds: []int64{b.ItemID}, Msats: []int64{b.Msat}}); err != nil {
		return fmt.Errorf("add the boost: %w", err)
	}
	return nil
}

// failBoost marks a boost as failed. For OnFail.
func failBoost(ctx context.Context, tx *paidaction.Tx, sats int64) error {
	if sats == 0 {
		return nil
	}
	if err := tx.DB.FailBoost(ctx, tx.Action); err != nil {
		return fmt.Errorf("mark the boost: %w", err)
	}
	return nil
}

// retryBoost lets the new attempt pay for a boost. For Retry.
func retryBoost(ctx context.Context, tx *paidaction.Tx, sats int64) error {
	if sats == 0 {
		return nil
	}
	n, err := tx.DB.RepointBoost(ctx, db.RepointBoostParams{ActionID: tx.Action, Previous: tx.Previous})
	return repointed(tx, "boost", n, err)
}

// ExpireBoosts takes the oldest expired boosts off their items, at most page of them, inside the caller's transaction,
// and returns how many. Each is taken off once, even if several processes run at the same time.
func ExpireBoosts(ctx context.Context, q *db.Queries, now time.Time, page int32) (boosts int, err error) {
	ids, err := q.LockExpiringBoosts(ctx, db.LockExpiringBoostsParams{Now: now, Page: page})
	if err != nil {
		return 0, fmt.Errorf("find boosts that expire: %w", err)
	}
	if len(ids) == 0 {
		return 0, nil
	}
	expired, err := q.ExpireBoosts(ctx, db.ExpireBoostsParams{Ids: ids, Now: now})
	if err != nil {
		return 0, fmt.Errorf("expire boosts: %w", err)
	}
	var off db.AddBoostsParams
	for _, b := range expired {
		off.ItemIds, off.Msats = append(off.ItemIds, b.ItemID), append(off.Msats, -b.Msat)
	}
	if err := q.AddBoosts(ctx, off); err != nil {
		return 0, fmt.Errorf("take boosts off: %w", err)
	}
	return len(expired), nil
}

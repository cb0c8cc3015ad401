package community

import (
	"cmp"
	"context"
	"fmt"
	"slices"

	"github.com/a-seed-a7aed72f/holdfast/internal/db"
	"github.com/a-seed-a7aed72f/holdfast/ledger"
	"github.com/a-seed-a7aed72f/holdfast/paidaction"
)

// Zap pays the author of an item, and raises the item.
type Zap struct {
	paidaction.Base[ZapArgs, ZapResult]
	Settings Settings
}

// ZapArgs say which item is zapped, and with how many whole sats.
type ZapArgs struct {
	Item int64 `json:"item"`
	Sats int64 `json:"sats"`
}

// ZapResult is what was zapped.
type ZapResult struct {
	Item int64 `json:"item"`
	Sats int64 `json:"sats"`
}

// KindZap names the action.
const KindZap = "ZAP"

// Spec follows the table of spec 02 §2.3.
func (Zap) Spec() paidaction.Spec {
	return paidaction.Spec{Kind: KindZap, Anonable: true, Again: true, Together: true, Methods: []paidaction.Method{
		paidaction.P2P, paidaction.FeeCredit, paidaction.RewardSats, paidaction.Optimistic, paidaction.Pessimistic}}
}

// Check refuses amounts that nobody can zap.
func (z Zap) Check(a ZapArgs) error { return checkUpTo("zap", a.Sats, z.Settings.MaxZap) }

// Cost is what is zapped. It refuses unpaid, deleted and own items.
func (Zap) Cost(ctx context.Context, tx *paidaction.Tx, a ZapArgs) (paidaction.Msat, error) {
	items, err := zapTargets(ctx, tx.DB, a.Item)
	if err != nil {
		return 0, err
	}
	return zapCost(tx, a, items)
}

func zapCost(tx *paidaction.Tx, a ZapArgs, items map[int64]db.ZapTargetsRow) (paidaction.Msat, error) {
	item, found := items[a.Item]
	mine := wrote(tx, item.AuthorID)
	switch {
	case !found || item.DeletedAt != nil || item.State != statePaid && !mine:
		return 0, paidaction.Errorf(paidaction.CodeNotFound, "There is no such item.")
	case mine:
		return 0, paidaction.Errorf(paidaction.CodeForbidden, "You cannot zap what you wrote.")
	}
	return paidaction.Sats(a.Sats)
}

// zapTargets returns the items to be zapped, by id; those that do not exist are missing.
func zapTargets(ctx context.Context, q *db.Queries, ids ...int64) (map[int64]db.ZapTargetsRow, error) {
	rows, err := q.ZapTargets(ctx, ids)
	if err != nil {
		return nil, fmt.Errorf("read what is zapped: %w", err)
	}
	items := make(map[int64]db.ZapTargetsRow, len(rows))
	for _, row := range rows {
		items[row.ID] = row
	}
	return items, nil
}

// Perform notes the zap as pending.
func (Zap) Perform(ctx context.Context, tx *paidaction.Tx, a ZapArgs) (ZapResult, error) {
	err := tx.DB.InsertZap(ctx, db.InsertZapParams{ActionID: tx.Action, ItemID: a.Item, UserID: tx.Payer, Msat: int64(tx.Cost)})
	if err != nil {
		return ZapResult{}, fmt.Errorf("insert the zap: %w", err)
	}
	return ZapResult(a), nil
}

// OnPaid splits the money, and counts the zap at the item, at its ancestors, and in the payer's vote.
func (z Zap) OnPaid(ctx context.Context, tx *paidaction.Tx, a ZapArgs, _ ZapResult) error {
	if err := tx.DB.MarkZap(ctx, db.MarkZapParams{ActionID: tx.Action, State: statePaid}); err != nil {
		return fmt.Errorf("mark the zap: %w", err)
	}
	items, err := zapTargets(ctx, tx.DB, a.Item)
	if err != nil {
		return err
	}
	item, found := items[a.Item]
	if !found {
		return fmt.Errorf("the zapped item %d is gone", a.Item)
	}
	return z.count(ctx, tx.DB, tx.Now, zapped{tx, item})
}

// zapShare is one person's part of a zap.
type zapShare struct {
	user   int64
	amount paidaction.Msat
	reason string
}

// shares are the parts of those who get a zap, out of what the sybil fee leaves: floor(pct × share) for each forwardee,
// and the remainder for the author. The part of an anonymous author is in none of them.
func (z Zap) shares(tx *paidaction.Tx, item db.ZapTargetsRow) []zapShare {
	share := tx.Cost - tx.Cost.Percent(z.Settings.SybilPct)
	rest := share
	var shares []zapShare
	for i, user := range item.Forwardees {
		part := share.Percent(int(item.Pcts[i]))
		shares = append(shares, zapShare{user, part, "zap forwarded"})
		rest -= part
	}
	if item.AuthorID != nil {
		shares = append(shares, zapShare{*item.AuthorID, rest, "zap"})
	}
	return shares
}

// Peers are those with a part of the zap, the largest part first: one can be paid directly, the others get credits.
func (z Zap) Peers(ctx context.Context, tx *paidaction.Tx, a ZapArgs) ([]paidaction.Peer, error) {
	items, err := zapTargets(ctx, tx.DB, a.Item)
	if err != nil {
		return nil, err
	}
	shares := z.shares(tx, items[a.Item])
	slices.SortStableFunc(shares, func(x, y zapShare) int { return cmp.Compare(y.amount, x.amount) })
	peers := make([]paidaction.Peer, len(shares))
	for i, s := range shares {
		peers[i] = paidaction.Peer{Receiver: s.user, Share: s.amount}
	}
	return peers, nil
}

// split hands out the money. A receiver who was paid directly gets in credits only what has been added to their share
// since. The routing budget of that payment comes out of the sybil fee; the rest of the fee goes to founder and
// rewards.
//
// The shares are computed again, and the forwards may have been edited since the invoice was made. So the people get
// what is theirs, all of it, but never a part of the fee. Otherwise an author who is paid directly could forward
// everything to themselves under another name for a moment, and a share that a forwardee lost or gained would be the
// founder's gain or loss.
func (z Zap) split(tx *paidaction.Tx, item db.ZapTargetsRow) error {
	shares := z.shares(tx, item)
	rest, fee := tx.Cost, tx.Cost.Percent(z.Settings.SybilPct)
	theirs := rest - fee
	if tx.Forward != nil {
		rest -= tx.Forward.Amount + tx.Forward.Budget
		theirs -= tx.Forward.Amount
		fee -= tx.Forward.Budget // below zero where routing may cost more than the fee, out of what is an anonymous author's
		if i := slices.IndexFunc(shares, func(s zapShare) bool { return s.user == tx.Forward.Receiver }); i >= 0 {
			if shares[i].amount -= tx.Forward.Amount; shares[i].amount < 1000 { // a wallet may have cut off less than a sat
				shares = slices.Delete(shares, i, i+1)
			}
		}
	}
	for _, s := range shares {
		part := max(0, min(s.amount, theirs, rest))
		if err := tx.Pay(ledger.UserCredits(s.user), part, s.reason); err != nil {
			return err
		}
		rest -= part
		theirs -= part
	}
	fee = max(0, min(fee, rest))
	if item.AuthorID != nil {
		fee = rest // including the msat that a receiver's wallet has cut off
	}
	if err := splitFee(tx, fee, item.FounderID, z.Settings.RewardsPct); err != nil {
		return err
	}
	return tx.Pay(ledger.Rewards(tx.Asset()), rest-fee, "zap of the anonymous")
}

// OnFail marks the zap as failed.
func (Zap) OnFail(ctx context.Context, tx *paidaction.Tx, _ ZapArgs, _ ZapResult) error {
	if err := tx.DB.MarkZap(ctx, db.MarkZapParams{ActionID: tx.Action, State: stateFailed}); err != nil {
		return fmt.Errorf("mark the zap: %w", err)
	}
	return nil
}

// Retry lets the new attempt pay for the zap.
func (Zap) Retry(ctx context.Context, tx *paidaction.Tx, _ ZapArgs, r ZapResult) (ZapResult, error) {
	n, err := tx.DB.RepointZap(ctx, db.RepointZapParams{ActionID: tx.Action, Previous: tx.Previous, Msat: int64(tx.Cost)})
	return r, repointed(tx, "zap", n, err)
}

// Describe is what the payer's wallet shows.
func (Zap) Describe(a ZapArgs) string { return fmt.Sprintf("zap %d sats to #%d", a.Sats, a.Item) }

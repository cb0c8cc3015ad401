package community

import (
	"context"
	"fmt"
	"time"

	"github.com/a-seed-a7aed72f/holdfast/internal/db"
	"github.com/a-seed-a7aed72f/holdfast/paidaction"
)

const maxDepth = 200 // of a thread: each comment is counted at every ancestor

// expiredFor is how long ago an invoice expired that surely nobody can pay any more. The clocks of the process that made
// it and of its node differ from this one's, by a minute or so, and making it took a moment.
const expiredFor = 5 * time.Minute

// price is base × 10^spam × (anonymous ? 10 : 1). The payer is locked, so that posts at the same moment cannot evade
// the escalation (spec 05.19).
func (ic ItemCreate) price(ctx context.Context, tx *paidaction.Tx, a ItemCreateArgs) (paidaction.Msat, error) {
	if err := a.checkNow(tx.Payer, tx.Now); err != nil {
		return 0, err
	}
	base, root, err := ic.base(ctx, tx, a)
	if err != nil {
		return 0, err
	}
	if tx.Payer == nil {
		return base.Times(ic.Settings.AnonymousFactor)
	}
	if _, err := tx.DB.LockUser(ctx, *tx.Payer); err != nil {
		return 0, fmt.Errorf("lock the author: %w", err)
	}
	if a.Bio != nil {
		return base, checkFirstBio(ctx, tx)
	}
	spam, err := ic.spam(ctx, tx, a, root)
	if err != nil {
		return 0, err
	}
	return Escalate(base, spam)
}

// Escalate is base × 10^spam, or INVALID_AMOUNT where that is more than there is.
func Escalate(base paidaction.Msat, spam int64) (cost paidaction.Msat, err error) {
	cost = base
	for range spam {
		if cost, err = cost.Times(10); err != nil {
			return 0, paidaction.Errorf(paidaction.CodeInvalidAmount, "You have written too much in a short time. Wait a few minutes.")
		}
	}
	return cost, nil
}

// base is the price before any escalation, and for a comment the author of the thread's root.
func (ic ItemCreate) base(ctx context.Context, tx *paidaction.Tx, a ItemCreateArgs) (cost paidaction.Msat, rootAuthor *int64, err error) {
	if a.Bio != nil {
		return ic.Settings.BioCost, nil, nil
	}
	if a.Parent == 0 {
		if a.Territory == "" {
			return ic.Settings.PostCost, nil, nil
		}
		t, err := openTerritory(ctx, tx, a.Territory)
		return paidaction.Msat(t.BaseCostMsat), nil, err
	}
	parent, err := visibleItem(ctx, tx, a.Parent)
	if err != nil {
		return 0, nil, err
	}
	if len(parent.Ancestors) >= maxDepth {
		return 0, nil, paidaction.Errorf(paidaction.CodeInvalidInput, "This thread is too deep to continue. Reply further up.")
	}
	rootAuthor = parent.AuthorID
	if len(parent.Ancestors) > 0 {
		root, err := tx.DB.GetItem(ctx, parent.Ancestors[0])
		if err != nil {
			return 0, nil, fmt.Errorf("read the root: %w", err)
		}
		rootAuthor = root.AuthorID
	}
	if parent.Territory == nil {
		return ic.Settings.CommentCost, rootAuthor, nil
	}
	t, err := openTerritory(ctx, tx, *parent.Territory)
	return paidaction.Msat(t.ReplyCostMsat), rootAuthor, err
}

// spam is how many times the price rises tenfold. For a post it counts own posts within the window. For a comment it
// counts own comments on the same parent, plus the unbroken chain of own items above it; in one's own thread it is
// zero.
func (ic ItemCreate) spam(ctx context.Context, tx *paidaction.Tx, a ItemCreateArgs, rootAuthor *int64) (int64, error) {
	since, expired := tx.Now.Add(-ic.Settings.SpamWindow), tx.Now.Add(-expiredFor)
	if a.Parent == 0 {
		return tx.DB.CountPostsSince(ctx, db.CountPostsSinceParams{AuthorID: tx.Payer, Since: since, Expired: expired})
	}
	if rootAuthor != nil && *rootAuthor == *tx.Payer {
		return 0, nil
	}
	siblings, err := tx.DB.CountCommentsSince(ctx, db.CountCommentsSinceParams{AuthorID: tx.Payer, ParentID: &a.Parent, Since: since, Expired: expired})
	if err != nil {
		return 0, fmt.Errorf("count comments: %w", err)
	}
	chain, err := tx.DB.SelfReplyChain(ctx, db.SelfReplyChainParams{ParentID: a.Parent, AuthorID: tx.Payer, Since: since})
	if err != nil {
		return 0, fmt.Errorf("count the chain of own replies: %w", err)
	}
	return siblings + chain, nil
}

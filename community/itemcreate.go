package community

import (
	"context"
	"fmt"
	"slices"
	"strings"

	"github.com/a-seed-a7aed72f/holdfast/internal/db"
	"github.com/a-seed-a7aed72f/holdfast/paidaction"
)

// ItemCreate writes an item: a post, a comment, or one of the kinds of itemkind.go.
type ItemCreate struct {
	paidaction.Base[ItemCreateArgs, ItemCreateResult]
	Settings Settings
}

// ItemCreateArgs are a post (with a title), a comment (with a parent), or an item of another kind, according to which
// of the later fields is given.
type ItemCreateArgs struct {
	Title     string    `json:"title,omitempty"`
	Body      string    `json:"body"`
	Territory string    `json:"territory,omitempty"` // of a post; a comment has that of its root
	Parent    int64     `json:"parent,omitempty"`
	Forwards  []Forward `json:"forwards,omitempty"`
	URL       *string   `json:"url,omitempty"`
	Bounty    *int64    `json:"bounty,omitempty"` // in whole sats
	Bio       *string   `json:"bio,omitempty"`    // the text; a bio has no title and no body
	*PollArgs           // nil if none of its fields is given, as is JobArgs
	*JobArgs
	Boost   int64   `json:"boost,omitempty"` // of a post, in whole sats
	Uploads []int64 `json:"uploads,omitempty"`
}

// ItemCreateResult is the item that was made.
type ItemCreateResult struct {
	Item int64 `json:"item"`
}

// KindItemCreate names the action.
const KindItemCreate = "ITEM_CREATE"

// Limits of spec 02 §2.4 and §2.5.
const (
	maxTitle     = 140
	maxBody      = 40_000
	maxTerritory = 32
)

// Spec follows the table of spec 02 §2.3.
func (ItemCreate) Spec() paidaction.Spec {
	return paidaction.Spec{Kind: KindItemCreate, Anonable: true, Again: true, Methods: []paidaction.Method{
		paidaction.FeeCredit, paidaction.RewardSats, paidaction.Optimistic, paidaction.Pessimistic}}
}

// Check refuses texts over their limits and forwards that give away more than there is.
func (ic ItemCreate) Check(a ItemCreateArgs) error {
	if err := ic.checkKind(a); err != nil {
		return err
	}
	if err := checkBoost(a.Boost, a.kind()); err != nil {
		return err
	}
	if err := checkUploadIDs(a.Uploads); err != nil {
		return err
	}
	return checkForwards(a.Forwards)
}

// Cost is the price of writing, plus that of the uploads and the boost: none of these raises the price of another.
func (ic ItemCreate) Cost(ctx context.Context, tx *paidaction.Tx, a ItemCreateArgs) (paidaction.Msat, error) {
	price, err := ic.price(ctx, tx, a)
	if err != nil {
		return 0, err
	}
	uploads, err := uploadFee(ctx, tx, a.Uploads)
	if err != nil {
		return 0, err
	}
	boost, err := paidaction.Sats(a.Boost)
	return price + uploads + boost, err
}

// Perform writes the item as pending, with everything attached to it.
func (ic ItemCreate) Perform(ctx context.Context, tx *paidaction.Tx, a ItemCreateArgs) (ItemCreateResult, error) {
	row := db.InsertItemParams{AuthorID: tx.Payer, ActionID: tx.Action, Ancestors: []int64{}, At: tx.Now}
	a.describe(&row)
	if a.Territory != "" {
		row.Territory = &a.Territory
	}
	if a.Parent != 0 {
		parent, err := visibleItem(ctx, tx, a.Parent)
		if err != nil {
			return ItemCreateResult{}, err
		}
		row.ParentID, row.Territory = &a.Parent, parent.Territory
		row.Ancestors = append(slices.Clone(parent.Ancestors), parent.ID)
	}
	id, err := tx.DB.InsertItem(ctx, row)
	if err != nil {
		return ItemCreateResult{}, fmt.Errorf("insert the item: %w", err)
	}
	if err := ic.claimFingerprint(ctx, tx, a, id); err != nil {
		return ItemCreateResult{}, err
	}
	if a.PollArgs != nil {
		if err := insertOptions(ctx, tx, id, *a.PollArgs); err != nil {
			return ItemCreateResult{}, err
		}
	}
	if err := checkForwardees(ctx, tx, tx.Payer, a.Forwards); err != nil {
		return ItemCreateResult{}, err
	}
	if err := insertForwards(ctx, tx, id, a.Forwards); err != nil {
		return ItemCreateResult{}, err
	}
	if err := claimUploads(ctx, tx, id, a.Uploads); err != nil {
		return ItemCreateResult{}, err
	}
	if err := beginBoost(ctx, tx, id, a.Boost); err != nil {
		return ItemCreateResult{}, err
	}
	if err := mention(ctx, tx, id, a.text()); err != nil {
		return ItemCreateResult{}, err
	}
	if tx.Payer != nil {
		if err := tx.DB.InsertSubscription(ctx, db.InsertSubscriptionParams{ItemID: id, UserID: *tx.Payer}); err != nil {
			return ItemCreateResult{}, fmt.Errorf("subscribe the author: %w", err)
		}
	}
	return ItemCreateResult{Item: id}, nil
}

// OnPaid shows the item to everybody, counts it at its ancestors, and hands out the fee.
func (ic ItemCreate) OnPaid(ctx context.Context, tx *paidaction.Tx, a ItemCreateArgs, r ItemCreateResult) error {
	item, err := tx.DB.GetItem(ctx, r.Item)
	if err != nil {
		return fmt.Errorf("read the item: %w", err)
	}
	if err := countWritten(ctx, tx, item); err != nil {
		return err
	}
	if err := tx.DB.MarkItem(ctx, db.MarkItemParams{ID: r.Item, State: statePaid}); err != nil {
		return fmt.Errorf("show the item: %w", err)
	}
	if len(item.Ancestors) > 0 {
		if err := tx.DB.AddComments(ctx, db.AddCommentsParams{ItemIds: item.Ancestors, At: tx.Now}); err != nil {
			return fmt.Errorf("count the comment: %w", err)
		}
	}
	if err := countBoost(ctx, tx, a.Boost, ic.Settings); err != nil {
		return err
	}
	if err := showUploads(ctx, tx, a.Uploads); err != nil {
		return err
	}
	return payFee(ctx, tx, item.Territory, tx.Cost, ic.Settings)
}

// countWritten counts an item in its author's profile. A bio counts neither as a post nor as a comment.
func countWritten(ctx context.Context, tx *paidaction.Tx, item db.Item) error {
	if item.AuthorID == nil || item.Kind == itemBio {
		return nil
	}
	count := db.CountWrittenParams{ID: *item.AuthorID, Posts: 1}
	if item.ParentID != nil {
		count.Posts, count.Comments = 0, 1
	}
	if err := tx.DB.CountWritten(ctx, count); err != nil {
		return fmt.Errorf("count the item in its author's profile: %w", err)
	}
	return nil
}

// OnFail leaves the item visible only to its author, as failed, and lets the same text be posted again.
func (ItemCreate) OnFail(ctx context.Context, tx *paidaction.Tx, a ItemCreateArgs, r ItemCreateResult) error {
	if err := tx.DB.MarkItem(ctx, db.MarkItemParams{ID: r.Item, State: stateFailed}); err != nil {
		return fmt.Errorf("mark the item: %w", err)
	}
	if err := tx.DB.FreeFingerprint(ctx, r.Item); err != nil {
		return fmt.Errorf("free the fingerprint: %w", err)
	}
	if err := failBoost(ctx, tx, a.Boost); err != nil {
		return err
	}
	return releaseUploads(ctx, tx, a.Uploads)
}

// Retry keeps the item and lets the new attempt pay for it.
func (ic ItemCreate) Retry(ctx context.Context, tx *paidaction.Tx, a ItemCreateArgs, r ItemCreateResult) (ItemCreateResult, error) {
	n, err := tx.DB.RepointItem(ctx, db.RepointItemParams{ID: r.Item, ActionID: tx.Action, Previous: tx.Previous, At: tx.Now})
	if err := repointed(tx, "item", n, err); err != nil {
		return r, err
	}
	if err := retryBoost(ctx, tx, a.Boost); err != nil {
		return r, err
	}
	if err := claimUploads(ctx, tx, r.Item, a.Uploads); err != nil {
		return r, err
	}
	return r, ic.claimFingerprint(ctx, tx, a, r.Item)
}

// Describe is what the payer's wallet shows.
func (ItemCreate) Describe(a ItemCreateArgs) string {
	if a.Parent != 0 {
		return fmt.Sprintf("comment on #%d", a.Parent)
	}
	return "create a " + strings.ToLower(a.kind())
}

// AfterPaid tells those who were mentioned, and those who follow an item above.
func (ItemCreate) AfterPaid(ctx context.Context, tx *paidaction.Tx, _ ItemCreateArgs, r ItemCreateResult) error {
	item, err := tx.DB.GetItem(ctx, r.Item)
	if err != nil {
		return fmt.Errorf("read the item: %w", err)
	}
	if err := tellMentioned(ctx, tx, r.Item); err != nil {
		return err
	}
	followers, err := tx.DB.SubscribersOf(ctx, item.Ancestors)
	if err != nil {
		return fmt.Errorf("read the followers: %w", err)
	}
	return notify(ctx, tx, "REPLY", &r.Item, followers)
}

package community

import (
	"context"
	"fmt"
	"strings"

	"github.com/a-seed-a7aed72f/holdfast/internal/db"
	"github.com/a-seed-a7aed72f/holdfast/paidaction"
)

// ItemUpdate lets an author change an item, or add uploads and boosts to it.
type ItemUpdate struct {
	paidaction.Base[ItemUpdateArgs, ItemUpdateResult]
	Settings Settings
}

// ItemUpdateArgs say what to change. What is nil stays as it is.
type ItemUpdateArgs struct {
	Item     int64     `json:"item"`
	Title    *string   `json:"title,omitempty"` // of a post
	Body     *string   `json:"body,omitempty"`
	URL      *string   `json:"url,omitempty"`     // of a link
	Forwards []Forward `json:"forwards,omitzero"` // replaces the present ones; empty for none
	Uploads  []int64   `json:"uploads,omitempty"` // added to the present ones
	Boost    int64     `json:"boost,omitempty"`   // added to the present boost, in whole sats
}

// ItemUpdateResult is the item that is changed.
type ItemUpdateResult struct {
	Item int64 `json:"item"`
}

// KindItemUpdate names the action.
const KindItemUpdate = "ITEM_UPDATE"

// Spec follows the table of spec 02 §2.3. ZeroCost comes first, so that a free change by somebody anonymous needs no
// node.
func (ItemUpdate) Spec() paidaction.Spec {
	return paidaction.Spec{Kind: KindItemUpdate, Anonable: true, Free: true, Methods: []paidaction.Method{
		paidaction.ZeroCost, paidaction.FeeCredit, paidaction.RewardSats, paidaction.Pessimistic}}
}

// Check refuses texts over their limits, and an empty change.
func (ItemUpdate) Check(a ItemUpdateArgs) error {
	if a.Title == nil && a.Body == nil && a.URL == nil && a.Forwards == nil && len(a.Uploads) == 0 && a.Boost == 0 {
		return paidaction.Errorf(paidaction.CodeInvalidInput, "Say what to change.")
	}
	if a.Title != nil {
		if err := checkText("title", strings.TrimSpace(*a.Title), 1, maxTitle); err != nil {
			return err
		}
	}
	if a.Body != nil {
		if err := checkText("text", *a.Body, 0, maxBody); err != nil {
			return err
		}
	}
	if a.URL != nil {
		if err := checkURL(*a.URL); err != nil {
			return err
		}
	}
	if err := checkUploadIDs(a.Uploads); err != nil {
		return err
	}
	if err := checkBoost(a.Boost, ""); err != nil { // only the database knows the item's kind
		return err
	}
	return checkForwards(a.Forwards)
}

// Cost is that of the uploads and the boost; all else is free. The item is locked until the commit, so that what is
// checked here stays true.
func (iu ItemUpdate) Cost(ctx context.Context, tx *paidaction.Tx, a ItemUpdateArgs) (paidaction.Msat, error) {
	item, err := ownItem(ctx, tx, a.Item)
	if err != nil {
		return 0, err
	}
	if err := iu.checkChange(ctx, tx, item, a); err != nil {
		return 0, err
	}
	if err := checkForwardees(ctx, tx, item.AuthorID, a.Forwards); err != nil {
		return 0, err
	}
	if len(a.Uploads) > 0 {
		carried, err := tx.DB.CountUploadsOfItem(ctx, &item.ID)
		if err != nil {
			return 0, fmt.Errorf("count the item's uploads: %w", err)
		}
		if int(carried)+len(a.Uploads) > maxUploads {
			return 0, errTooManyInItem()
		}
	}
	uploads, err := uploadFee(ctx, tx, a.Uploads)
	if err != nil {
		return 0, err
	}
	boost, err := paidaction.Sats(a.Boost)
	return uploads + boost, err
}

// changed is the item with the changes to its text applied.
func (a ItemUpdateArgs) changed(item db.Item) db.Item {
	if a.Title != nil {
		item.Title = new(strings.TrimSpace(*a.Title))
	}
	if a.Body != nil {
		item.Body = *a.Body
	}
	if a.URL != nil {
		item.Url = a.URL
	}
	return item
}

// changesText reports whether others would read anything new.
func (a ItemUpdateArgs) changesText(item db.Item) bool {
	same := func(x, y *string) bool { return x == y || x != nil && y != nil && *x == *y }
	to := a.changed(item)
	return to.Body != item.Body || !same(to.Title, item.Title) || !same(to.Url, item.Url)
}

// checkChange refuses what does not fit the item, and changes of the text or the forwards that come too late. Uploads
// and boosts never come too late. Nor do the texts of bios and jobs, which stay true only if they can be changed. Their
// forwards do: people zap by what they saw.
func (iu ItemUpdate) checkChange(ctx context.Context, tx *paidaction.Tx, item db.Item, a ItemUpdateArgs) error {
	if item.Title == nil && a.Title != nil {
		return paidaction.Errorf(paidaction.CodeInvalidInput, "Only posts have a title.")
	}
	if item.Kind != itemLink && a.URL != nil {
		return paidaction.Errorf(paidaction.CodeInvalidInput, "Only a link has an address.")
	}
	if item.Title == nil && a.Body != nil {
		if err := checkText("text", strings.TrimSpace(*a.Body), 1, maxBody); err != nil {
			return err
		}
	}
	if err := checkBoost(a.Boost, item.Kind); err != nil {
		return err
	}
	if a.Forwards == nil && (!a.changesText(item) || item.Kind == itemBio || item.Kind == itemJob) {
		return nil
	}
	paid, err := tx.DB.ItemPaidAt(ctx, item.ID)
	if err != nil {
		return fmt.Errorf("read when the item was paid: %w", err)
	}
	if tx.Now.Sub(paid) > iu.Settings.EditWindow {
		return paidaction.Errorf(CodeEditWindowOver, "The text and the forwards can only be changed for %s after it was paid for.", iu.Settings.EditWindow)
	}
	return nil
}

// Perform notes what the item will say, visible only to its author.
func (ItemUpdate) Perform(ctx context.Context, tx *paidaction.Tx, a ItemUpdateArgs) (ItemUpdateResult, error) {
	item, err := tx.DB.GetItem(ctx, a.Item)
	if err != nil {
		return ItemUpdateResult{}, fmt.Errorf("read the item: %w", err)
	}
	if a.changesText(item) {
		// The edit is stored whole: applied later, it must not mix with somebody else's change.
		to := a.changed(item)
		err := tx.DB.InsertEdit(ctx, db.InsertEditParams{ActionID: tx.Action, ItemID: item.ID, Title: to.Title, Body: to.Body, Url: to.Url, At: tx.Now})
		if err != nil {
			return ItemUpdateResult{}, fmt.Errorf("insert the edit: %w", err)
		}
	}
	if err := claimUploads(ctx, tx, item.ID, a.Uploads); err != nil {
		return ItemUpdateResult{}, err
	}
	return ItemUpdateResult{Item: item.ID}, beginBoost(ctx, tx, item.ID, a.Boost)
}

// OnPaid shows the change to everybody, and hands out the fee.
func (iu ItemUpdate) OnPaid(ctx context.Context, tx *paidaction.Tx, a ItemUpdateArgs, r ItemUpdateResult) error {
	item, err := tx.DB.LockItem(ctx, r.Item)
	if err != nil {
		return fmt.Errorf("lock the item: %w", err)
	}
	if err := tx.DB.ApplyEdit(ctx, db.ApplyEditParams{ActionID: tx.Action, At: &tx.Now}); err != nil {
		return fmt.Errorf("apply the edit: %w", err)
	}
	if err := dropEdit(ctx, tx); err != nil {
		return err
	}
	if a.Forwards != nil {
		if err := tx.DB.DeleteForwards(ctx, item.ID); err != nil {
			return fmt.Errorf("delete the forwards: %w", err)
		}
		if err := insertForwards(ctx, tx, item.ID, a.Forwards); err != nil {
			return err
		}
	}
	if a.Body != nil {
		if err := mention(ctx, tx, item.ID, *a.Body); err != nil {
			return err
		}
	}
	if err := showUploads(ctx, tx, a.Uploads); err != nil {
		return err
	}
	if err := countBoost(ctx, tx, a.Boost, iu.Settings); err != nil {
		return err
	}
	return payFee(ctx, tx, item.Territory, tx.Cost, iu.Settings)
}

func dropEdit(ctx context.Context, tx *paidaction.Tx) error {
	if err := tx.DB.DeleteEdit(ctx, tx.Action); err != nil {
		return fmt.Errorf("delete the edit: %w", err)
	}
	return nil
}

// OnFail leaves the item as it is.
func (ItemUpdate) OnFail(ctx context.Context, tx *paidaction.Tx, a ItemUpdateArgs, _ ItemUpdateResult) error {
	if err := dropEdit(ctx, tx); err != nil {
		return err
	}
	if err := releaseUploads(ctx, tx, a.Uploads); err != nil {
		return err
	}
	return failBoost(ctx, tx, a.Boost)
}

// Describe is what the payer's wallet shows.
func (ItemUpdate) Describe(a ItemUpdateArgs) string { return fmt.Sprintf("change #%d", a.Item) }

// AfterPaid tells those who are newly mentioned.
func (ItemUpdate) AfterPaid(ctx context.Context, tx *paidaction.Tx, a ItemUpdateArgs, r ItemUpdateResult) error {
	if a.Body == nil {
		return nil
	}
	return tellMentioned(ctx, tx, r.Item)
}

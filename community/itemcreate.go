package community

import (
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"regexp"
	"slices"
	"strings"
	"time"

	"github.com/jackc/pgx/v5"

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
	maxForwards  = 5
	maxMentions  = 10
	maxDepth     = 200 // of a thread: each comment is counted at every ancestor
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
	since := tx.Now.Add(-ic.Settings.SpamWindow)
	if a.Parent == 0 {
		return tx.DB.CountPostsSince(ctx, db.CountPostsSinceParams{AuthorID: tx.Payer, Since: since})
	}
	if rootAuthor != nil && *rootAuthor == *tx.Payer {
		return 0, nil
	}
	siblings, err := tx.DB.CountCommentsSince(ctx, db.CountCommentsSinceParams{AuthorID: tx.Payer, ParentID: &a.Parent, Since: since})
	if err != nil {
		return 0, fmt.Errorf("count comments: %w", err)
	}
	chain, err := tx.DB.SelfReplyChain(ctx, db.SelfReplyChainParams{ParentID: a.Parent, AuthorID: tx.Payer, Since: since})
	if err != nil {
		return 0, fmt.Errorf("count the chain of own replies: %w", err)
	}
	return siblings + chain, nil
}

// visibleItem reads an item that everybody can see. Its author, ancestors and territory never change, so no lock is
// needed: a lock on a popular item would make all who pay there wait for each other.
func visibleItem(ctx context.Context, tx *paidaction.Tx, id int64) (db.Item, error) {
	item, err := tx.DB.GetItem(ctx, id)
	if errors.Is(err, pgx.ErrNoRows) || err == nil && (item.State != statePaid || item.DeletedAt != nil) {
		return item, paidaction.Errorf(paidaction.CodeNotFound, "There is no such item.")
	}
	if err != nil {
		return item, fmt.Errorf("read item %d: %w", id, err)
	}
	return item, nil
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

// SweepFingerprints deletes fingerprints whose window is over, a page at a time.
func SweepFingerprints(ctx context.Context, q *db.Queries, now time.Time) (found bool, err error) {
	const page = 1000
	n, err := q.DeleteFingerprints(ctx, db.DeleteFingerprintsParams{Before: now.Add(-time.Hour), Page: page})
	if err != nil {
		return false, fmt.Errorf("delete old fingerprints: %w", err)
	}
	return n == page, nil
}

// claimFingerprint refuses the same content by the same author within the window.
func (ic ItemCreate) claimFingerprint(ctx context.Context, tx *paidaction.Tx, a ItemCreateArgs, id int64) error {
	sum := sha256.Sum256(fmt.Appendf(nil, "%d %s", orNobody(tx.Payer), a.content()))
	n, err := tx.DB.ClaimFingerprint(ctx, db.ClaimFingerprintParams{Fingerprint: sum[:], ItemID: id,
		Until: tx.Now.Add(ic.Settings.DuplicateWindow), At: tx.Now})
	if err != nil {
		return fmt.Errorf("claim the fingerprint: %w", err)
	}
	if n == 0 {
		return paidaction.Errorf(paidaction.CodeDuplicate, "The same thing was posted a moment ago.")
	}
	return nil
}

var mentionPattern = regexp.MustCompile(`(?:^|[^a-z0-9_@])@([a-z0-9_]{1,32})\b`)

// mention stores the known people among the first few @names of a text, up to a limit per item.
func mention(ctx context.Context, tx *paidaction.Tx, item int64, text string) error {
	var names []string
	for _, m := range mentionPattern.FindAllStringSubmatch(text, -1) {
		if len(names) < maxMentions && !slices.Contains(names, m[1]) {
			names = append(names, m[1])
		}
	}
	if len(names) == 0 {
		return nil
	}
	users, err := tx.DB.UsersByName(ctx, names)
	if err != nil {
		return fmt.Errorf("read the mentioned: %w", err)
	}
	known, err := tx.DB.Mentions(ctx, item)
	if err != nil {
		return fmt.Errorf("read the mentions: %w", err)
	}
	var ids []int64
	for _, u := range users {
		// The limit is per item: changing a text again and again must not notify ever more people.
		if !slices.Contains(known, u.ID) && len(known)+len(ids) < maxMentions {
			ids = append(ids, u.ID)
		}
	}
	if err := tx.DB.InsertMentions(ctx, db.InsertMentionsParams{ItemID: item, Users: ids}); err != nil {
		return fmt.Errorf("insert the mentions: %w", err)
	}
	return nil
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
	mentioned, err := tx.DB.Mentions(ctx, r.Item)
	if err != nil {
		return fmt.Errorf("read the mentions: %w", err)
	}
	if err := notify(ctx, tx, "MENTION", &r.Item, mentioned); err != nil {
		return err
	}
	followers, err := tx.DB.SubscribersOf(ctx, item.Ancestors)
	if err != nil {
		return fmt.Errorf("read the followers: %w", err)
	}
	return notify(ctx, tx, "REPLY", &r.Item, followers)
}

// notify tells people of an action, except the one who did it.
func notify(ctx context.Context, tx *paidaction.Tx, kind string, item *int64, users []int64) error {
	users = slices.DeleteFunc(slices.Clone(users), func(u int64) bool { return tx.Payer != nil && u == *tx.Payer })
	if len(users) == 0 {
		return nil
	}
	return tell(ctx, tx, kind, item, users)
}

// tell tells people of an action, whoever did it.
func tell(ctx context.Context, tx *paidaction.Tx, kind string, item *int64, users []int64) error {
	err := tx.DB.InsertNotifications(ctx, db.InsertNotificationsParams{Users: users, Kind: kind, ActionID: tx.Action, ItemID: item, At: tx.Now})
	if err != nil {
		return fmt.Errorf("insert notifications: %w", err)
	}
	return nil
}

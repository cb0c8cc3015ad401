package graph

// THIS CODE WILL BE UPDATED WITH SCHEMA CHANGES. PREVIOUS IMPLEMENTATION FOR SCHEMA CHANGES WILL BE KEPT IN THE COMMENT SECTION. IMPLEMENTATION FOR UNCHANGED SCHEMA WILL BE KEPT.

import (
	"context"
	"time"

	"github.com/a-seed-a7aed72f/holdfast/community"
	"github.com/a-seed-a7aed72f/holdfast/graph/internal/schema"
	"github.com/a-seed-a7aed72f/holdfast/internal/db"
	"github.com/a-seed-a7aed72f/holdfast/paidaction"
)

// Written by gqlgen from pays.gotpl and schema.graphql; not to be edited.

// CreatePost asks for the action ITEM_CREATE.
func (m mutations) CreatePost(ctx context.Context, title string, body string, territory *string, forwards []*community.Forward, boost *int64, uploads []int64, idempotencyKey *string, paymentMethod *paidaction.Method, maxCostSats *int64) (*schema.ItemCreateAction, error) {
	return pay[schema.ItemCreateAction](ctx, m.resolver, "ITEM_CREATE")
}

// CreateComment asks for the action ITEM_CREATE.
func (m mutations) CreateComment(ctx context.Context, parent int64, body string, forwards []*community.Forward, uploads []int64, idempotencyKey *string, paymentMethod *paidaction.Method, maxCostSats *int64) (*schema.ItemCreateAction, error) {
	return pay[schema.ItemCreateAction](ctx, m.resolver, "ITEM_CREATE")
}

// CreateLink asks for the action ITEM_CREATE.
func (m mutations) CreateLink(ctx context.Context, title string, url string, body string, territory *string, forwards []*community.Forward, boost *int64, uploads []int64, idempotencyKey *string, paymentMethod *paidaction.Method, maxCostSats *int64) (*schema.ItemCreateAction, error) {
	return pay[schema.ItemCreateAction](ctx, m.resolver, "ITEM_CREATE")
}

// CreatePoll asks for the action ITEM_CREATE.
func (m mutations) CreatePoll(ctx context.Context, title string, options []string, price int64, closesAt *time.Time, body string, territory *string, forwards []*community.Forward, boost *int64, uploads []int64, idempotencyKey *string, paymentMethod *paidaction.Method, maxCostSats *int64) (*schema.ItemCreateAction, error) {
	return pay[schema.ItemCreateAction](ctx, m.resolver, "ITEM_CREATE")
}

// CreateBounty asks for the action ITEM_CREATE.
func (m mutations) CreateBounty(ctx context.Context, title string, bounty int64, body string, territory *string, forwards []*community.Forward, boost *int64, uploads []int64, idempotencyKey *string, paymentMethod *paidaction.Method, maxCostSats *int64) (*schema.ItemCreateAction, error) {
	return pay[schema.ItemCreateAction](ctx, m.resolver, "ITEM_CREATE")
}

// CreateJob asks for the action ITEM_CREATE.
func (m mutations) CreateJob(ctx context.Context, title string, company string, location string, body string, territory *string, forwards []*community.Forward, boost *int64, uploads []int64, idempotencyKey *string, paymentMethod *paidaction.Method, maxCostSats *int64) (*schema.ItemCreateAction, error) {
	return pay[schema.ItemCreateAction](ctx, m.resolver, "ITEM_CREATE")
}

// CreateBio asks for the action ITEM_CREATE.
func (m mutations) CreateBio(ctx context.Context, bio string, uploads []int64, idempotencyKey *string, paymentMethod *paidaction.Method, maxCostSats *int64) (*schema.ItemCreateAction, error) {
	return pay[schema.ItemCreateAction](ctx, m.resolver, "ITEM_CREATE")
}

// PollVote asks for the action POLL_VOTE.
func (m mutations) PollVote(ctx context.Context, option int64, idempotencyKey *string, paymentMethod *paidaction.Method, maxCostSats *int64) (*schema.PollVoteAction, error) {
	return pay[schema.PollVoteAction](ctx, m.resolver, "POLL_VOTE")
}

// UpdateItem asks for the action ITEM_UPDATE.
func (m mutations) UpdateItem(ctx context.Context, item int64, title *string, body *string, url *string, forwards []*community.Forward, uploads []int64, boost *int64, secret *string, idempotencyKey *string, paymentMethod *paidaction.Method, maxCostSats *int64) (*schema.ItemUpdateAction, error) {
	return pay[schema.ItemUpdateAction](ctx, m.resolver, "ITEM_UPDATE")
}

// Zap asks for the action ZAP.
func (m mutations) Zap(ctx context.Context, item int64, sats int64, idempotencyKey *string, paymentMethod *paidaction.Method, maxCostSats *int64) (*schema.ZapAction, error) {
	return pay[schema.ZapAction](ctx, m.resolver, "ZAP")
}

// DownZap asks for the action DOWN_ZAP.
func (m mutations) DownZap(ctx context.Context, item int64, sats int64, idempotencyKey *string, paymentMethod *paidaction.Method, maxCostSats *int64) (*schema.DownZapAction, error) {
	return pay[schema.DownZapAction](ctx, m.resolver, "DOWN_ZAP")
}

// Boost asks for the action BOOST.
func (m mutations) Boost(ctx context.Context, item int64, sats int64, idempotencyKey *string, paymentMethod *paidaction.Method, maxCostSats *int64) (*schema.BoostAction, error) {
	return pay[schema.BoostAction](ctx, m.resolver, "BOOST")
}

// Donate asks for the action DONATE.
func (m mutations) Donate(ctx context.Context, sats int64, idempotencyKey *string, paymentMethod *paidaction.Method, maxCostSats *int64) (*schema.DonateAction, error) {
	return pay[schema.DonateAction](ctx, m.resolver, "DONATE")
}

// BuyCredits asks for the action BUY_CREDITS.
func (m mutations) BuyCredits(ctx context.Context, credits int64, idempotencyKey *string, paymentMethod *paidaction.Method, maxCostSats *int64) (*schema.BuyCreditsAction, error) {
	return pay[schema.BuyCreditsAction](ctx, m.resolver, "BUY_CREDITS")
}

// TerritoryCreate asks for the action TERRITORY_CREATE.
func (m mutations) TerritoryCreate(ctx context.Context, name string, description string, baseCostSats int64, replyCostSats int64, billing string, autoRenew bool, idempotencyKey *string, paymentMethod *paidaction.Method, maxCostSats *int64) (*schema.TerritoryCreateAction, error) {
	return pay[schema.TerritoryCreateAction](ctx, m.resolver, "TERRITORY_CREATE")
}

// TerritoryUpdate asks for the action TERRITORY_UPDATE.
func (m mutations) TerritoryUpdate(ctx context.Context, name string, description *string, baseCostSats *int64, replyCostSats *int64, billing *string, autoRenew *bool, idempotencyKey *string, paymentMethod *paidaction.Method, maxCostSats *int64) (*schema.TerritoryUpdateAction, error) {
	return pay[schema.TerritoryUpdateAction](ctx, m.resolver, "TERRITORY_UPDATE")
}

// TerritoryBilling asks for the action TERRITORY_BILLING.
func (m mutations) TerritoryBilling(ctx context.Context, name string, paidUntil *time.Time, idempotencyKey *string, paymentMethod *paidaction.Method, maxCostSats *int64) (*schema.TerritoryBillingAction, error) {
	return pay[schema.TerritoryBillingAction](ctx, m.resolver, "TERRITORY_BILLING")
}

// TerritoryUnarchive asks for the action TERRITORY_UNARCHIVE.
func (m mutations) TerritoryUnarchive(ctx context.Context, name string, billing string, autoRenew bool, idempotencyKey *string, paymentMethod *paidaction.Method, maxCostSats *int64) (*schema.TerritoryUnarchiveAction, error) {
	return pay[schema.TerritoryUnarchiveAction](ctx, m.resolver, "TERRITORY_UNARCHIVE")
}

// Receive asks for the action RECEIVE.
func (m mutations) Receive(ctx context.Context, user int64, msat paidaction.Msat, comment *string, idempotencyKey *string, paymentMethod *paidaction.Method, maxCostSats *int64) (*schema.ReceiveAction, error) {
	return pay[schema.ReceiveAction](ctx, m.resolver, "RECEIVE")
}

// Withdraw asks for the action WITHDRAW.
func (m mutations) Withdraw(ctx context.Context, to string, sats *int64, maxFeeSats int64, comment *string, idempotencyKey *string, paymentMethod *paidaction.Method, maxCostSats *int64) (*schema.WithdrawAction, error) {
	return pay[schema.WithdrawAction](ctx, m.resolver, "WITHDRAW")
}

// kinds says in which type each kind of action comes back.
func kinds() map[string]func(*paidaction.PaidAction) (schema.PaidAction, error) {
	k := map[string]func(*paidaction.PaidAction) (schema.PaidAction, error){}
	k["ITEM_CREATE"] = boxed[schema.ItemCreateAction]
	k["ITEM_CREATE"] = boxed[schema.ItemCreateAction]
	k["ITEM_CREATE"] = boxed[schema.ItemCreateAction]
	k["ITEM_CREATE"] = boxed[schema.ItemCreateAction]
	k["ITEM_CREATE"] = boxed[schema.ItemCreateAction]
	k["ITEM_CREATE"] = boxed[schema.ItemCreateAction]
	k["ITEM_CREATE"] = boxed[schema.ItemCreateAction]
	k["POLL_VOTE"] = boxed[schema.PollVoteAction]
	k["ITEM_UPDATE"] = boxed[schema.ItemUpdateAction]
	k["ZAP"] = boxed[schema.ZapAction]
	k["DOWN_ZAP"] = boxed[schema.DownZapAction]
	k["BOOST"] = boxed[schema.BoostAction]
	k["DONATE"] = boxed[schema.DonateAction]
	k["BUY_CREDITS"] = boxed[schema.BuyCreditsAction]
	k["TERRITORY_CREATE"] = boxed[schema.TerritoryCreateAction]
	k["TERRITORY_UPDATE"] = boxed[schema.TerritoryUpdateAction]
	k["TERRITORY_BILLING"] = boxed[schema.TerritoryBillingAction]
	k["TERRITORY_UNARCHIVE"] = boxed[schema.TerritoryUnarchiveAction]
	k["RECEIVE"] = boxed[schema.ReceiveAction]
	k["WITHDRAW"] = boxed[schema.WithdrawAction]
	return k
}

type boostResults struct{ *resolver }

func (r *resolver) BoostResult() schema.BoostResultResolver { return boostResults{r} }

// Item is the item that the result names.
func (boostResults) Item(ctx context.Context, obj *community.BoostResult) (*db.ItemsByIDRow, error) {
	return loadersOf(ctx).items.Load(ctx, obj.Item)
}

type itemCreateResults struct{ *resolver }

func (r *resolver) ItemCreateResult() schema.ItemCreateResultResolver { return itemCreateResults{r} }

// Item is the item that the result names.
func (itemCreateResults) Item(ctx context.Context, obj *community.ItemCreateResult) (*db.ItemsByIDRow, error) {
	return loadersOf(ctx).items.Load(ctx, obj.Item)
}

type itemUpdateResults struct{ *resolver }

func (r *resolver) ItemUpdateResult() schema.ItemUpdateResultResolver { return itemUpdateResults{r} }

// Item is the item that the result names.
func (itemUpdateResults) Item(ctx context.Context, obj *community.ItemUpdateResult) (*db.ItemsByIDRow, error) {
	return loadersOf(ctx).items.Load(ctx, obj.Item)
}

type pollVoteResults struct{ *resolver }

func (r *resolver) PollVoteResult() schema.PollVoteResultResolver { return pollVoteResults{r} }

// Item is the item that the result names.
func (pollVoteResults) Item(ctx context.Context, obj *community.PollVoteResult) (*db.ItemsByIDRow, error) {
	return loadersOf(ctx).items.Load(ctx, obj.Item)
}

type zapResults struct{ *resolver }

func (r *resolver) ZapResult() schema.ZapResultResolver { return zapResults{r} }

// Item is the item that the result names.
func (zapResults) Item(ctx context.Context, obj *community.ZapResult) (*db.ItemsByIDRow, error) {
	return loadersOf(ctx).items.Load(ctx, obj.Item)
}

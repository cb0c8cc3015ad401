package graph

import (
	"github.com/a-seed-a7aed72f/holdfast/graph/internal/schema"
	"github.com/a-seed-a7aed72f/holdfast/internal/gather"
	"github.com/a-seed-a7aed72f/holdfast/paidaction"
)

// resolver answers queries. The resolvers of paying mutations are generated (pays.gotpl) and end in pay.
type resolver struct {
	Config
	kinds    map[string]func(*paidaction.PaidAction) (schema.PaidAction, error)
	keys     *gather.Group[*whose]   // the look-ups of keys
	subjects *gather.Group[*subject] // and of whom a site's tokens are
	meters   meters
	sockets  *slots   // open websockets
	followed *slots   // subscriptions under way
	unread   *slots   // bytes of answers and files that are in memory
	reading  *portion // connections of answers
	writing  *portion // connections of mutations that cost nothing
}

// These types are what gqlgen asks for: which of them resolves the fields of which GraphQL type. Those of results with an
// item are generated.
type (
	mutations         struct{ *resolver }
	queries           struct{ *resolver }
	subscriptions     struct{ *resolver }
	users             struct{ *resolver }
	mes               struct{ *resolver }
	historyEntries    struct{ *resolver }
	receipts          struct{ *resolver }
	items             struct{ *resolver }
	itemForwards      struct{ *resolver }
	threadNodes       struct{ *resolver }
	uploads           struct{ *resolver }
	withdrawActions   struct{ *resolver }
	territories       struct{ *resolver }
	notifications     struct{ *resolver }
	wallets           struct{ *resolver }
	webhooks          struct{ *resolver }
	webhookMessages   struct{ *resolver }
	rewardDays        struct{ *resolver }
	rewards           struct{ *resolver }
	inviteGiftResults struct{ *resolver }
)

func (r *resolver) Mutation() schema.MutationResolver                 { return mutations{r} }
func (r *resolver) Query() schema.QueryResolver                       { return queries{r} }
func (r *resolver) Subscription() schema.SubscriptionResolver         { return subscriptions{r} }
func (r *resolver) User() schema.UserResolver                         { return users{r} }
func (r *resolver) Me() schema.MeResolver                             { return mes{r} }
func (r *resolver) HistoryEntry() schema.HistoryEntryResolver         { return historyEntries{r} }
func (r *resolver) Received() schema.ReceivedResolver                 { return receipts{r} }
func (r *resolver) Item() schema.ItemResolver                         { return items{r} }
func (r *resolver) ItemForward() schema.ItemForwardResolver           { return itemForwards{r} }
func (r *resolver) ThreadNode() schema.ThreadNodeResolver             { return threadNodes{r} }
func (r *resolver) Upload() schema.UploadResolver                     { return uploads{r} }
func (r *resolver) WithdrawAction() schema.WithdrawActionResolver     { return withdrawActions{r} }
func (r *resolver) Territory() schema.TerritoryResolver               { return territories{r} }
func (r *resolver) Notification() schema.NotificationResolver         { return notifications{r} }
func (r *resolver) Wallet() schema.WalletResolver                     { return wallets{r} }
func (r *resolver) Webhook() schema.WebhookResolver                   { return webhooks{r} }
func (r *resolver) WebhookMessage() schema.WebhookMessageResolver     { return webhookMessages{r} }
func (r *resolver) RewardDay() schema.RewardDayResolver               { return rewardDays{r} }
func (r *resolver) Reward() schema.RewardResolver                     { return rewards{r} }
func (r *resolver) InviteGiftResult() schema.InviteGiftResultResolver { return inviteGiftResults{r} }

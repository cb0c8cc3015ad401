package graph

import (
	"cmp"
	"context"
	"errors"
	"time"

	"github.com/99designs/gqlgen/graphql"
	"github.com/vektah/gqlparser/v2/ast"
	"github.com/vektah/gqlparser/v2/gqlerror"

	"github.com/a-seed-a7aed72f/holdfast/community"
	"github.com/a-seed-a7aed72f/holdfast/graph/internal/schema"
	"github.com/a-seed-a7aed72f/holdfast/paidaction"
)

// Patience is how long a query, or the mutations of one request, may take: the default of [Limits.Time].
const Patience = 30 * time.Second

// Limits bound what one request can ask for. The zero value of each means its default.
type Limits struct {
	Body       int64 // bytes of a request or websocket message; default 256 KiB, enough for the longest text
	Tokens     int   // of a query; default 2,000
	Selections int   // fields and fragments of a document, counted as count says; default 1,000
	Depth      int   // of nested fields; default 15
	Complexity int   // fields, those in lists times the length of the list; default 10,000
	List       int   // length of a page; default 100
	Thread     int   // length of a page of a thread; default 500
	Queries    int   // in one request: the fields of the query itself; default 20
	Mutations  int   // in one request; default 10
	Text       int64 // bytes of text in one answer; default 4 MiB, and at least 16 KiB of each mutation
	Operations int   // at once, on one websocket; default 50
	// Each of these is for one user with all their keys, or one address without a key, in this process.
	Sockets       int           // open websockets; default 100
	Subscriptions int           // under way, on any connection; default 200
	Unread        int           // bytes of answers and files in memory; default 64 MiB, beside alwaysAnswered
	Time          time.Duration // for a query, or for a request's mutations; default Patience
	Init          time.Duration // for the first message of a websocket; default 10 seconds
	Download      time.Duration // for a file to be sent; default 10 minutes
}

func (l *Limits) defaults() error {
	l.Body = cmp.Or(l.Body, 256<<10)
	l.Tokens = cmp.Or(l.Tokens, 2000)
	l.Selections = cmp.Or(l.Selections, 1000)
	l.Depth = cmp.Or(l.Depth, 15)
	l.Complexity = cmp.Or(l.Complexity, 10_000)
	l.List = cmp.Or(l.List, 100)
	l.Thread = cmp.Or(l.Thread, 500)
	l.Queries = cmp.Or(l.Queries, 20)
	l.Mutations = cmp.Or(l.Mutations, 10)
	l.Text = cmp.Or(l.Text, 4<<20)
	l.Operations = cmp.Or(l.Operations, 50)
	l.Sockets = cmp.Or(l.Sockets, 100)
	l.Subscriptions = cmp.Or(l.Subscriptions, 200)
	l.Unread = cmp.Or(l.Unread, 64<<20)
	l.Time = cmp.Or(l.Time, Patience)
	l.Init = cmp.Or(l.Init, 10*time.Second)
	l.Download = cmp.Or(l.Download, 10*time.Minute)
	if min(l.Tokens, l.Selections, l.Depth, l.Complexity, l.List, l.Thread, l.Queries, l.Mutations, l.Operations, l.Sockets, l.Subscriptions, l.Unread) < 0 || min(l.Body, l.Text) < 0 || min(l.Time, l.Init, l.Download) < 0 {
		return errors.New("graph: a limit must be above zero")
	}
	return nil
}

// checkList refuses pages that are empty or too long.
func (l Limits) checkList(first int) error {
	if first < 1 || first > l.List {
		return paidaction.Errorf(paidaction.CodeInvalidInput, "Ask for 1 to %d at a time.", l.List)
	}
	return nil
}

// checkThread is checkList for threads. Their limit is higher: nested lists of comments would have even more nodes.
func (l Limits) checkThread(limit, depth int) error {
	if limit < 1 || limit > l.Thread {
		return paidaction.Errorf(paidaction.CodeInvalidInput, "Ask for 1 to %d at a time.", l.Thread)
	}
	if depth < 1 || depth > l.Thread {
		return paidaction.Errorf(paidaction.CodeInvalidInput, "A thread can be read to a depth of 1 to %d.", l.Thread)
	}
	return nil
}

// complexity counts a page as many times as it is long. Of lists only the files of an item count once: few have any, and
// nothing is below them.
func (r *resolver) complexity() schema.ComplexityRoot {
	var c schema.ComplexityRoot
	times := func(child, first int) int { return 1 + child*min(max(first, 1), r.Limits.List) }
	c.Query.Items = func(child int, _ community.FeedSort, _ community.FeedWindow, _ *string, first int, _ *string) int {
		return times(child, first)
	}
	c.Query.PaidActions = func(child, first int, _ *int64) int { return times(child, first) }
	c.Query.Notifications = c.Query.PaidActions
	c.Item.Comments = c.Query.PaidActions
	c.Wallet.Log = c.Query.PaidActions
	c.Webhook.Messages = c.Query.PaidActions
	c.Query.Territories = func(child, first int, _ *string) int { return times(child, first) }
	c.Territory.Transfers = c.Query.PaidActions
	c.Query.Invites = c.Query.PaidActions
	c.RewardDay.Receivers = c.Query.PaidActions
	c.Item.Thread = func(child, limit, _ int, _ *int64) int { return 1 + child*min(max(limit, 1), r.Limits.Thread) }
	c.User.Items = c.Query.PaidActions
	c.Me.History = func(child, first int, _ *string) int { return times(child, first) }
	const many = 10 // about the most there are: wallets of a user, options of a poll, forwards, webhooks, their attempts
	c.Query.Wallets = func(child int) int { return times(child, many) }
	c.Poll.Options = c.Query.Wallets
	c.Item.Forwards = c.Query.Wallets
	c.Query.Webhooks = c.Query.Wallets
	c.WebhookMessage.Attempts = c.Query.Wallets
	c.Mutation.WalletRemove = func(child int, _ int64) int { return times(child, many) }
	c.Mutation.WalletsReorder = func(child int, _ []int64) int { return times(child, many) }
	c.Mutation.WebhookRemove = c.Mutation.WalletRemove
	return c
}

// aroundOperation limits how many operations a connection has at once, how many subscriptions a user or address has at
// once, and how long everything else takes.
func (r *resolver) aroundOperation(ctx context.Context, next graphql.OperationHandler) graphql.ResponseHandler {
	s := sessionOf(ctx)
	refuse := func(err error) graphql.ResponseHandler {
		return graphql.OneShot(&graphql.Response{Errors: gqlerror.List{r.present(ctx, err)}})
	}
	if s.slots != nil {
		select {
		case s.slots <- struct{}{}:
			context.AfterFunc(ctx, func() { <-s.slots })
		default:
			return refuse(paidaction.Errorf(codeOperationLimit, "At most %d operations may be under way on one connection.", r.Limits.Operations))
		}
	}
	if graphql.GetOperationContext(ctx).Operation.Operation == ast.Subscription {
		if !r.followed.take(s.who(), 1) {
			return refuse(paidaction.Errorf(codeOperationLimit, "At most %d subscriptions may be under way at once. End some first.", r.Limits.Subscriptions))
		}
		context.AfterFunc(ctx, func() { r.followed.free(s.who(), 1) })
		return next(ctx)
	}
	ctx, cancel := context.WithTimeout(ctx, r.Limits.Time)
	respond, answered := next(ctx), false
	return func(ctx context.Context) *graphql.Response {
		defer cancel()
		response := respond(ctx)
		if response == nil && !answered {
			// The time was up before it began; gqlgen then has no answer.
			response = &graphql.Response{Errors: gqlerror.List{r.present(ctx, context.Cause(ctx))}}
		}
		answered = true
		return response
	}
}

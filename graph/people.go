package graph

import (
	"context"
	"fmt"
	"math"

	"github.com/a-seed-a7aed72f/holdfast/graph/internal/schema"
	"github.com/a-seed-a7aed72f/holdfast/internal/db"
	"github.com/a-seed-a7aed72f/holdfast/ledger"
	"github.com/a-seed-a7aed72f/holdfast/paidaction"
)

func (m mutations) SignUp(ctx context.Context, name string) (*schema.SignUp, error) {
	if !m.Development {
		return nil, paidaction.Errorf(paidaction.CodeForbidden, "Signing up is closed here. Ask the operator for a key.")
	}
	id, key, err := SignUp(ctx, m.Pool, name, m.Now(), m.Random)
	if err != nil {
		return nil, err
	}
	user, err := loadersOf(ctx).users.Load(ctx, id)
	return &schema.SignUp{User: user, Key: key}, err
}

func (q queries) Me(ctx context.Context) (*schema.Me, error) {
	id := sessionOf(ctx).user
	if id == nil {
		return nil, nil
	}
	user, err := loadersOf(ctx).users.Load(ctx, *id)
	if err != nil {
		return nil, err
	}
	held, err := q.holdings(ctx, ledger.UserCredits(*id), ledger.UserSats(*id))
	if err != nil {
		return nil, err
	}
	return &schema.Me{User: user, CreditsMsat: held.Credits, SatsMsat: held.Sats}, nil
}

func (q queries) RewardsMsat(ctx context.Context) (*schema.Assets, error) {
	return q.holdings(ctx, ledger.RewardCredits, ledger.RewardSats)
}

// holdings reads two accounts in one snapshot.
func (q queries) holdings(ctx context.Context, credits, sats ledger.Account) (*schema.Assets, error) {
	rows, err := db.New(q.Pool).Balances(ctx, []int64{int64(credits), int64(sats)})
	if err != nil {
		return nil, fmt.Errorf("read balances: %w", err)
	}
	held := &schema.Assets{}
	for _, row := range rows {
		switch ledger.Account(row.ID) {
		case credits:
			held.Credits = paidaction.Msat(row.Balance)
		case sats:
			held.Sats = paidaction.Msat(row.Balance)
		}
	}
	return held, nil
}

func (q queries) Notifications(ctx context.Context, first int, after *int64) (*schema.NotificationPage, error) {
	if err := q.Limits.checkList(first); err != nil {
		return nil, err
	}
	user := sessionOf(ctx).user
	if user == nil {
		return nil, paidaction.Errorf(paidaction.CodeUnauthenticated, "Sign in to see what is new for you.")
	}
	rows, err := db.New(q.Pool).NotificationsOf(ctx, db.NotificationsOfParams{UserID: *user, Before: orElse(after, math.MaxInt64), Page: int32(first) + 1})
	if err != nil {
		return nil, fmt.Errorf("read notifications: %w", err)
	}
	page := &schema.NotificationPage{}
	rows, page.Next = cut(rows, first, func(n db.Notification) int64 { return n.ID })
	for _, row := range rows {
		page.Nodes = append(page.Nodes, &row)
	}
	return page, nil
}

func (notifications) Item(ctx context.Context, n *db.Notification) (*db.ItemsByIDRow, error) {
	if n.ItemID == nil {
		return nil, nil
	}
	return loadersOf(ctx).items.Load(ctx, *n.ItemID)
}

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
	id, key, err := SignUp(ctx, m.Pool, name, m.Now())
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
	return q.me(ctx, id)
}

func (r *resolver) me(ctx context.Context, id *int64) (*schema.Me, error) {
	user, err := loadersOf(ctx).users.Load(ctx, *id)
	if err != nil {
		return nil, err
	}
	held, err := r.holdings(ctx, ledger.UserCredits(*id), ledger.UserSats(*id))
	if err != nil {
		return nil, err
	}
	return &schema.Me{User: user, CreditsMsat: held.Credits, SatsMsat: held.Sats}, nil
}

func (q queries) RewardsMsat(ctx context.Context) (*schema.Assets, error) {
	return q.holdings(ctx, ledger.RewardCredits, ledger.RewardSats)
}

// holdings reads two accounts in one snapshot.
func (r *resolver) holdings(ctx context.Context, credits, sats ledger.Account) (*schema.Assets, error) {
	rows, err := r.reads().Balances(ctx, []int64{int64(credits), int64(sats)})
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

func (queries) User(ctx context.Context, name string) (*db.Usr, error) {
	if !namePattern.MatchString(name) {
		return nil, nil
	}
	return loadersOf(ctx).named.Load(ctx, name)
}

func (users) Bio(ctx context.Context, u *db.Usr) (*db.ItemsByIDRow, error) {
	bio, err := loadersOf(ctx).bios.Load(ctx, u.ID)
	if bio == nil || err != nil {
		return nil, err
	}
	return loadersOf(ctx).items.Load(ctx, bio.ID)
}

func (r users) Items(ctx context.Context, u *db.Usr, first int, after *int64) (*schema.ItemPage, error) {
	if err := r.Limits.checkList(first); err != nil {
		return nil, err
	}
	ids, err := loadersOf(ctx).written.Load(ctx, pageOf[int64, before]{u.ID, before{orElse(after, math.MaxInt64), int32(first) + 1}})
	if err != nil {
		return nil, err
	}
	return itemPage(ctx, ids, first)
}
